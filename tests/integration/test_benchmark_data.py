"""The scripts of benchmarks say in one line which data are missing, and where they are from."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fmpair.errors import DataError

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
import tasks  # noqa: E402

SOURCES = "(docs/benchmarks.md#data says where it is from)"


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("amazon-sports", "amazon-sports/sequences.txt"),
        ("amazon-cds", "amazon-cds/train.txt"),
        ("yoochoose-clock", "yoochoose-100k/train_full.txt"),
    ],
)
def test_a_missing_file_of_a_set_is_named(name, needed, monkeypatch, tmp_path):
    folder = needed.partition("/")[0]
    monkeypatch.delenv("FMPAIR_DATA", raising=False)
    unset = f"{folder}: FMPAIR_DATA is not set, it must name the folder that has {needed} {SOURCES}"
    missing = f"{folder}: the folder FMPAIR_DATA has no {needed} or {needed}.gz {SOURCES}"
    for ask in (tasks.require, lambda name: tasks.TASKS[name](0)):
        monkeypatch.delenv("FMPAIR_DATA", raising=False)
        with pytest.raises(DataError, match=f"^{re.escape(unset)}$"):
            ask(name)
        monkeypatch.setenv("FMPAIR_DATA", str(tmp_path))
        with pytest.raises(DataError, match=f"^{re.escape(missing)}$"):
            ask(name)


def test_the_page_lists_the_files_of_every_such_set():
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert "\n## Data\n" in page
    for task in tasks.TASKS.values():
        if task.func in tasks.FILES:
            files = ", ".join(f"`{file}`" for file in tasks.FILES[task.func])
            assert f"| `{task.args[0]}` | {files} | " in page


def test_files_are_read_plain_or_gzipped(monkeypatch, tmp_path):
    monkeypatch.setenv("FMPAIR_DATA", str(tmp_path))
    (tmp_path / "amazon-cds").mkdir()
    plain, gzipped = (tmp_path / "amazon-cds" / name for name in ("train.txt", "test.txt.gz"))
    plain.touch()
    with pytest.raises(DataError, match=r"has no amazon-cds/test\.txt or"):
        tasks.require("amazon-cds")
    gzipped.touch()
    tasks.require("amazon-cds")
    assert tasks.file_of("amazon-cds", "train.txt") == plain
    assert tasks.file_of("amazon-cds", "test.txt") == gzipped


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        ["leaderboard.py", "amazon-cds", "--model", "popularity", "--device", "cpu"],
        ["regularization_choice.py", "amazon-cds"],
        ["history_choice.py", "amazon-cds"],
        ["cold_items.py", "--models", "content-knn"],
    ],
    ids=lambda asked: asked[0],
)
def test_a_script_without_data_ends_with_one_line(asked, tmp_path):
    script, *rest = asked
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *rest],
        env={**os.environ, "FMPAIR_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 1 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert re.match(r"error: (amazon-cds|citeulike-a): the folder FMPAIR_DATA has no ", line)
    assert line.endswith(SOURCES)
