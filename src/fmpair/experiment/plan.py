"""The cells of an experiment, in the order of its tables."""

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

# The settings tuning may try: how many there are, each by its number, and one as Optuna asks.
#
# Optuna's names for a setting (`params`) are places in a list of values, which may be of any type,
# and numbers elsewhere.


@dataclass(frozen=True)
class Space:
    """The ranges of a model's options, and what these are when nobody sets them."""

    search: Mapping[str, Range]
    usual: Mapping[str, Any]

    @cached_property
    def choices(self) -> dict[str, Sequence[Any] | None]:
        """By option its values, each once; None where there are countless."""
        return {name: _choices(name, self) for name in self.search}

    @property
    def size(self) -> int | None:
        """How many settings there are, None where they are countless."""
        counts = [None if values is None else len(values) for values in self.choices.values()]
        return None if None in counts else math.prod(c for c in counts if c is not None)

    def asked(self, trial: Any) -> dict[str, Any]:
        """The options that Optuna proposes."""
        return {name: self._value(name, _suggested(trial, name, self)) for name in self.search}

    def numbered(self, number: int) -> dict[str, Any]:
        """The params of one of all settings; the values of the last option take turns first."""
        params: dict[str, Any] = {}
        for name, values in reversed(self.choices.items()):
            assert values is not None, "countless settings have no numbers"
            number, place = divmod(number, len(values))
            params[name] = place if self.search[name].values else values[place]
        return params

    def options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The options of all params."""
        return {name: self._value(name, params[name]) for name in self.search}

    def defaults(self) -> dict[str, Any]:
        """The recipe's own setting as params, as far as it lies inside the ranges."""
        found: dict[str, Any] = {}
        for name, value in self.usual.items():
            within = self.search.get(name)
            if within is None:
                continue
            if value in within.values:
                found[name] = list(self.choices[name] or ()).index(value)
            elif isinstance(value, int | float) and _inside(value, within):
                found[name] = value
        return found

    def _value(self, name: str, param: Any) -> Any:
        values = self.choices[name]
        return values[param] if values is not None and self.search[name].values else param


def space_of(model: Candidate) -> Space:
    """What tuning may choose for a model."""
    usual = {name: option.default for name, option in options_of(find(model.kind)).known.items()}
    return Space(model.search, usual)


def trials_of(model: Candidate, most: int) -> int:
    """How many trials a model has: no setting is tried twice."""
    if not model.search:
        return 0
    size = space_of(model).size
    return most if size is None else min(most, size)


def _choices(name: str, space: Space) -> Sequence[Any] | None:
    within = space.search[name]
    if within.values:
        return tuple({canonical(value): value for value in within.values}.values())
    if _whole(space.usual.get(name), within):
        return range(int(within.low or 0), int(within.high or 0) + 1)
    return None if within.low != within.high else (within.low,)


def _suggested(trial: Any, name: str, space: Space) -> Any:
    within, values = space.search[name], space.choices[name]
    if within.values:
        return trial.suggest_categorical(name, list(range(len(values or ()))))
    if isinstance(values, range):
        return trial.suggest_int(name, values.start, values.stop - 1, log=within.log)
    return trial.suggest_float(name, within.low, within.high, log=within.log)


def _whole(usual: Any, within: Range) -> bool:
    """Whether an option between low and high takes whole numbers."""
    ends = isinstance(within.low, int) and isinstance(within.high, int)
    return not isinstance(usual, bool) and (isinstance(usual, int) or (usual is None and ends))


def _inside(value: float, within: Range) -> bool:
    ends = within.low, within.high
    return ends[0] is not None and ends[1] is not None and ends[0] <= value <= ends[1]


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
