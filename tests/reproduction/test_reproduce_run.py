"""A part of the paper is run by the ordinary runner, and goes on where it stopped."""

from pathlib import Path

import pytest

from fmpair.experiment.results import results
from fmpair.reproduction import run as reproduction
from fmpair.reproduction.run import FOLDER

pytestmark = pytest.mark.slow

TINY = """\
data: {generate: {users: 40, items: 30, events: 900}}
split: {kind: folds, count: 2}
models:
  - {kind: popularity, name: Most-Popular}
  - {kind: fm-pair, name: FM-Pair, factors: 2, epochs: 2}
metrics: [recall@10]
views: []
compare: {baseline: FM-Pair}
output: {refit: false}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The paper as one small experiment."""
    path = tmp_path / "table2-movielens-legacy.yaml"
    path.write_text(TINY)
    monkeypatch.setattr(reproduction, "files", lambda part: [path])
    return tmp_path / "runs"


def test_an_experiment_gets_a_folder_and_a_report_of_its_own(tiny):
    found = reproduction.reproduce("table2", tiny)
    assert list(found) == ["table2-movielens-legacy"]
    assert (tiny / "table2-movielens-legacy" / "report.html").is_file()
    assert results(tiny / "table2-movielens-legacy").cells["error"].null_count() == 4


def test_what_is_done_is_not_done_again(tiny):
    reproduction.reproduce("table2", tiny)
    before = {path: path.stat().st_mtime_ns for path in tiny.rglob("cells/*.json")}
    reproduction.reproduce("table2", tiny)
    assert before == {path: path.stat().st_mtime_ns for path in tiny.rglob("cells/*.json")}


def test_two_runs_agree_to_the_digit(tiny, tmp_path):
    runs = [reproduction.reproduce("table2", place) for place in (tiny, tmp_path / "again")]
    first, second = (found["table2-movielens-legacy"].tables["full ranking"].rows for found in runs)
    assert first.equals(second)


def test_what_was_never_run_is_left_out(tiny):
    assert reproduction.gathered(tiny) == {}


def test_results_go_where_they_are_told(tmp_path):
    path = FOLDER / "table2-movielens-legacy.yaml"
    found = reproduction.experiment_of(path, tmp_path)
    assert Path(found.output.folder) == tmp_path / "table2-movielens-legacy"
