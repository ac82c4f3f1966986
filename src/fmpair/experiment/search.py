"""The settings tuning may try: how many there are, each by its number, and one as Optuna asks.

Optuna's names for a setting (`params`) are places in a list of values, which may be of any type,
and numbers elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fmpair.config.experiment import Candidate, Range
from fmpair.config.option_schema import options_of
from fmpair.experiment.cell import canonical
from fmpair.models.catalog import find


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
