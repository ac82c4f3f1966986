"""The cells of an experiment, in the order of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from fmpair.config.candidate import needs_validation
from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.grid import placed
from fmpair.errors import OptionError
from fmpair.experiment.cell import TEST, VALIDATION, Cell, canonical
from fmpair.experiment.prepare import PreparedData
from fmpair.experiment.search import trials_of
from fmpair.metrics import Metric
from fmpair.metrics.metric import ALONE

Chosen = Mapping[tuple[str, int], Mapping[str, Any]]  # (model, fold) -> options tuning chose


@dataclass(frozen=True, eq=False)
class Trial:
    """One tuning trial: its number in its study, and its cell."""

    number: int
    cell: Cell


def cells(experiment: Experiment, bench: PreparedData, chosen: Chosen) -> list[Cell]:
    """Every model on every fold with every seed, evaluated on the test set."""
    return [
        cell_of(
            experiment, bench, with_options(model, chosen.get((model.name, fold), {})), fold, seed
        )
        for model in experiment.models
        for fold in range(len(bench.splits))
        for seed in model.seeds or experiment.seeds
    ]


def cell_of(
    experiment: Experiment,
    bench: PreparedData,
    model: Candidate,
    fold: int,
    seed: int,
    part: str = TEST,
) -> Cell:
    """One model on one fold; a trial is evaluated by one metric under the first protocol only."""
    protocols, metrics = tuple(experiment.protocols.values()), experiment.metrics
    trial = part == VALIDATION
    return Cell(
        data=bench.fingerprint,
        split=bench.hashes[fold],
        fold=fold,
        seed=seed,
        model=model,
        protocols=protocols[:1] if trial else protocols,
        metrics=(tuning_metric(experiment),) if trial else metrics,
        views=() if trial else experiment.views,
        part=part,
        stop_by=stopping_metric(experiment),
        curve=0 if trial else experiment.run.curve,
    )


def with_options(model: Candidate, chosen: Mapping[str, Any]) -> Candidate:
    """The candidate with what tuning chose, and nothing left to tune."""
    return replace(model, options=placed(model.options, chosen), search={})


def tuning_metric(experiment: Experiment) -> str:
    """The metric that trials optimise."""
    return experiment.tune.metric or experiment.metrics[0]


def stopping_metric(experiment: Experiment) -> str:
    """What early stopping watches: the metric of tuning, else the first that one rank decides."""
    wanted = (tuning_metric(experiment), *experiment.metrics)
    return next((name for name in wanted if Metric.parse(name).name in ALONE), "ndcg@10")


def size(experiment: Experiment, folds: int) -> int:
    """How many cells and trials there are in all."""
    trials = sum(trials_of(model, experiment.tune.trials) for model in experiment.models)
    fits = sum(len(model.seeds or experiment.seeds) for model in experiment.models)
    return folds * (fits + trials)


def check(experiment: Experiment, bench: PreparedData) -> None:
    """Before any training: a model that needs a validation set has one in every fold."""
    short = any(not len(split.validation) for split in bench.splits)
    for model in experiment.models:
        if short and (model.search or model.stop is not None):
            raise OptionError(needs_validation(model.name))


def as_plain(planned: list[Cell], trials: list[Trial]) -> dict[str, Any]:
    """The plan as it is kept in the run folder."""
    return {
        "cells": [_row(cell) for cell in planned],
        "trials": [{**_row(trial.cell), "trial": trial.number} for trial in trials],
    }


def _row(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "model": cell.model.name,
        "fold": cell.fold,
        "seed": cell.seed,
        "options": canonical(cell.model.options),
    }
