"""Examples, run as they stand."""

import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fmpair.config.read import read
from fmpair.errors import ConfigError
from fmpair.experiment.run import run
from fmpair.models import catalog
from fmpair.report.output import write

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
OF_PUBLIC_DATA = [
    path for path in EXAMPLES if re.search(r"^data: \{set:", path.read_text("utf-8"), re.MULTILINE)
]


def read_of(path, overrides=()):
    """The experiment of an example; skips where what it needs is not installed."""
    try:
        return read(path, list(overrides))
    except ConfigError as error:
        if all("pip install" in mistake for mistake in error.mistakes):
            pytest.skip(error.mistakes[0])
        raise


def run_of(path, folder, overrides=(), epochs=None):
    """The results of an example.

    overrides: as on the command line. epochs: of every model that has such an option.
    """
    experiment = read_of(path, [f"output.folder={folder}", *overrides])
    if epochs:
        models = tuple(shortened(model, epochs) for model in experiment.models)
        experiment = replace(experiment, models=models)
    return run(experiment)


def shortened(model, epochs):
    if "epochs" not in catalog.options(model.kind)["option"]:
        return model
    return replace(model, options={**model.options, "epochs": epochs})


def assert_reported(results, folder):
    assert results.cells["error"].drop_nulls().to_list() == []
    text = write(results, folder).read_text("utf-8")
    assert all(model.name in text for model in results.experiment.models)


def means(results):
    """(model, metric) -> mean over folds and seeds, under the first protocol."""
    first = next(iter(results.experiment.protocols))
    found = results.values.filter(protocol=first)
    frame = found.group_by("model", "metric").agg(pl.col("value").mean())
    return {(row["model"], row["metric"]): row["value"] for row in frame.iter_rows(named=True)}
