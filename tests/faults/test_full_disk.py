"""A disk that is full ends a run in one line; with room again it comes to the same tables."""

import os
import resource
import shutil
import subprocess

import pytest
from small_run import cases, chance, saved, started
from tiny_run import same

from fmpair.config.read import read
from fmpair.experiment.folder import results as read_results
from fmpair.experiment.run import run

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The experiment file, and the results of a run with room enough."""
    folder = tmp_path_factory.mktemp("whole")
    file = saved(folder)
    return file, run(read(file, [f"output.folder={folder / 'run'}"]))


def refused(process):
    """Whether a run ended with exit code 1 and said in its last line what could not be written."""
    said = process.communicate(timeout=300)[1]
    assert "Traceback" not in said, said
    last = said.splitlines()[-1]
    assert process.returncode == 1, said
    assert last.startswith("error: cannot "), said
    assert "No space left on device" in last or "File too large" in last, said
    return True


@pytest.mark.parametrize("workers", [1, 2])
def test_files_that_must_not_grow_end_a_run_in_one_line(whole, tmp_path, workers):
    file, results = whole
    dice, folder = chance(), tmp_path / "run"
    for _ in range(min(cases(1), 20)):
        most = dice.choice([1, 200, 900, 1500, 3000])  # bytes; a record has some thousand
        process = started(
            file, folder, "--workers", str(workers),
            preexec_fn=lambda most=most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        )  # fmt: skip
        assert refused(process)
        assert not list(folder.rglob("*.part")) or workers == 2
    assert same(run(read(file, [f"output.folder={folder}"])), results)


def mounted(place, size):
    """A disk of so many kilobytes, None where we may not make one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
    done = shutil.which("mount") and subprocess.run(command, capture_output=True)
    return place if done and done.returncode == 0 else None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
def test_a_disk_that_fills_up_costs_no_result(whole, tmp_path):
    file, results = whole
    dice = chance()
    for number in range(min(cases(1), 20)):
        place = mounted(tmp_path / str(number), dice.randrange(8, 120))
        if place is None:
            pytest.skip("we may not mount")
        try:
            assert refused(started(file, place / "run", "--workers", str(1 + number % 2)))
            grow = ["mount", "-o", "remount,size=50m", str(place)]
            subprocess.run(grow, check=True, capture_output=True)
            process = started(file, place / "run")
            said = process.communicate(timeout=300)[1]
            assert process.returncode == 0, said
            assert same(read_results(place / "run"), results)
        finally:
            subprocess.run(["umount", str(place)], check=True)
