"""The example of the demo runs as it stands, and is what `fmpair demo` shows."""

import pytest
from example_runs import EXAMPLES, assert_reported, means, run_of

from fmpair.cli import run as fmpair

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The results, and the folder they are in."""
    [path] = [path for path in EXAMPLES if path.stem == "demo"]
    folder = tmp_path_factory.mktemp("demo") / "runs" / "demo"
    return run_of(path, folder), folder


def test_the_example_runs_as_it_stands_and_writes_its_report(demo):
    assert_reported(*demo)


def test_context_is_worth_something_in_the_demo(demo):
    found = means(demo[0])
    blind, seeing = (found[f"FM-Pair {how} context", "ndcg@10"] for how in ("without", "with"))
    assert found["Popularity", "ndcg@10"] < blind < seeing


def test_the_demo_is_the_example_with_lists_and_ends_with_the_report(demo, monkeypatch, capsys):
    results, folder = demo
    monkeypatch.chdir(folder.parents[1])
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    assert fmpair(["demo"]) == 0
    assert len(before) >= len(results.cells), "what the example has made is not made again"
    assert before == {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    shown = capsys.readouterr().out
    for words in (
        "Popularity", "without", "with", "is best", "The oracle that generated the data", "NDCG@10",
        "in the morning", "at night", "comes first", "score", "fmpair init",
    ):  # fmt: skip
        assert words in shown
    page = shown.strip().splitlines()[-1]
    assert page == "runs/demo/report.html"
    assert "FM-Pair with context is best" in (folder / "report.html").read_text("utf-8")
