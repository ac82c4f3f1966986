import pytest

from fmpair.reproduction import part

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
    monkeypatch.setattr(part, "FOLDER", tmp_path / "paper")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_reproduce_ends_with_the_path_of_the_report(fmpair, tiny):
    done = fmpair("reproduce", "table2", "--quick")
    assert done.code == 0
    assert done.out.splitlines()[-1].endswith("runs/paper-quick/report.html")
    assert "1 of 1: table2-movielens-legacy" in done.err


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
