"""Every example on generated data runs as it stands and answers its question."""

import re

import polars as pl
import pytest
from example_runs import EXAMPLES, OF_PUBLIC_DATA, assert_reported, run_of

from fmpair.cli import run as fmpair
from fmpair.report.comparison import comparison

# Repeats that nothing is asked about.
FEWER = {"noise": ["seeds=[0, 1]", "split.count=2"]}
GENERATED = {path.stem: path for path in EXAMPLES if path not in OF_PUBLIC_DATA}


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
            kept[name] = run_of(GENERATED[name], folder, FEWER.get(name, ())), folder
        return kept[name]

    return once


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATED)
def test_an_example_runs_as_it_stands_and_writes_its_report(name, ran):
    assert_reported(*ran(name))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path):
    head = path.read_text("utf-8").splitlines()[:4]
    assert any(f"fmpair run examples/{path.name}" in line for line in head)
    assert any(re.search(r"\?|\.", line) for line in head)


@pytest.mark.slow
def test_context_is_worth_something_in_the_demo(ran):
    found = means(ran("demo")[0])
    blind, seeing = (found[f"FM-Pair {how} context", "ndcg@10"] for how in ("without", "with"))
    assert found["Popularity", "ndcg@10"] < blind < seeing


@pytest.mark.slow
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


@pytest.mark.slow
def test_attributes_help_with_items_nobody_has_chosen(ran):
    found = means(ran("cold_items")[0])
    for metric in ("recall@100", "auc"):
        assert found["with attributes", metric] > found["ids and context only", metric]


@pytest.mark.slow
def test_the_situation_helps_and_no_field_hurts(ran):
    found = comparison(ran("fields")[0], "full ranking").fields["FM-Pair"]
    verdicts = dict(found.select("field", "verdict").rows())
    assert {name for name, word in verdicts.items() if word == "helps"} == {
        "all fields", "daytime", "place",
    }  # fmt: skip
    assert "hurts" not in verdicts.values()


@pytest.mark.slow
def test_every_tuned_model_of_the_example_has_the_same_budget(ran):
    trials = ran("tuning")[0].trials
    assert set(trials["model"].value_counts()["count"]) == {5}


@pytest.mark.slow
def test_sampled_candidates_flatter_every_model(ran):
    values = ran("sampled")[0].values
    full = values.filter(protocol="full ranking", metric="ndcg@10")["value"].to_list()
    drawn = values.filter(protocol="50 at random", metric="ndcg@10[uni50]")["value"].to_list()
    assert len(full) == len(drawn) == 3
    assert all(a < b for a, b in zip(full, drawn))
