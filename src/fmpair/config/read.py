"""From an experiment file to an Experiment: where strings are parsed into values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fmpair.checks import one_of, whole
from fmpair.config import document
from fmpair.config.ablation import multiplied_out
from fmpair.config.candidate import (
    Models,
    needs_validation,
    noted,
    read_models,
    read_seeds,
)
from fmpair.config.code import Code
from fmpair.config.experiment import TESTS, Experiment, Source, Step
from fmpair.config.node import Node, Problems
from fmpair.config.option_schema import SECTIONS, TEXTS, fold_count, options_of
from fmpair.config.plain import as_plain, from_plain
from fmpair.config.protocols import check_judging, read_metrics, read_protocols, read_views
from fmpair.config.source import read_source
from fmpair.config.step import read_filters, read_split
from fmpair.data.border import parsing
from fmpair.evaluation.protocol import Protocol
from fmpair.metrics import Metric

__all__ = ["Reading", "as_plain", "from_plain", "read", "reading"]

MOST_CELLS = 100_000  # models x folds x seeds
# The least and the most that a number of a section may be.
LEAST = {"trials": 1, "parallel": 1, "seed": 0, "workers": 1, "threads": 1, "curve": 0}
MOST = {"trials": 100_000, "workers": 256}


@dataclass(frozen=True)
class Reading:
    """An experiment, and by label the entry of the file that each of its models comes from."""

    experiment: Experiment
    top: Node
    entries: Mapping[str, Node]


def read(path: str | Path, overrides: Sequence[str] = (), allow_code: bool = False) -> Experiment:
    """The experiment of a file; ConfigError lists all that is wrong with it.

    overrides: `key=value`, the key a dotted path such as models.0.factors.
    allow_code: import and run models that the file names as package.module:Class, also such as
    lie beside it. Then the file can do whatever you can: say so for files of your own.
    """
    found = reading(path, overrides, "allowed" if allow_code else "refused").experiment
    return replace(found, allow_code=allow_code)


def reading(path: str | Path, overrides: Sequence[str] = (), code: Code = "refused") -> Reading:
    """The experiment of a file, with the way back to its lines.

    code: what is done about models that are code from outside fmpair; `unseen` leaves them alone.
    """
    found = document.read(path, overrides)
    with parsing(f"{path} as an experiment file", document.refused):
        return _reading(found, code)


def _reading(found: document.Document, code: Code) -> Reading:
    top = Node(Problems(found), {} if found.values is None else found.values)
    if not top.is_a(dict):
        top.mistakes.check()
    _check_sections(top)
    source = read_source(top.at("data")) if "data" in top.value else None
    models = read_models(top.at("models"), code) if "models" in top.value else {}
    split = read_split(top.at("split"), source)
    parts = _rest(top)
    _check_validation(source, split, models)
    _check_judging(top, parts)
    if any(entry.value.get("ablation") for _, entry in models.values()):
        top.mistakes.check()  # fields are looked up in the data once all else is right
        models, parts["ablations"] = multiplied_out(
            models, top.at("data"), source or Source(), parts.get("filters", ())
        )
        top.mistakes.check()
    _check_baseline(top, models, parts["compare"].baseline)
    top.mistakes.check()
    _check_cells(top, models, split or Step(""), parts.get("seeds", (0,)))
    experiment = Experiment(
        name=parts.pop("name"),
        data=source or Source(),  # never empty: where there is none a mistake was noted
        models=tuple(candidate for candidate, _ in models.values()),
        split=split or Step(""),
        **parts,
    )
    return Reading(experiment, top, {label: place for label, (_, place) in models.items()})


def _check_sections(top: Node) -> None:
    for name in top.value:
        top.at(name).holding(name).is_in("section", TEXTS)
    for name in ("data", "models"):
        if name not in top.value:
            top.wrong(f"section '{name}' is missing")


def _rest(top: Node) -> dict[str, Any]:
    """All but data, split and models; what the file leaves out keeps its default."""
    given = {name: top.at(name) for name, value in top.value.items() if value is not None}
    # without protocols the data decide, see `experiment.usual`
    parts: dict[str, Any] = {"name": _name(top), "protocols": {}}
    for name, reader in (
        ("protocols", read_protocols),
        ("metrics", read_metrics),
        ("views", read_views),
        ("seeds", read_seeds),
    ):
        if name in given:
            parts[name] = reader(given[name])
    if "filter" in given:
        parts["filters"] = read_filters(given["filter"])
    for name, kind in SECTIONS.items():
        parts[name] = _section(given[name], kind) if name in given else kind()
    folder = parts["output"].folder or str(Path("runs") / parts["name"])
    parts["output"] = replace(parts["output"], folder=str(Path(folder).absolute()))
    return parts


def _name(top: Node) -> str:
    here = top.at("name")
    if here.value is None or not here.is_a(str):
        return top.mistakes.document.path.stem
    if not here.value or here.value in (".", "..") or {"/", "\\"} & set(here.value):
        here.wrong(f"must be a name that a folder can have, not {here.value!r}")
    return here.value


def _section(place: Node, kind: type) -> Any:
    given = place.options(options_of(kind))
    for name, value in given.items():
        if name in LEAST and value is not None:
            noted(place.at(name), whole, name, value, LEAST[name])
            if name in MOST and value > MOST[name]:
                place.at(name).wrong(f"must be at most {MOST[name]:,}, not {value:,}")
        elif name == "metric" and value is not None:
            noted(place.at(name), Metric.parse, value)
    if "test" in given:
        noted(place.at("test"), one_of, "test", given["test"], TESTS)
    if not 0 < given.get("level", 0.5) < 1:
        place.at("level").wrong(f"must be between 0 and 1, not {given['level']}")
    return kind(**given)


def _check_validation(source: Source | None, split: Step | None, models: Models) -> None:
    """Tuning and early stopping need a validation set."""
    if split is None or source is None:
        return
    shares = [split.options.get(name) for name in ("validation", "validation_after")]
    if any(shares) or (split.kind == "given" and source.validation is not None):
        return
    for candidate, entry in models.values():
        for key in [*candidate.search, *(["stop"] if candidate.stop is not None else [])]:
            entry.at(key.partition(".")[0]).wrong(needs_validation(candidate.name))


def _check_judging(top: Node, parts: Mapping[str, Any]) -> None:
    usual = {field.name: field for field in fields(Experiment)}
    protocols = parts["protocols"] or {"full ranking": Protocol()}
    metrics = parts.get("metrics", usual["metrics"].default)
    check_judging(top, protocols, metrics)
    if parts["compare"].metric is not None and metrics:
        top.at("compare").at("metric").is_in("metric", metrics)


def _check_cells(top: Node, models: Models, split: Step, seeds: Sequence[int]) -> None:
    folds = fold_count(split)
    counts = [len(model.seeds or seeds) for model, _ in models.values()]
    cells = folds * sum(counts)
    if cells > MOST_CELLS:
        top.wrong(
            f"{len(models):,} models, {folds:,} folds and {max(counts):,} seeds make {cells:,} "
            f"fits, and {MOST_CELLS:,} are the most: ask for fewer of them"
        )
        top.mistakes.check()


def _check_baseline(top: Node, models: Models, baseline: str | None) -> None:
    if baseline is not None and models:
        top.at("compare").at("baseline").is_in("model", models)
