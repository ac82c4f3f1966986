"""Several values for one option: grids expanded, ranges to search."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from fmpair.config.experiment import Range
from fmpair.config.node import Node
from fmpair.config.option_schema import options_of
from fmpair.config.syntax import KeyPath

GRID, SEARCH = "grid", "search"


@dataclass(frozen=True)
class Variant:
    """A mapping without grids, and the values it took from each grid by dotted option."""

    values: Any
    chosen: Mapping[str, Any]

    def label(self, name: str) -> str:
        """The name, with what distinguishes the variant from the others: `fm-pair factors=16`."""
        return " ".join([name, *(f"{key}={_short(value)}" for key, value in self.chosen.items())])


def variants(place: Node) -> list[Variant]:
    """Every combination of the grids in a mapping, the last grid's values taking turns first."""
    grids = _grids(place)
    return [
        Variant(
            _replaced(place.value, dict(zip(grids, combination)), ()),
            {".".join(map(str, key)): value for key, value in zip(grids, combination)},
        )
        for combination in product(*grids.values())
    ]


def searches(place: Node, inside: KeyPath = ()) -> dict[KeyPath, Node]:
    """Where in a mapping values are left to tuning."""
    if not isinstance(place.value, dict):
        return {}
    if set(place.value) == {SEARCH}:
        return {inside: place}
    found: dict[KeyPath, Node] = {}
    for key in place.value:
        found |= searches(place.at(key), (*inside, key))
    return found


def placed(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The values with those chosen, whose names may be dotted: `settings.factors`."""
    out = dict(values)
    for name, value in chosen.items():
        first, _, rest = name.partition(".")
        out[first] = placed(out.get(first) or {}, {rest: value}) if rest else value
    return out


def without(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values less those of the names, which may be dotted."""
    out = dict(values)
    for name in names:
        first, _, rest = name.partition(".")
        inner = out.pop(first, None)
        if rest and inner:
            out[first] = without(inner, [rest])
    return out


def search_range(place: Node) -> Range | None:
    """What `{search: ...}` allows: a list of values, or low to high."""
    inner = place.at(SEARCH)
    if isinstance(inner.value, list):
        if not inner.value:
            place.wrong("search needs at least one value")
        return Range(values=tuple(inner.value)) if inner.value else None
    if not isinstance(inner.value, dict):
        place.wrong("search takes a list of values, or {low: ..., high: ..., log: true}")
        return None
    known = options_of(Range, ["values"])
    given = inner.options(known)
    if not {"low", "high"} <= set(given):
        if {"low", "high"} - set(inner.value):
            place.wrong("search needs both low and high")
        return None
    low, high = given["low"], given["high"]
    if low is None or high is None or not low < high:
        place.wrong(f"search: low ({low}) must be below high ({high})")
        return None
    if given.get("log") and low <= 0:
        place.wrong(f"search: low must be above 0 where log is true, not {low}")
        return None
    return Range(**given)


def ends(range: Range) -> tuple[Any, ...]:
    """All values of a range that has few, else the lowest and the highest."""
    return range.values or (range.low, range.high)


def _grids(place: Node, inside: KeyPath = ()) -> dict[KeyPath, list[Any]]:
    """Where in a mapping there are grids, and their values."""
    found: dict[KeyPath, list[Any]] = {}
    if not isinstance(place.value, dict):
        return found
    if set(place.value) == {GRID}:
        values = place.value[GRID]
        if isinstance(values, list) and values:
            return {inside: values}
        place.wrong("grid takes a list of at least one value")
        return found
    for key in place.value:
        found |= _grids(place.at(key), (*inside, key))
    return found


def _replaced(value: Any, chosen: Mapping[KeyPath, Any], inside: KeyPath) -> Any:
    if inside in chosen:
        return chosen[inside]
    if not isinstance(value, dict):
        return value
    return {key: _replaced(one, chosen, (*inside, key)) for key, one in value.items()}


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)
