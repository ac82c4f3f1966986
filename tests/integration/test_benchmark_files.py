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


def test_the_page_about_popularity_raises_the_power_step_by_step():
    found = read(FOLDER / "popularity.yaml")
    powers = [model.options["power"] for model in found.models if "power" in model.options]
    assert powers == sorted(powers) and len(powers) > 2
