"""Every example on generated data runs and answers its question, with fewer factors and repeats.

Without the trials of `FMPair()`, which docs/ and test_defaults_on_logs.py run: each number of
factors is kernels to compile.
"""

import re

import pytest
from example_runs import EXAMPLES, OF_PUBLIC_DATA, assert_reported, means, run_of

from fmpair.report.model_comparison import comparison

SMALL = {"factors": 8, "order": 2, "times": "false", "history": 0}
FEW = {"factors": 8, "epochs": 4}
TINY = [f"data.generate.{name}" for name in ("users=100", "items=60", "events=2000")]


def changed(*numbers, **options):
    """Overrides: options of these models of the file."""
    return [f"models.{n}.{name}={value}" for n in numbers for name, value in options.items()]


FEWER = {
    "cold_items": changed(2, 3, factors=8, epochs=10, times="false"),
    "fields": [*TINY, *changed(0, factors=8, epochs=3, times="false")],
    "beyond_accuracy": [*TINY, *changed(3, **SMALL)],
    "cross_domain": changed(1, 2, 3, **FEW),
    "noise": [
        *TINY, "seeds=[0, 1]", "split.count=2", "models.0.epochs.grid=[2, 4]",
        "models.0.factors.grid=[4, 8]", "run.workers=1",
        *changed(0, order=2, times="false", history=0),
    ],
    "sampled": [*TINY, *changed(2, **SMALL)],
    "tomorrow": [*TINY, *changed(2, **SMALL)],
    "tuning": [
        *TINY, *changed(1, 2, epochs=4), "models.1.factors.search=[4, 8]",
        "models.2.factors.search=[4, 8]", *changed(2, order=2, times="false", history=0),
    ],
}  # fmt: skip
# That of the demo takes as long as the others together, and has a file of its own.
GENERATED = {p.stem: p for p in EXAMPLES if p not in OF_PUBLIC_DATA and p.stem != "demo"}


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
def test_an_example_runs_and_writes_its_report(name, ran, monkeypatch):
    monkeypatch.setattr("fmpair.report.figures.available", lambda: False)  # tests/report draws
    assert_reported(*ran(name))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_run_it(path):
    head = path.read_text("utf-8").splitlines()[:4]
    assert any(f"fmpair run examples/{path.name}" in line for line in head)
    assert any(re.search(r"\?|\.", line) for line in head)


@pytest.mark.slow
def test_attributes_help_with_items_nobody_has_chosen(ran):
    found = means(ran("cold_items")[0])
    for metric in ("recall@10[cold]", "auc[cold]"):
        for model in ("with attributes", "content-profile"):
            assert found[model, metric] > found["ids and context only", metric]


@pytest.mark.thorough  # test_which_fields_help.py asks the same of fewer events
def test_the_situation_helps_and_no_field_hurts(tmp_path):
    results = run_of(GENERATED["fields"], tmp_path, changed(0, factors=8))
    found = comparison(results, "full ranking").fields["FM-Pair"]
    verdicts = dict(found.select("field", "verdict").rows())
    helping = {name for name, word in verdicts.items() if word == "helps"}
    # generated tastes follow interests: what they add to ids is at the edge of what can be told
    assert helping - {"interests"} == {"all fields", "daytime", "place"}
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
