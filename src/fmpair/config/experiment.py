"""An experiment as plain immutable values: everything a run depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

import polars as pl

from fmpair.evaluation.protocol import Protocol
from fmpair.training.search import Budget, Range


@dataclass(frozen=True)
class Source:
    """Where the events come from: exactly one of path, set, generate, or train with test.

    path: a file or folder, as an absolute path. set: a public set by name. generate: options of
    `fmpair.data.synthetic.make`. train, validation, test: files that are split already. options:
    those of the reader and of `Dataset.from_frame`.
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
    """A filter or a split: the name of a function and its options."""

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return `folds (count 5)`."""
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        return f"{self.kind} ({options})" if options else self.kind


@dataclass(frozen=True)
class Candidate:
    """One model of the comparison: a recipe's kind and options, and the columns it may use.

    name: its label in every table. kind: a name in `fmpair models`, or package.module:Class.
    search: the options that tuning chooses. tune: a time such as 5m, or {trials: 40}, to tune the
    model on the validation set: the options given as {search: ...}, else those that are tuned by
    default; all tuned models must have the same budget. context, user_fields, item_fields: the
    columns the model uses, None for all. stop: patience of early stopping on the validation set,
    None to train to the end. learns: the events it learns from before the test: `train+validation`,
    or `train`, so that validation events are only shown to the fitted model, as in most papers on
    sequences; None: both, unless training stops early. ablation: shows which fields help: adds the
    model with no field and `without` each, or `both` without each and with only each. seeds: its
    own seeds, None for those of the experiment.
    """

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Range] = field(default_factory=dict)
    tune: Budget | None = None
    context: tuple[str, ...] | None = None
    user_fields: tuple[str, ...] | None = None
    item_fields: tuple[str, ...] | None = None
    stop: int | None = None
    learns: Literal["train", "train+validation"] | None = None
    ablation: Literal["without", "both"] | None = None
    seeds: tuple[int, ...] | None = None

    @property
    def tuned(self) -> bool:
        return bool(self.search) or self.tune is not None


@dataclass(frozen=True)
class Ablation:
    """A model with and without its fields: the names of the candidates.

    model: with all fields. none: with no field. without: by field the one that lacks only it.
    only: by field the one that has only it; may be empty.
    """

    model: str
    none: str
    without: Mapping[str, str]
    only: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tuning:
    """Hyper-parameter search. trials: per model, on the validation set, unless it has `tune`.

    metric: what the search optimises, under the first protocol; None: the first metric.
    seed: of the proposals. parallel: trials of a model that are proposed together and may run side
    by side; later ones do not use the values of earlier ones.
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
    level: of significance. margin: models that differ by at most this share of the baseline's mean
    count as equal.
    """

    baseline: str | None = None
    metric: str | None = None
    test: str = "randomisation"
    level: float = 0.05
    margin: float = 0.01


@dataclass(frozen=True)
class Running:
    """workers: parallel processes. threads: of each, None divides the cores among the workers.

    device: of models that support several and do not set their own: cpu, cuda, torch or auto.
    Results depend on it, so it is part of a cell's id; auto is decided when a run begins.
    curve: number of epochs between two evaluations of the learning curve (0: none), on the
    validation set if the model is not trained on it, else on the test set.
    """

    workers: int = 1
    threads: int | None = None
    device: Literal["cpu", "torch", "cuda", "auto"] = "cpu"
    curve: int = 0


@dataclass(frozen=True)
class Output:
    """folder: of the results, as an absolute path. models: keep every fitted model.

    refit: fit the best model on all events and save it.
    """

    folder: str = ""
    models: bool = False
    refit: bool = True


@dataclass(frozen=True)
class Experiment:
    """A comparison of models: on which data, with which split, protocols and seeds.

    protocols: by label; without any the data decide, see `fmpair.experiment.prepared`.
    ablations: which models are versions of one model with and without its fields.
    allow_code: whether models that are code from outside fmpair may run; a file cannot set it.
    """

    name: str
    data: Source
    models: tuple[Candidate, ...]
    split: Step
    filters: tuple[Step, ...] = ()
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: {"full ranking": Protocol()})
    metrics: tuple[str, ...] = ("recall@10", "ndcg@10")
    views: tuple[str, ...] = ("popularity", "activity", "warmth", "events")
    seeds: tuple[int, ...] = (0,)
    tune: Tuning = Tuning()
    compare: Comparison = Comparison()
    run: Running = Running()
    output: Output = Output()
    ablations: tuple[Ablation, ...] = ()
    allow_code: bool = field(default=False, compare=False)


# An experiment as plain values and back, for the run folder.

COLUMNS = ("context", "user_fields", "item_fields")


def as_plain(experiment: Experiment) -> dict[str, Any]:
    """Return the experiment as JSON values, without `allow_code`."""
    return {name: value for name, value in _plain(experiment).items() if name != "allow_code"}


def from_plain(plain: Mapping[str, Any]) -> Experiment:
    """Return the experiment of plain values; they were checked when the file was read."""
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
        ablations=tuple(Ablation(**names) for names in plain.get("ablations", ())),
    )


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, pl.DataFrame):
        return value.to_dict(as_series=False)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _candidate(plain: Mapping[str, Any]) -> Candidate:
    columns = {name: None if plain[name] is None else tuple(plain[name]) for name in COLUMNS}
    search = {
        name: Range(**{**range, "values": tuple(range["values"])})
        for name, range in plain["search"].items()
    }
    seeds = None if plain.get("seeds") is None else tuple(plain["seeds"])
    tune = None if plain.get("tune") is None else Budget(**plain["tune"])
    return Candidate(**{**plain, **columns, "search": search, "seeds": seeds, "tune": tune})


def _protocol(options: Mapping[str, Any]) -> Protocol:
    items = options["items"]
    listed = pl.DataFrame(items) if isinstance(items, Mapping) else items
    return Protocol(**{**options, "items": listed})
