"""The experiments beside published results: each can be read, and sets BPR beside its softmax."""

from pathlib import Path

import polars as pl
import pytest

from fmpair.config.read import read

FOLDER = Path(__file__).parents[2] / "examples" / "benchmarks"


@pytest.mark.parametrize("name", ["frappe_cfm", "ml1m_ncf", "yelp2018"])
def test_a_benchmark_compares_losses_on_given_parts(name, tmp_path):
    changes = []
    if name == "ml1m_ncf":  # its candidates lie in a file that a script writes
        pl.DataFrame({"user": [0], "item": [1]}).write_csv(tmp_path / "given.csv")
        changes = [f"protocols.among 100.items={tmp_path / 'given.csv'}"]
    found = read(FOLDER / f"{name}.yaml", changes)
    assert found.split.kind == "given" and found.compare.baseline == "BPR"
    losses = [model.options.get("loss", "bpr") for model in found.models if model.kind == "fm-pair"]
    assert {"bpr", "softmax"} <= set(losses)


@pytest.mark.parametrize("way", ["damping", "popularity_power"])
def test_the_page_about_popularity_reduces_it_step_by_step(way):
    found = read(FOLDER / "popularity.yaml")
    for loss in ("bpr", "softmax"):
        own = [m.options for m in found.models if m.options.get("loss", "bpr") == loss]
        steps = [options[way] for options in own if way in options]
        assert steps == sorted(steps) and len(steps) > 2
