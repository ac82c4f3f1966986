"""What an experiment leaves to its data."""

from __future__ import annotations

from dataclasses import replace

from fmpair.config.experiment import Experiment
from fmpair.data import Dataset
from fmpair.errors import in_file, spelled
from fmpair.evaluation.repeats import usual_protocol, why_usual

LABEL = "full ranking"


def settled(experiment: Experiment, data: Dataset) -> Experiment:
    """The experiment with a protocol, which the data choose where it has none."""
    if experiment.protocols:
        return experiment
    return replace(experiment, protocols={LABEL: usual_protocol(data)})


def why(experiment: Experiment, data: Dataset) -> str:
    """The reason for what `settled` chooses; empty where the experiment says it all."""
    return "" if experiment.protocols else f"protocol: {spelled(why_usual(data), in_file)}"
