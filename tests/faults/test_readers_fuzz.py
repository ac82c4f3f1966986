"""Whatever stands in a file, it is read or refused in one line, with little time and memory.

FMPAIR_FAULT_CASES says how many damaged inputs every reader gets. The same seeds give the same
inputs everywhere.
"""

import json
import os
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest
from faults.batch import SAMPLES, said_well, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmpair.data.read import FORMATS
from fmpair.errors import FmpairError

CASES = int(os.environ.get("FMPAIR_FAULT_CASES", "50"))
TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
GROUPS = 3  # processes, so that one that dies does not take all cases along

MARKS = "0123456789abxyz ,;:|\t\n\r\"'()[]{}<>-+.#&*!%@=/\\_\0\u00e9\u2028"
WORDS = [
    "user",
    "item",
    "rating",
    "models",
    "kind",
    "data",
    "Q0",
    "1:1",
    "name:token",
    "::",
    "{grid: [",
]
PIECES = st.lists(st.text(MARKS, max_size=8) | st.sampled_from(WORDS), max_size=40).map("".join)
CONTENT = st.binary(max_size=400) | PIECES.map(lambda text: text.encode("utf-8"))
few, usual = (
    settings(max_examples=n, suppress_health_check=[HealthCheck.function_scoped_fixture])
    for n in (5, CASES)
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_the_undamaged_input_is_read(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SAMPLES[name].files)
    SAMPLES[name].read(tmp_path)


def test_every_format_has_an_input_to_damage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    used = set()
    for format, reader in FORMATS.items():
        monkeypatch.setitem(FORMATS, format, noting(reader, used))
    for name, sample in SAMPLES.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name, sample.files)
        sample.read(tmp_path / name)
    assert used == {reader.__wrapped__ for reader in FORMATS.values()}


def noting(reader, used):
    @wraps(reader)
    def noted(*given, **options):
        used.add(reader)
        return reader(*given, **options)

    return noted


@pytest.mark.parametrize(
    "tried", [few, pytest.param(usual, marks=pytest.mark.faults)], ids=["few", "many"]
)
@pytest.mark.parametrize("name", SAMPLES)
def test_anything_at_all_is_read_or_refused_in_one_line(name, tried, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = next(iter(SAMPLES[name].files))
    write(tmp_path, SAMPLES[name].files)

    @tried
    @given(CONTENT)
    def holds(content):
        (tmp_path / first).write_bytes(content)
        try:
            SAMPLES[name].read(tmp_path)
        except FmpairError as error:
            assert said_well(error) in ("refused", "caught")

    holds()


@pytest.mark.faults
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory and time are Linux's")
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_damaged_file_is_read_or_refused_within_two_seconds_and_500_mb(group, tmp_path):
    names = list(SAMPLES)[group::GROUPS]
    progress = tmp_path / "progress"
    done = subprocess.run(
        [sys.executable, "-m", "faults.batch", "0", str(CASES), *names],
        env={**os.environ, "PROGRESS": str(progress), "POLARS_MAX_THREADS": "2",
             "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"the process ended at {progress.read_text()}: {done.stderr[-500:]}"
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case for case in found if "seed" in case] == []
    counted = {case["sample"]: sum(case["counts"].values()) for case in found}
    assert counted == dict.fromkeys(names, CASES)
