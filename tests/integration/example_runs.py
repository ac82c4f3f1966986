"""Examples, run as they stand."""

import re
from pathlib import Path

import pytest

from fmpair.config.read import read
from fmpair.errors import ConfigError
from fmpair.experiment.run import run
from fmpair.report.write import write

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
OF_PUBLIC_DATA = [
    path for path in EXAMPLES if re.search(r"^data: \{set:", path.read_text("utf-8"), re.MULTILINE)
]


def run_of(path, folder):
    """The results of an example; skips where what it needs is not installed."""
    try:
        experiment = read(path, [f"output.folder={folder}"])
    except ConfigError as error:
        if all("pip install" in mistake for mistake in error.mistakes):
            pytest.skip(error.mistakes[0])
        raise
    return run(experiment)


def assert_reported(results, folder):
    assert results.cells["error"].drop_nulls().to_list() == []
    text = write(results, folder).read_text("utf-8")
    assert all(model.name in text for model in results.experiment.models)
