"""No compiled code ever runs that was made of other sources; and where it cannot be kept.

Processes of their own run copies of the package, with one quick kernel (`_shuffle_head`) whose
callees stand in another file. What happens to files alone is in test_kernel_cache.py.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from fmpair import kernel_cache
from fmpair.jit import OnDisk

SOURCES = Path(kernel_cache.__file__).parent
SHUFFLE = """
import json
import numpy as np
from fmpair.ranking import ranks

items = np.arange(50, dtype=np.int32)
ranks._shuffle_head(items, 50, 10, np.uint64(7))
compiled = sum(ranks._shuffle_head.stats.cache_misses.values())
print(json.dumps({"result": items[:10].tolist(), "compiled": compiled}))
"""
FIT = """
import json, hashlib, logging
from fmpair import FMPair
from fmpair.testing import two_tastes
from fmpair.engine.cpu import cpu_training

logging.getLogger("fmpair.progress").setLevel("INFO")
logging.getLogger("fmpair.progress").addHandler(logging.StreamHandler())

model = FMPair(loss="bpr", factors=4, epochs=2, blocks=1, threads=1).fit(two_tastes())
model.recommend("u1")
digest = hashlib.sha256(model.item_vectors.tobytes()).hexdigest()
print(json.dumps({"result": digest, "compiled": cpu_training._compilations()}))
"""
# A callee's constant, by another of the same length.
GOLDEN = ("rng.py", "GOLDEN = 0x9E3779B97F4A7C15", "GOLDEN = 0x9E3779B97F4A7C17")


class Machine:
    """A copy of the package, and folders of caches that nothing else uses."""

    def __init__(self, root):
        self.root, self.site = root, root / "site"
        for name in ("home", "temporary", "elsewhere"):
            (root / name).mkdir()
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCES, self.site / "fmpair", ignore=ignored)

    def start(self, code=SHUFFLE, **environment):
        own = {
            "PYTHONPATH": self.site,
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": self.root / "home",
            "TMPDIR": self.root / "temporary",
        }
        kept = {name: text for name, text in os.environ.items() if name not in ("FMPAIR_CACHE",)}
        command = [*bound_by_modes(), sys.executable, "-c", code]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=self.root / "elsewhere", env={**kept, **own, **environment},
        )  # fmt: skip

    def run(self, *arguments, **environment):
        """(what came out, how many kernels were compiled, what was said)."""
        return ended(self.start(*arguments, **environment))

    def edit(self, file, old, new):
        path = self.site / "fmpair" / file
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def kernels(self, folder="home"):
        return sorted((self.root / folder).rglob("*.kernel"))


def bound_by_modes():
    """What a command must begin with, so that it cannot write what modes forbid: root could."""
    if os.geteuid():
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("without setpriv root can write everywhere")
    return ["setpriv", "--bounding-set", "-all"]


def ended(process):
    out, said = process.communicate()
    assert process.returncode == 0, said
    found = json.loads(out)
    return found["result"], found["compiled"], said


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.fixture
def read_only(machine):
    """A machine on which nothing can be written but the temporary folder."""
    locked = [machine.site / "fmpair", *(machine.root / n for n in ("site", "home", "elsewhere"))]
    for folder in locked:
        folder.chmod(0o555)
    yield machine
    for folder in locked:
        folder.chmod(0o755)


def test_a_change_of_a_callee_in_another_file_is_seen_by_the_next_process(machine):
    before, compiled, _ = machine.run()
    assert compiled == 1
    machine.site = machine.site.rename(machine.root / "moved")
    for path in machine.site.rglob("*.py"):
        os.utime(path, (1, 1))
    assert machine.run() == (before, 0, "")  # the same sources, wherever and however old
    machine.edit(*GOLDEN)
    after, compiled, _ = machine.run()
    assert after != before and compiled == 1


@pytest.mark.thorough
def test_a_change_of_what_the_training_kernel_calls_is_seen_by_the_next_fit(machine):
    before, compiled, said = machine.run(FIT)
    assert compiled == 1 and said.count("compiled the training kernel for this machine") == 1
    assert machine.run(FIT) == (before, 0, "")
    machine.edit(
        "engine/cpu/simd.py",
        "    loss = builder.fneg(gain_i)\n    for",
        "    loss = gain_i\n    for",
    )
    after, compiled, _ = machine.run(FIT)
    assert after != before and compiled == 1


def wheel(folder, package, version):
    path, about = folder / f"fmpair-{version}-py3-none-any.whl", f"fmpair-{version}.dist-info"
    texts = {
        f"fmpair/{p.relative_to(package)}": p.read_text("utf-8") for p in package.rglob("*.py")
    }
    texts[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: fmpair\nVersion: {version}\n"
    texts[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    texts[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*texts, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as file:
        for name, text in texts.items():
            file.writestr(zipfile.ZipInfo(name), text)
    return path


@pytest.mark.thorough  # it copies packages; the test above changes the same sources in their place
def test_an_upgraded_package_runs_no_kernel_of_the_version_before(machine):
    made_of, environment = machine.site / "fmpair", machine.root / "environment"
    venv.create(environment)
    python = environment / Path(sys.executable).relative_to(sys.prefix)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    [machine.site] = environment.rglob("site-packages")
    results = []
    for version in ("1.0", "1.1"):
        path = wheel(machine.root, made_of, version)
        subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", path], check=True)
        for path in machine.site.rglob("*.py"):
            os.utime(path, (10**9, 10**9))  # neither time nor size tell the two apart
        results.append(machine.run()[0])
        file, old, new = GOLDEN
        (made_of / file).write_text((made_of / file).read_text("utf-8").replace(old, new), "utf-8")
    assert results[0] != results[1]


def test_every_module_with_kernels_counts_for_the_stamp():
    decorator = re.compile(r"^@(kernel|inline|intrinsic)\b", re.MULTILINE)
    users = [path for path in SOURCES.rglob("*.py") if decorator.search(path.read_text("utf-8"))]
    assert len(users) > 10 and set(users) <= set(kernel_cache.sources())


def test_where_only_a_temporary_folder_can_be_written_code_is_kept_there(read_only):
    result, _, said = read_only.run()
    assert said == "" and not read_only.kernels()
    [folder] = {path.parents[2] for path in read_only.kernels("temporary")}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert read_only.run(HOME="/dev/null") == (result, 0, "")


def test_where_nothing_can_be_written_code_is_compiled_in_memory_and_that_is_said_once(read_only):
    nowhere = f"import tempfile; tempfile.tempdir = {str(read_only.root / 'home')!r}\n"
    another = "ranks.shared(*np.zeros((4, 1), np.int64))\n"
    _, compiled, said = read_only.run(nowhere + SHUFFLE + another)
    assert compiled == 1 and not read_only.kernels("temporary")
    assert said.count("every process compiles again") == said.count("\n") == 1
    assert "Set FMPAIR_CACHE to a writable folder" in said


def test_a_full_disk_costs_no_more_than_compiling_again(machine):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    _, compiled, said = machine.run(limit + SHUFFLE)
    assert compiled == 1 and said.count("every process compiles again") == 1
    assert [path for path in machine.root.rglob("*") if ".part" in path.name] == []


@pytest.mark.thorough
def test_a_file_that_cannot_be_used_is_compiled_anew_and_mended(machine):
    result, _, _ = machine.run()
    [path] = machine.kernels()
    path.write_bytes(path.read_bytes()[:-100])
    assert machine.run() == (result, 1, "")
    path.write_bytes(hashlib.sha256(b"no kernel").digest() + b"no kernel")  # whole, but no kernel
    assert machine.run() == (result, 1, "")
    assert machine.run() == (result, 0, "")


def test_a_numba_that_has_changed_inside_costs_the_kept_code_only(monkeypatch, caplog):
    monkeypatch.setattr(kernel_cache, "_lost", [])
    changed = OnDisk(ended)
    assert changed.load_overload((), object()) is None
    changed.save_overload((), object())
    changed.save_overload((), object())
    assert caplog.text.count("this version of Numba") == 1 and kernel_cache.lost()


@pytest.mark.thorough
def test_processes_at_once_do_not_disturb_each_other(machine):
    first, second = [ended(process) for process in (machine.start(), machine.start())]
    assert first[0] == second[0]
    assert machine.run() == (first[0], 0, "")
