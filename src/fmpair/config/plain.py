"""An experiment as plain values and back, so that a run folder needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import polars as pl

from fmpair.config.experiment import (
    Ablation,
    Candidate,
    Comparison,
    Experiment,
    Output,
    Range,
    Running,
    Source,
    Step,
    Tuning,
)
from fmpair.evaluation.protocol import Protocol

COLUMNS = ("context", "user_fields", "item_fields")


def as_plain(experiment: Experiment) -> dict[str, Any]:
    """Everything a run depends on, as values that JSON can hold; what is allowed is not kept."""
    return {name: value for name, value in _plain(experiment).items() if name != "allow_code"}


def from_plain(plain: Mapping[str, Any]) -> Experiment:
    """The inverse of `as_plain`; nothing is checked, for it was when the file was read."""
    return Experiment(
        name=plain["name"],
        data=Source(**plain["data"]),
        models=tuple(_candidate(model) for model in plain["models"]),
        split=Step(**plain["split"]),
        filters=tuple(Step(**step) for step in plain["filters"]),
        protocols={label: _protocol(options) for label, options in plain["protocols"].items()},
        metrics=tuple(plain["metrics"]),
        views=tuple(plain["views"]),
        seeds=tuple(plain["seeds"]),
        tune=Tuning(**plain["tune"]),
        compare=Comparison(**plain["compare"]),
        run=Running(**plain["run"]),
        output=Output(**plain["output"]),
        ablations=tuple(Ablation(**one) for one in plain.get("ablations", ())),
    )


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, pl.DataFrame):
        return value.to_dict(as_series=False)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _candidate(plain: Mapping[str, Any]) -> Candidate:
    columns = {name: None if plain[name] is None else tuple(plain[name]) for name in COLUMNS}
    search = {
        name: Range(**{**given, "values": tuple(given["values"])})
        for name, given in plain["search"].items()
    }
    seeds = None if plain.get("seeds") is None else tuple(plain["seeds"])
    return Candidate(**{**plain, **columns, "search": search, "seeds": seeds})


def _protocol(options: Mapping[str, Any]) -> Protocol:
    items = options["items"]
    listed = pl.DataFrame(items) if isinstance(items, Mapping) else items
    return Protocol(**{**options, "items": listed})
