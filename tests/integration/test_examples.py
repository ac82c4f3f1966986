"""Every example runs as it stands and answers its question."""

import re
from pathlib import Path

import polars as pl
import pytest

from fmpair.cli import run as fmpair
from fmpair.config.read import read
from fmpair.errors import ConfigError
from fmpair.experiment.run import run
from fmpair.report.comparison import comparison
from fmpair.report.write import write

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def experiment_of(path, folder):
    try:
        return read(path, [f"output.folder={folder}"])
    except ConfigError as error:
        if all("pip install" in mistake for mistake in error.mistakes):
            pytest.skip(error.mistakes[0])
        raise


def example(path):
    """The name of an example, as a parameter; all tests of one example run in one process."""
    marks = [pytest.mark.slow, pytest.mark.xdist_group(path.stem)]
    if re.search(r"^data: \{set:", path.read_text("utf-8"), re.MULTILINE):
        marks.append(pytest.mark.realdata)
    return pytest.param(path.stem, marks=marks)


def about(name):
    """Marks of a test that asks about one example."""
    return lambda test: pytest.mark.slow(pytest.mark.xdist_group(name)(test))


def means(results):
    """(model, metric) -> mean over folds and seeds, under the first protocol."""
    first = next(iter(results.experiment.protocols))
    found = results.values.filter(protocol=first)
    frame = found.group_by("model", "metric").agg(pl.col("value").mean())
    return {(row["model"], row["metric"]): row["value"] for row in frame.iter_rows(named=True)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Runs an example once, however many tests ask about it."""
    kept = {}

    def once(name):
        if name not in kept:
            folder = tmp_path_factory.mktemp(name) / "runs" / name
            kept[name] = run(experiment_of(ROOT / "examples" / f"{name}.yaml", folder)), folder
        return kept[name]

    return once


@pytest.mark.parametrize("name", [example(path) for path in EXAMPLES])
def test_an_example_runs_as_it_stands_and_writes_its_report(name, ran):
    results, folder = ran(name)
    assert results.cells["error"].drop_nulls().to_list() == []
    page = write(results, folder)
    text = page.read_text("utf-8")
    assert all(model.name in text for model in results.experiment.models)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path):
    head = path.read_text("utf-8").splitlines()[:4]
    assert any(f"fmpair run examples/{path.name}" in line for line in head)
    assert any(re.search(r"\?|\.", line) for line in head)


@about("demo")
def test_context_is_worth_something_in_the_demo(ran):
    found = means(ran("demo")[0])
    blind, seeing = (found[f"FM-Pair {how} context", "ndcg@10"] for how in ("without", "with"))
    assert found["Popularity", "ndcg@10"] < blind < seeing


@about("demo")
def test_the_demo_is_the_example_with_lists_and_ends_with_the_report(ran, monkeypatch, capsys):
    results, folder = ran("demo")
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


@about("cold_items")
def test_attributes_help_with_items_nobody_has_chosen(ran):
    found = means(ran("cold_items")[0])
    for metric in ("recall@100", "auc"):
        assert found["with attributes", metric] > found["ids and context only", metric]


@about("fields")
def test_the_situation_helps_and_no_field_hurts(ran):
    found = comparison(ran("fields")[0], "full ranking").fields["FM-Pair"]
    verdicts = dict(found.select("field", "verdict").rows())
    assert {name for name, word in verdicts.items() if word == "helps"} == {
        "all fields", "daytime", "place",
    }  # fmt: skip
    assert "hurts" not in verdicts.values()


@about("tuning")
def test_every_tuned_model_of_the_example_has_the_same_budget(ran):
    trials = ran("tuning")[0].trials
    assert set(trials["model"].value_counts()["count"]) == {5}


@about("sampled")
def test_sampled_candidates_flatter_every_model(ran):
    values = ran("sampled")[0].values
    full = values.filter(protocol="full ranking", metric="ndcg@10")["value"].to_list()
    drawn = values.filter(protocol="50 at random", metric="ndcg@10[uni50]")["value"].to_list()
    assert len(full) == len(drawn) == 3
    assert all(a < b for a, b in zip(full, drawn))
