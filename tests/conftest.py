"""What holds for every test.

Laws hold on slow and busy machines too, and are tried on the same examples everywhere;
`HYPOTHESIS_PROFILE=search` draws new examples on every run. Tests marked `realdata` need the
folder of public data that FMPAIR_DATA names.
"""

import gc
import os
import signal
import stat

import pytest
from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure():
    """Let tests send SIGINT: jobs that a shell runs in the background ignore it, as do children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def device(tmp_path_factory):
    """A device that swallows everything; not /dev/null, which a mistake could take from all."""
    path = tmp_path_factory.mktemp("devices") / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make devices")
    return path


# Files that take longest, the longest first: they begin before the others of their part. A process
# is given its next file while its last two tests still run, so what comes last must be short: else
# one core waits for the other. Those after test_real_examples.py are long with `make faults` and
# `make thorough` only.
LONG = (
    "test_contract_of_engines.py", "test_docs.py", "test_ray.py", "test_docs_site.py",
    "test_contract.py", "test_examples.py", "test_tuning.py", "test_jit.py", "test_forked.py",
    "test_minibatches.py", "test_page.py", "test_typing.py", "test_model_comparison.py",
    "test_migration.py", "test_command_line.py", "test_commands.py", "test_compile_verb.py",
    "test_supervisor.py", "test_report_output.py", "test_shop_verdicts.py", "test_run.py",
    "test_run_verb.py", "test_demo_example.py", "test_fuzz.py", "test_checkpoint.py",
    "test_torch_training.py", "test_swaps.py", "test_shared_tables.py", "test_real_examples.py",
    "test_kills.py", "test_real_data.py", "test_agreement.py", "test_service_kills.py",
    "test_significance.py", "test_damaged_files.py", "test_update.py", "test_defaults_on_logs.py",
    "test_resume.py", "test_full_store.py", "test_wraprec_samples.py", "test_store_trouble.py",
    "test_container.py", "test_full_disk.py",
)  # fmt: skip
LATER = ("slow", "realdata", "faults", "thorough")
# The first file compiles most kernels. Meanwhile others run tests that fit next to nothing, or
# compile kernels of their own: two processes that fit at once would compile the same kernels.
FIRST, WITHOUT_FITS = LONG[0], ("config", "data", "events", "features", "metrics")
BESIDE = (
    "test_docs_site.py", "test_jit.py", "test_torch_training.py", "test_architecture.py",
    "test_statistics_of_results.py", "test_draws.py",
    "test_objective.py", "test_kernel_cache.py", "test_files.py",
)  # fmt: skip
FITTING = ("test_migration.py",)  # of the folders WITHOUT_FITS


def in_turn(items):
    """The tests file by file: files with quick tests, then slow ones, faults and thorough ones."""
    parts = {}
    for item in items:
        own = [LATER.index(mark.name) for mark in item.iter_markers() if mark.name in LATER]
        parts.setdefault(item.path, []).append(max(own, default=-1))
    return {path: _place(path, min(part)) for path, part in parts.items()}


def _place(path, part):
    alone = path.parent.name in WITHOUT_FITS and path.name not in FITTING
    first = path.name == FIRST or path.name in BESIDE or alone
    order = LONG.index(path.name) if path.name in LONG else len(LONG)
    return not first, part >= 0, order, part


def pytest_collection_finish():
    """Search for garbage seldom, and not in what was imported and collected."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_collection_modifyitems(items):
    turn = in_turn(items)
    items.sort(key=lambda item: turn[item.path])
    if os.environ.get("FMPAIR_DATA"):
        return
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(pytest.mark.skip(reason="FMPAIR_DATA is not set"))
