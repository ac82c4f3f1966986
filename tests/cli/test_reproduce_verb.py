import sys

import pytest

from fmpair.reproduction import run

pytestmark = pytest.mark.slow

TINY = """\
data: {generate: {users: 40, items: 30, events: 900}}
split: {kind: folds, count: 2}
models: [popularity]
metrics: [recall@10]
views: []
output: {refit: false}
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The paper as one small experiment, in a folder of its own."""
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "table2-movielens-legacy.yaml").write_text(TINY)
    monkeypatch.setattr(run, "FOLDER", tmp_path / "paper")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_reproduce_ends_with_the_path_of_the_report(fmpair, tiny):
    done = fmpair("reproduce", "table2", "--quick")
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith("runs/paper-quick/report.html")
    assert "1 of 1: table2-movielens-legacy" in done.err


def test_what_is_missing_is_said_before_any_work(fmpair, tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = fmpair("reproduce", "table2", "--quick")
    line = "error: figures need matplotlib: pip install 'fmpair[report]'\n"
    assert (done.code, done.err, done.out) == (1, line, "")
    assert not (tiny / "runs").exists()
    assert fmpair("reproduce", "table2", "--list").code == 0


def test_an_experiment_that_fails_gives_exit_code_1_and_is_named(fmpair, tiny):
    broken = TINY.replace("popularity", "{kind: fm-pair, context: [wether]}")
    (tiny / "paper" / "table2-movielens-broken.yaml").write_text(broken)
    done = fmpair("reproduce", "table2", "--quick")
    assert done.code == 1
    assert done.err.splitlines()[-1] == (
        "not finished, so not on the page: table2-movielens-broken"
    )


def test_the_page_can_be_written_elsewhere_too(fmpair, tiny):
    assert fmpair("reproduce", "-f", "made", "--page", "docs").code == 0
    assert (tiny / "docs" / "reproduction.md").read_text("utf-8").startswith("# The paper")
    assert (tiny / "docs" / "images" / "layout-domains.svg").is_file()


def test_the_files_can_be_named_without_a_run(fmpair):
    done = fmpair("reproduce", "table1", "--list")
    names = [line.rpartition("/")[2] for line in done.out.splitlines()]
    assert "table1-movielens.yaml" in names and done.err == ""


def test_an_unknown_part_is_a_users_mistake_told_in_one_line(fmpair):
    done = fmpair("reproduce", "table9")
    assert done.code != 0
    assert "unknown part of the paper 'table9'" in done.err and len(done.err.splitlines()) == 1
