"""The example of the demo runs, and is what `fmpair demo` shows.

As it stands it takes minutes (`make thorough`); otherwise it runs on fewer events, with fewer
factors and without trials.
"""

import pytest
from example_runs import EXAMPLES, assert_reported, means, run_of

from fmpair.cli import run as fmpair
from fmpair.cli import setup_commands

pytestmark = pytest.mark.slow

[EXAMPLE] = [path for path in EXAMPLES if path.stem == "demo"]
AS_IT_STANDS = "users: 800, items: 600, events: 40000"
SMALL = "users: 200, items: 100, events: 6000"


def smaller(text):
    """The text of the example with fewer events, folds and factors."""
    plain = "    factors: 8\n    epochs: 20\n    order: 2\n    times: false\n    history: 0\n"
    for old, new in (
        (AS_IT_STANDS, SMALL), ("count: 4", "count: 2"),
        ("  - kind: fm-pair\n", f"  - kind: fm-pair\n{plain}"), ("curve: 10", "curve: 0"),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture(
    scope="module", params=["small", pytest.param("as it stands", marks=pytest.mark.thorough)]
)
def demo(request, tmp_path_factory):
    """(the experiment file, its results, the folder they are in)."""
    root = tmp_path_factory.mktemp("demo")
    file, folder = EXAMPLE, root / "runs" / "demo"
    if request.param == "small":
        file = root / "demo.yaml"
        file.write_text(smaller(EXAMPLE.read_text("utf-8")), "utf-8")
    return file, run_of(file, folder), folder


def test_the_example_runs_and_writes_its_report(demo, monkeypatch):
    monkeypatch.setattr("fmpair.report.figures.available", lambda: False)  # the last test draws
    assert_reported(*demo[1:])


def test_context_is_worth_something_in_the_demo(demo):
    found = means(demo[1])
    blind, seeing = (found[f"FM-Pair {how} context", "ndcg@10"] for how in ("without", "with"))
    assert found["Popularity", "ndcg@10"] < blind < seeing


def test_the_demo_is_the_example_with_lists_and_ends_with_the_report(demo, monkeypatch, capsys):
    file, results, folder = demo
    monkeypatch.chdir(folder.parents[1])
    monkeypatch.setattr(setup_commands, "FILE", file)
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


def test_the_file_of_the_demo_is_that_of_the_example():
    assert setup_commands.FILE.read_text("utf-8") == EXAMPLE.read_text("utf-8")
