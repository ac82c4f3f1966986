"""Plan a run: the cells of an experiment in the order of its tables, and the tuning budget."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fmpair.config.experiment import Candidate, Experiment, Range
from fmpair.config.model_section import needs_validation, placed
from fmpair.config.option_schema import options_of
from fmpair.errors import OptionError
from fmpair.experiment.cell import TEST, VALIDATION, Cell, canonical
from fmpair.experiment.prepared import PreparedData
from fmpair.metrics import ALONE, Metric
from fmpair.models.catalog import find

Chosen = Mapping[tuple[str, int], Mapping[str, Any]]  # (model, fold) -> options tuning chose


@dataclass(frozen=True, eq=False)
class Trial:
    """One tuning trial: its number in its study, and its cell."""

    number: int
    cell: Cell


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
    return replace(model, options=placed(model.options, chosen), search={})


def tuning_metric(experiment: Experiment) -> str:
    """Return the metric that trials optimise."""
    return experiment.tune.metric or experiment.metrics[0]


def stopping_metric(experiment: Experiment) -> str:
    """Return the metric of early stopping: the first that is defined by one item's rank."""
    metrics = (tuning_metric(experiment), *experiment.metrics)
    return next((name for name in metrics if Metric.parse(name).name in ALONE), "ndcg@10")


def size(experiment: Experiment, folds: int) -> int:
    """Return the number of cells and trials."""
    trials = sum(trials_of(model, experiment.tune.trials) for model in experiment.models)
    fits = sum(len(model.seeds or experiment.seeds) for model in experiment.models)
    return folds * (fits + trials)


def check(experiment: Experiment, prepared: PreparedData) -> None:
    """Check that models which need a validation set have one in every fold."""
    incomplete = any(not len(split.validation) for split in prepared.splits)
    for model in experiment.models:
        if incomplete and (model.search or model.stop is not None):
            raise OptionError(needs_validation(model.name))


def as_plain(planned: list[Cell], trials: list[Trial]) -> dict[str, Any]:
    """Return the plan as plain values, for the run folder."""
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


# The settings that tuning may try.


@dataclass(frozen=True)
class Space:
    """The ranges of a model's options, and the defaults of the options.

    Optuna's `params` are numbers, or positions in a list of values, which may be of any type.
    """

    search: Mapping[str, Range]
    defaults: Mapping[str, Any]

    @cached_property
    def choices(self) -> dict[str, Sequence[Any] | None]:
        """By option its distinct values, None where there are infinitely many."""
        return {name: self._choices(name) for name in self.search}

    @property
    def size(self) -> int | None:
        """The number of settings, None where it is infinite."""
        counts = [None if values is None else len(values) for values in self.choices.values()]
        return None if None in counts else math.prod(c for c in counts if c is not None)

    def suggested(self, trial: Any) -> dict[str, Any]:
        """Return the options that an Optuna trial proposes."""
        return self.options({name: self._suggested(trial, name) for name in self.search})

    def options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of Optuna's params."""
        options: dict[str, Any] = {}
        for name in self.search:
            values = self.choices[name] if self.search[name].values else None
            options[name] = params[name] if values is None else values[params[name]]
        return options

    def numbered(self, number: int) -> dict[str, Any]:
        """Return the params of one of all settings; the last option varies fastest."""
        params: dict[str, Any] = {}
        for name, values in reversed(self.choices.items()):
            assert values is not None, "infinitely many settings have no numbers"
            number, position = divmod(number, len(values))
            params[name] = position if self.search[name].values else values[position]
        return params

    def default_params(self) -> dict[str, Any]:
        """Return the params of the recipe's defaults, of options whose range contains them."""
        params: dict[str, Any] = {}
        for name, value in self.defaults.items():
            within = self.search.get(name)
            if within is None:
                continue
            low, high = within.low, within.high
            if value in within.values:
                params[name] = list(self.choices[name] or ()).index(value)
            elif isinstance(value, int | float) and low is not None and high is not None:
                params |= {name: value} if low <= value <= high else {}
        return params

    def _choices(self, name: str) -> Sequence[Any] | None:
        within, default = self.search[name], self.defaults.get(name)
        low, high = within.low, within.high
        if within.values:
            return tuple({canonical(value): value for value in within.values}.values())
        integers = isinstance(low, int) and isinstance(high, int)
        whole = isinstance(default, int) and not isinstance(default, bool)
        if whole or (default is None and integers):
            return range(int(low or 0), int(high or 0) + 1)
        return None if low != high else (low,)

    def _suggested(self, trial: Any, name: str) -> Any:
        within, values = self.search[name], self.choices[name]
        if within.values:
            return trial.suggest_categorical(name, list(range(len(values or ()))))
        if isinstance(values, range):
            return trial.suggest_int(name, values.start, values.stop - 1, log=within.log)
        return trial.suggest_float(name, within.low, within.high, log=within.log)


def space_of(model: Candidate) -> Space:
    """Return the settings that tuning may choose for a model."""
    options = options_of(find(model.kind)).known
    return Space(model.search, {name: option.default for name, option in options.items()})


def trials_of(model: Candidate, most: int) -> int:
    """Return the number of trials of a model: no setting is tried twice."""
    if not model.search:
        return 0
    size = space_of(model).size
    return most if size is None else min(most, size)
