"""Where the models of an experiment learn: settled when a run begins, a part of their options."""

from __future__ import annotations

from dataclasses import replace

from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.option_schema import options_of
from fmpair.device import CPU, settled
from fmpair.models.catalog import find

DEVICE = "device"


def located(experiment: Experiment) -> Experiment:
    """The experiment whose models are told where they learn, since results depend on it.

    A model that says so itself keeps to that; the CPU, which is usual, is not said.
    """
    device = settled(experiment.run.device)
    return replace(experiment, models=tuple(_located(m, device) for m in experiment.models))


def _located(model: Candidate, device: str) -> Candidate:
    given = model.options.get(DEVICE)
    if given is None and (device == CPU or DEVICE not in options_of(find(model.kind)).known):
        return model
    where = device if given is None else settled(str(given))
    options = {name: value for name, value in model.options.items() if name != DEVICE}
    return replace(model, options=options if where == CPU else {**options, DEVICE: where})
