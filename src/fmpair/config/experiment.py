"""Everything a run depends on, as plain immutable values; `config` has parsed all strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import polars as pl

from fmpair.evaluation.protocol import Protocol


@dataclass(frozen=True)
class Source:
    """Where the events come from: exactly one of path, set, generate, or train with test.

    path: a file or folder, by the time it is here an absolute path. set: a public set by name.
    generate: options of `fmpair.data.synthetic.make`. train, validation, test: given files.
    options: those of the reader and of `Dataset.from_frame`.
    """

    path: str | None = None
    set: str | None = None
    generate: Mapping[str, Any] | None = None
    train: str | None = None
    validation: str | None = None
    test: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A function by name and its options: one filter, or the way to split."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Range:
    """What tuning may choose for one option: values, or low to high (log: by order of size)."""

    values: tuple[Any, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison: a recipe's kind and options, and the columns it may use.

    name: its label in every table. kind: a name in `fmpair models`, or package.module:Class.
    search: the options that tuning chooses. context, user_fields, item_fields: names of the
    columns the model is given, None for all. stop: patience of early stopping on the validation
    set, None to train to the end. learns: what is trained on for the test: `train+validation`, or
    `train`, so that the validation events are only shown to the fitted model, as most papers on
    sequences do; None: both together, unless training stops early. ablation: which fields help:
    the model also with no field, and `without` each in turn, or `both` without each and with each
    alone; None once that is done. seeds: those it is fitted with, None: those of the experiment.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Range] = field(default_factory=dict)
    context: tuple[str, ...] | None = None
    user_fields: tuple[str, ...] | None = None
    item_fields: tuple[str, ...] | None = None
    stop: int | None = None
    learns: Literal["train", "train+validation"] | None = None
    ablation: Literal["without", "both"] | None = None
    seeds: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Ablation:
    """A model with and without its fields: the names of the candidates.

    model: the one with all fields; none: the one with no field. without: by field the one that
    lacks it alone; only: by field the one that has no other, empty where that is not asked.
    """

    model: str
    none: str
    without: Mapping[str, str]
    only: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """trials: of the hyper-parameter search per model, on the validation set; equal for all.

    metric: what the search optimises, under the first protocol; None: the first metric.
    parallel: trials of a model that are proposed together, so that they can run side by side; the
    later of them know nothing of the earlier.
    """

    trials: int = 20
    metric: str | None = None
    seed: int = 0
    parallel: int = 1


TESTS = ("randomisation", "t", "wilcoxon")


@dataclass(frozen=True)
class Comparison:
    """How models are compared in the report.

    baseline: the model the others are tested against, None: the best. metric: decides which model
    is best, None: the first. test: randomisation, t or wilcoxon, over users, with Holm correction.
    margin: models that differ by no more than this share of the baseline's mean are level.
    """

    baseline: str | None = None
    metric: str | None = None
    test: str = "randomisation"
    level: float = 0.05
    margin: float = 0.01


@dataclass(frozen=True)
class Running:
    """workers: processes in parallel; threads: of each, None divides the cores among them.

    device: where models learn that may learn elsewhere and do not say themselves: cpu, cuda, torch
    or auto. Results depend on it, so cells are named by it; auto is settled when a run begins.
    curve: every so many epochs a trainable model is evaluated (0: never): on the validation set
    where it stops early and so is not trained on it, else on the test set.
    """

    workers: int = 1
    threads: int | None = None
    device: Literal["cpu", "torch", "cuda", "auto"] = "cpu"
    curve: int = 0


@dataclass(frozen=True)
class Output:
    """folder: where results go, by the time it is here an absolute path.

    models: keep every fitted model. refit: fit the best model on all events and save it.
    """

    folder: str = ""
    models: bool = False
    refit: bool = True


@dataclass(frozen=True)
class Experiment:
    """A comparison of models: on which data, with which split, protocols and seeds.

    protocols: by label; without any the data decide, see `fmpair.experiment.prepared`.
    ablations: which of the models are one and the same with and without its fields.
    allow_code: whether models that are code from outside fmpair may run. No file can say so.
    """

    name: str
    data: Source
    models: tuple[Candidate, ...]
    split: Step
    filters: tuple[Step, ...] = ()
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {"full ranking": Protocol()})
    metrics: tuple[str, ...] = ("recall@10", "ndcg@10")
    views: tuple[str, ...] = ("popularity", "activity", "warmth")
    seeds: tuple[int, ...] = (0,)
    tune: Tuning = Tuning()
    compare: Comparison = Comparison()
    run: Running = Running()
    output: Output = Output()
    ablations: tuple[Ablation, ...] = ()
    allow_code: bool = field(default=False, compare=False)


# An experiment as plain values and back, so that a run folder needs nothing but itself.


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
