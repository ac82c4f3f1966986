"""From an experiment file to an Experiment: where strings are parsed into values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.checks import one_of, whole
from fmpair.config import document
from fmpair.config.ablation import multiplied_out
from fmpair.config.data_columns import Header, header_of
from fmpair.config.data_section import read_filters, read_source, read_split
from fmpair.config.document import KeyPath, refused
from fmpair.config.experiment import (
    TESTS,
    Candidate,
    Experiment,
    Source,
    Step,
    as_plain,
    from_plain,
)
from fmpair.config.model_section import (
    Code,
    Models,
    needs_validation,
    noted,
    read_models,
    read_seeds,
)
from fmpair.config.node import Node, Problems, one_line
from fmpair.config.option_schema import (
    SECTIONS,
    TEXTS,
    Option,
    Options,
    fold_count,
    judging,
    options_of,
    presets,
)
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.data.formats.source import parse_errors
from fmpair.data.read import read_frame
from fmpair.errors import FmpairError, unknown
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.views import CONTEXT, VIEWS
from fmpair.features.layouts import SOURCE
from fmpair.metrics import ERRORS, Metric

# The sections on evaluation of an experiment file: protocols, metrics, views.


def read_protocols(place: Node) -> dict[str, Protocol]:
    """By label; a list's are labelled by preset or id."""
    if isinstance(place.value, str):
        place = place.holding([place.value])
    found: dict[str, Protocol] = {}
    if isinstance(place.value, list):
        for one in place.items():
            protocol = _protocol(one)
            if protocol is None:
                continue
            label = one.value if isinstance(one.value, str) else protocol.id
            if label in found:
                one.wrong(f"there is a protocol {label!r} already")
            found[label] = protocol
    elif place.is_a(dict):
        made = {label: _protocol(place.at(label)) for label in place.value}
        found = {label: protocol for label, protocol in made.items() if protocol is not None}
    if place.value in ([], {}):
        place.wrong("needs at least one protocol")
    return found


def read_metrics(place: Node) -> tuple[str, ...]:
    """Metrics as they write themselves."""
    found = []
    for one in place.items():
        if not one.is_a(str):
            continue
        try:
            found.append(str(Metric.parse(one.value)))
        except FmpairError as error:
            one.wrong(one_line(error))
    return tuple(dict.fromkeys(found))


def read_views(place: Node) -> tuple[str, ...]:
    """popularity, activity, warmth, context:COLUMN."""
    for one in place.items():
        if one.is_a(str) and not one.value.startswith(CONTEXT):
            one.is_in("view", VIEWS)
    return tuple(place.value) if isinstance(place.value, list) else ()


def check_judging(top: Node, protocols: dict[str, Protocol], metrics: tuple[str, ...]) -> None:
    """Note every metric that is not defined under any protocol."""
    listed = top.at("metrics").items() if "metrics" in top.value else []
    for name in metrics:
        metric = Metric.parse(name)
        lacking = [protocol.lacks(metric) for protocol in protocols.values()]
        if lacking and all(lacking):
            here = next((place for place in listed if place.value == name), top)
            here.wrong(f"{name} needs a protocol with {lacking[0]}")


def _protocol(place: Node) -> Protocol | None:
    """A preset, or options; `kind` then names the preset they change."""
    if isinstance(place.value, str):
        return presets()[place.value] if place.is_in("protocol", presets()) else None
    kind = Option("kind", str, None)
    known = Options({**judging().known, "kind": kind})
    good = place.options(known)
    base = Protocol()
    if "kind" in good:
        if not place.at("kind").is_in("protocol", presets()):
            return None
        base = presets()[good.pop("kind")]
    if isinstance(good.get("items"), str):
        good["items"] = _items(place.at("items"))
    return place.attempt(lambda **options: replace(base, **options), judging(), good)


def _items(place: Node) -> Any:
    """The column item of a file, and user where it has one."""
    try:
        frame = read_frame(place.file() or "")
        names = {role: find_column(role, frame.columns, None) for role in ("user", "item")}
        if names["item"] is None:
            place.wrong(f"{place.value} has no column 'item'")
            return []
        return frame.select(pl.col(name).alias(role) for role, name in names.items() if name)
    except FmpairError as error:
        place.wrong(one_line(error))
        return []


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
    with parse_errors(f"{path} as an experiment file", document.refused):
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


# Whether the columns that an experiment names are in its data, by the header alone.


LISTS = ("context", "ignore", "item_columns", "leaks")
# What cannot do without a column.
NEEDS = {
    "above_mean": "rating",
    "above": "rating",
    "at_least": "rating",
    "dislikes": "rating",
    "by_time": "timestamp",
    "leave_last_out": "timestamp",
    "faded": "timestamp",
    "target": "domain",
}

Mistake = tuple[KeyPath, str]


def validate(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a file whose columns are there too; ConfigError lists all mistakes.

    No code from outside fmpair is imported, so the options of models that are such stay unchecked.
    """
    found = reading(path, overrides, "unseen")
    with parse_errors(f"{path} as an experiment file", refused):
        for key, text in _mistakes(found.experiment):
            found.top.mistakes.add(_in_file(found, key), text)
        found.top.mistakes.check()
    return found.experiment


def check_columns(experiment: Experiment) -> list[str]:
    """What an experiment names and its data do not have, one line each."""
    return [f"{'.'.join(map(str, key))}: {text}" for key, text in _mistakes(experiment)]


def _in_file(found: Reading, key: KeyPath) -> KeyPath:
    """Models are known by label here, in the file by number."""
    if key[0] != "models":
        return key
    return (*found.entries[str(key[1])].path, *key[2:])


def _mistakes(experiment: Experiment) -> list[Mistake]:
    try:
        header = header_of(experiment.data, experiment.filters)
    except FmpairError as error:
        return [(("data",), " ".join(str(error).split()))]
    if header is None:
        return []
    found = _roles(experiment.data, header)
    if found:  # what columns events keep is unknown until these are right
        return found
    for model in experiment.models:
        found += _model(model, header)
    for number, view in enumerate(experiment.views):
        if view.startswith(CONTEXT):
            names = [view.removeprefix(CONTEXT)]
            found += _absent(("views", number), "column", names, header.events)
    for label, protocol in experiment.protocols.items():
        gain = [] if protocol.gain is None else [protocol.gain]
        found += _absent(("protocols", label, "gain"), "column", gain, header.events)
    return found + _needs(experiment, header)


def _roles(source: Source, header: Header) -> list[Mistake]:
    found: list[Mistake] = []
    for name in ("user", "item", *STANDARD):
        if source.options.get(name) is not None:
            found += _absent(("data", name), "column", [source.options[name]], header.file)
    for name in LISTS:
        found += _absent(("data", name), "column", source.options.get(name) or (), header.file)
    return found


def _model(model: Candidate, header: Header) -> list[Mistake]:
    at: KeyPath = ("models", model.name)
    sides = (
        ("context", "context column", model.context, header.context),
        ("user_fields", "user attribute", model.user_fields, header.users),
        ("item_fields", "item attribute", model.item_fields, header.items),
    )
    found = [
        mistake
        for key, what, wanted, known in sides
        for mistake in _absent((*at, key), what, wanted or (), known)
    ]
    columns = (*header.context, *header.users, *header.items)
    return found + _absent((*at, "fields"), "column", _fields(model, header), columns)


def _fields(model: Candidate, header: Header) -> list[str]:
    """The columns that options by column name, less sides (`item.city`) and sources of domains."""
    sides = {"context": header.context, "user": header.users, "item": header.items}
    right = {f"{side}.{name}" for side, names in sides.items() for name in names}
    if "timestamp" in header.events:  # whose parts are features where a field asks for them
        right |= {"timestamp", "context.timestamp"}
    made = "domain" in header.events  # columns that only cross-domain models will have
    return [
        name
        for name in model.options.get("fields") or ()
        if name not in right and not (made and name.removeprefix("user.").startswith(SOURCE))
    ]


def _needs(experiment: Experiment, header: Header) -> list[Mistake]:
    """Filters, splits and metrics that ask for ratings, times or domains."""
    found: list[Mistake] = []
    if experiment.split.kind == "by_attribute":
        sides = (("user", header.users), ("item", header.items))
        known = [*header.events, *header.users, *header.items]
        known += [f"{role}.{name}" for role, names in sides for name in names]
        found += _absent(("split", "column"), "column", [experiment.split.options["column"]], known)
    steps: list[tuple[KeyPath, str]] = [(("split",), experiment.split.kind)]
    steps += [(("filter", n), step.kind) for n, step in enumerate(experiment.filters)]
    asked = [(key, kind, NEEDS[kind]) for key, kind in steps if kind in NEEDS]
    asked += [
        (("metrics", n), name, "rating")
        for n, name in enumerate(experiment.metrics)
        if Metric.parse(name).name in ERRORS
    ]
    asked += [
        (("protocols", label), label, "timestamp")
        for label, protocol in experiment.protocols.items()
        if protocol.timed
    ]
    return found + [
        (key, f"{kind} needs a {role}: name its column with data.{role}")
        for key, kind, role in asked
        if role not in header.events
    ]


def _absent(key: KeyPath, what: str, wanted: Iterable[str], known: Sequence[str]) -> list[Mistake]:
    return [(key, unknown(what, name, known)) for name in wanted if name not in known]
