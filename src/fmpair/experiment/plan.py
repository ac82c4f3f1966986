"""Plan a run: the cells of an experiment in the order of its tables, and the tuning budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.model_section import (
    budget_of,
    default_ranges,
    needs_validation,
    tunes_itself,
    with_options_set,
)
from fmpair.config.option_schema import options_of
from fmpair.data import Dataset
from fmpair.errors import OptionError
from fmpair.experiment.cell import TEST, VALIDATION, Cell, recipe_of, visible
from fmpair.experiment.prepared import PreparedData
from fmpair.metrics import ALONE, Metric
from fmpair.models.catalog import find
from fmpair.training.search import UNSET, Setting, Space, canonical
from fmpair.training.tuning import costs_of, epochs_of, plan_of

Chosen = Mapping[tuple[str, int], Mapping[str, Any]]  # (model, fold) -> options tuning chose


@dataclass(frozen=True, eq=False)
class Trial:
    """One tuning trial: its number in its study, its cell, and whether its setting is chosen."""

    number: int
    cell: Cell
    chosen: bool = False


def cells(experiment: Experiment, prepared: PreparedData, chosen: Chosen) -> list[Cell]:
    """Return the cells of every model, fold and seed, evaluated on the test set."""
    return [
        cell_of(experiment, prepared, with_options(model, options), fold, seed)
        for model in experiment.models
        for fold in range(len(prepared.splits))
        for options in [chosen.get((model.name, fold), {})]
        for seed in model.seeds or experiment.seeds
    ]


def cell_of(
    experiment: Experiment,
    prepared: PreparedData,
    model: Candidate,
    fold: int,
    seed: int,
    part: str = TEST,
) -> Cell:
    """Return the cell of a model on a fold; a trial uses one metric and the first protocol."""
    protocols, trial = tuple(experiment.protocols.values()), part == VALIDATION
    return Cell(
        data=prepared.fingerprint,
        split=prepared.hashes[fold],
        fold=fold,
        seed=seed,
        model=model,
        protocols=protocols[:1] if trial else protocols,
        metrics=(tuning_metric(experiment),) if trial else experiment.metrics,
        views=() if trial else experiment.views,
        part=part,
        stop_by=stopping_metric(experiment),
        curve=0 if trial else experiment.run.curve,
    )


def with_options(model: Candidate, chosen: Mapping[str, Any]) -> Candidate:
    """Return the candidate with the options that tuning chose, and nothing left to tune."""
    return replace(model, options=with_options_set(model.options, chosen), search={}, tune=None)


def tuning_metric(experiment: Experiment) -> str:
    """Return the metric that trials optimise."""
    return experiment.tune.metric or experiment.metrics[0]


def stopping_metric(experiment: Experiment) -> str:
    """Return the metric of early stopping: the first that is defined by one item's rank."""
    metrics = (tuning_metric(experiment), *experiment.metrics)
    return next((name for name in metrics if Metric.parse(name).name in ALONE), "ndcg@10")


def size(experiment: Experiment, folds: int) -> int:
    """Return the number of cells and trials."""
    return sum(sizes(experiment, folds).values())


def sizes(experiment: Experiment, folds: int) -> dict[str, int]:
    """Return the number of cells and trials of each model."""
    return {
        model.name: folds
        * (len(model.seeds or experiment.seeds) + trials_of(model, experiment.tune.trials))
        for model in experiment.models
    }


def check(experiment: Experiment, prepared: PreparedData) -> None:
    """Check that models which need a validation set have one in every fold."""
    incomplete = any(not len(split.validation) for split in prepared.splits)
    for model in experiment.models:
        if incomplete and (model.tuned or model.stop is not None):
            raise OptionError(needs_validation(model.name))


def as_plain(planned: list[Cell], trials: list[Trial]) -> dict[str, Any]:
    """Return the plan as plain values, for the run folder."""
    return {
        "cells": [_row(cell) for cell in planned],
        "trials": [
            {**_row(trial.cell), "trial": trial.number, "chosen": trial.chosen} for trial in trials
        ],
    }


def _row(cell: Cell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "model": cell.model.name,
        "fold": cell.fold,
        "seed": cell.seed,
        "options": canonical(cell.model.options),
    }


# The settings that tuning may try.


class Tunable(Protocol):
    """What a search may try for a model; costs: of a fit on each rung."""

    @property
    def space(self) -> Space: ...
    @property
    def costs(self) -> tuple[float, ...]: ...
    def options_on_rung(self, setting: Setting, rung: int) -> dict[str, Any]:
        """Return the options of a fit on a rung."""
        ...


@dataclass(frozen=True)
class Ranges:
    """The ranges of a model, from its entry or by default.

    epochs: of a fit on the last rung, None if there is only one; lower rungs have fewer. The first
    setting leaves out the options without a default.
    """

    space: Space
    epochs: int | None = None

    @property
    def costs(self) -> tuple[float, ...]:
        return costs_of(self.epochs or 0)

    def options_on_rung(self, setting: Setting, rung: int) -> dict[str, Any]:
        fewer = {}
        if rung < len(self.costs) - 1:
            fewer = {"epochs": epochs_of(self.epochs or 0, rung)}
        given = {name: value for name, value in setting.items() if value is not UNSET}
        return {**given, **fewer}


def tunable(model: Candidate, training: Dataset, seed: int) -> Tunable:
    """Return what to try for a model; training: the events of the fold that it learns from."""
    recipe, defaults = find(model.kind), _defaults(model)
    if model.search:
        return Ranges(Space(model.search, defaults))
    if tunes_itself(recipe):
        return plan_of(recipe_of(model, seed, None), visible(training, model), weighs=False)
    ranges = default_ranges(recipe, model.options)
    start = {name: UNSET if defaults[name] is None else defaults[name] for name in ranges}
    epochs = model.options.get("epochs", defaults.get("epochs"))
    return Ranges(Space(ranges, start), epochs if isinstance(epochs, int) else None)


def trials_of(model: Candidate, most: int) -> int:
    """Return the number of settings that are tried for a model, 0 if the time decides.

    No setting is tried twice.
    """
    trials = budget_of(model, most).trials
    if not model.tuned or trials is None:
        return 0
    size = Space(model.search, _defaults(model)).size if model.search else None
    return trials if size is None else min(trials, size)


def _defaults(model: Candidate) -> dict[str, Any]:
    return {name: option.default for name, option in options_of(find(model.kind)).known.items()}
