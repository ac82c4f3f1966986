"""The columns of an experiment's data, read from the header, and the named ones it lacks."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.config.document import KeyPath
from fmpair.config.experiment import Candidate, Experiment, Source, Step
from fmpair.config.option_schema import options_of
from fmpair.data import public_sets, synthetic
from fmpair.data.columns.inference import role_columns
from fmpair.data.columns.roles import STANDARD, find_column, name_list
from fmpair.data.event_types import types_without_refunds, weights_by_type
from fmpair.data.filters import RATED
from fmpair.data.formats.delimited import read_columns, with_names
from fmpair.data.formats.parquet import parquet_columns
from fmpair.data.formats.source import Contents, find_file, parse_errors, read_text
from fmpair.data.frame import id_columns, with_types
from fmpair.data.read import FORMATS, guess_format, read_contents, read_delimited, read_table
from fmpair.data.vector_files import vector_columns
from fmpair.errors import DataError, FmpairError, unknown
from fmpair.evaluation.views import CONTEXT
from fmpair.features.layouts import SOURCE
from fmpair.metrics import ERRORS, Metric

Mistake = tuple[KeyPath, str]

# Options of data that are column names; the second: of the events or of the item table.
LISTS = ("context", "ignore", "leaks")
OF_ITEMS = ("item_columns", "display")
# Filters and splits that need a column.
NEEDS = {
    "above_mean": "rating",
    "above": "rating",
    "at_least": "rating",
    "dislikes": "rating",
    "by_time": "timestamp",
    "by_session": "timestamp",
    "time_windows": "timestamp",
    "leave_last_out": "timestamp",
    "faded": "timestamp",
    "target": "domain",
}
HEAD_BYTES = 65_536  # enough for the header of any file


@dataclass(frozen=True)
class Header:
    """Column names of the file, the events made from it, contexts and attributes.

    event_types: those of the first rows, None without a column of types.
    """

    file: tuple[str, ...]
    events: tuple[str, ...]
    context: tuple[str, ...]
    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    event_types: pl.Series | None = None


def header_of(source: Source, filters: Sequence[Step] = ()) -> Header | None:
    """Return the columns after all filters; None if the data are not on this machine."""
    header = _source_header(source)
    return None if header is None else reduce(_after_filter, filters, header)


def _source_header(source: Source) -> Header | None:
    if source.generate is not None:
        data = synthetic.make(2, 2, 2).data
        events = tuple(data.columns.columns)
        tables = tuple(data.user_table.columns), tuple(data.item_table.columns)
        return Header(events, events, data.context, *tables)
    if source.set is not None:
        folder = public_sets.held(source.set)
        if folder is None:
            return None
        known = public_sets.find(source.set)
        items = {} if known.items is None else {"items": str(folder / known.items)}
        path = str(folder / known.train)
        options = {"format": known.format, **items, **source.options}
    else:
        path, options = str(source.path or source.train), dict(source.options)
    with parse_errors(path):
        contents = _first_rows(path, options)
    return _header(contents, options)


def _after_filter(header: Header, step: Step) -> Header:
    if step.kind == "enlarged":
        more = tuple(f"random_{n + 1}" for n in range(step.options.get("contexts", 0)))
        return replace(header, events=(*header.events, *more), context=(*header.context, *more))
    if step.kind == "merge_duplicates" and not step.options.get("context", True):
        events = tuple(name for name in header.events if name not in header.context)
        return replace(header, events=events, context=())
    if step.kind == "leaked" and step.options.get("column") in header.items:
        column = step.options["column"]
        return replace(
            header,
            events=(*header.events, column),
            context=(*header.context, column),
            items=tuple(name for name in header.items if name != column),
        )
    return header


def _first_rows(path: str, options: dict[str, Any]) -> Contents:
    """Read only the first rows where the format allows it."""
    format = options.get("format") or guess_format(path)
    reader = options_of(FORMATS[format]).known
    reading = {key: value for key, value in options.items() if key in reader}
    if format == "parquet":
        return Contents(parquet_columns(path))
    if FORMATS[format] is not read_delimited:
        return read_contents(path, format, **reading)
    separator, header = reading.get("separator"), reading.get("header", True)
    text, ragged = _head(path, reading), reading.get("ragged", "error")
    frame = read_columns(text, path, separator, header, ragged=ragged)
    return Contents(with_names(frame, path, reading.get("columns")))


def _head(path: str, options: dict[str, Any]) -> str:
    """Return the first lines of a plain or gzipped file, or all of a zipped one."""
    encoding = options.get("encoding", "utf-8")
    file = find_file(Path(path))
    if file.suffix == ".zip":
        return read_text(path, encoding, options.get("member"))
    with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        start = stream.read(HEAD_BYTES)
    whole = start if len(start) < HEAD_BYTES else start[: start.rfind(b"\n")]
    if not whole.strip():
        raise DataError(f"{path} is empty")
    return whole.decode(encoding, errors="replace").removeprefix("\ufeff")


def _header(contents: Contents, options: dict[str, Any]) -> Header:
    """Return the role of every column, as `Dataset.from_frame` would assign it."""
    options = {**contents.roles, **options}
    names = [name for name in contents.events.columns if name not in options.get("ignore", ())]
    named = {role: options.get(role) for role in ("user", "item", *STANDARD)}
    moved, shown = (
        tuple(name for name in name_list(options.get(option) or ()) if name in names)
        for option in OF_ITEMS
    )
    taken = (*moved, *shown, *(options.get("context") or ()), *(options.get("leaks") or ()))
    head = with_types(contents.events.select(names), id_columns(names))
    roles: dict[str, str] = {}
    if all(name is None or name in names for name in named.values()):  # else reported later
        present = {role: name for role, name in named.items() if name in names}
        roles = role_columns(head, present, taken)
    rest = [name for name in names if name not in (*roles.values(), *moved, *shown)]
    context = tuple(rest if options.get("context") is None else options["context"])
    timed = {"timestamp"} if options.get("order") else set()
    standard = [role for role in STANDARD if role in roles or role in timed]
    users = _attributes(contents.users, options.get("users"), "user", options.get("user"))
    items = _attributes(contents.items, options.get("items"), "item", options.get("item")) + moved
    items += tuple(vector_columns(options.get("vectors")))
    file, events = tuple(contents.events.columns), (*standard, *context)
    types = types_without_refunds(contents.events, roles, options.get("refunds") or "drop")
    return Header(file, events, context, users, items, types)


def _attributes(
    table: pl.DataFrame | None, option: Any, role: str, key: str | None
) -> tuple[str, ...]:
    """Return the columns of a table of attributes, without the id."""
    if isinstance(option, dict):
        table = read_table(role=role, key=key, **option)
    elif isinstance(option, str | Path):
        table = read_table(option, role, key)
    if table is None:
        return ()
    id = key if key in table.columns else find_column(role, table.columns, None)
    return tuple(name for name in table.columns if name != id)


def uses_ratings(experiment: Experiment) -> bool:
    """Return whether a filter says which ratings are positive, or a metric is about ratings."""
    filtered = any(step.kind.replace("-", "_") in RATED for step in experiment.filters)
    return filtered or any(Metric.parse(name).name in ERRORS for name in experiment.metrics)


# The columns that an experiment names.


def missing_columns(experiment: Experiment) -> list[Mistake]:
    """Return the key path and error text of each column the data lack.

    Models, filters, metrics and views have their name in the path, instead of their position.
    """
    try:
        header = header_of(experiment.data, experiment.filters)
    except FmpairError as error:
        return [(("data",), " ".join(str(error).split()))]
    if header is None:
        return []
    mistakes = _missing_in_file(experiment.data, header)
    if mistakes:  # event columns are unknown until these are fixed
        return mistakes
    for model in experiment.models:
        mistakes += _missing_of_model(model, header)
    for view in experiment.views:
        if view.startswith(CONTEXT):
            names = [view.removeprefix(CONTEXT)]
            mistakes += _missing(("views", view), "column", names, header.events)
    for label, protocol in experiment.protocols.items():
        gain = [] if protocol.gain is None else [protocol.gain]
        mistakes += _missing(("protocols", label, "gain"), "column", gain, header.events)
    return mistakes + _missing_roles(experiment, header)


def _missing_in_file(source: Source, header: Header) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for name in ("user", "item", *STANDARD):
        if source.options.get(name) is not None:
            column = source.options[name]
            mistakes += _missing(("data", name), "column", [column], header.file)
    for name in LISTS:
        columns = source.options.get(name) or ()
        mistakes += _missing(("data", name), "column", columns, header.file)
    known = list(dict.fromkeys([*header.file, *header.items]))
    for name in OF_ITEMS:
        columns = name_list(source.options.get(name) or ())
        mistakes += _missing(("data", name), "column", columns, known)
    return mistakes + _missing_weights(source, header)


def _missing_weights(source: Source, header: Header) -> list[Mistake]:
    """Return a mistake if event types of the first rows have no weight."""
    weights = source.options.get("event_weights")
    if not weights or header.event_types is None:
        return []
    try:
        weights_by_type(header.event_types, weights)
    except FmpairError as error:
        return [(("data", "event_weights"), str(error))]
    return []


def _missing_of_model(model: Candidate, header: Header) -> list[Mistake]:
    path: KeyPath = ("models", model.name)
    sides = (
        ("context", "context column", model.context, header.context),
        ("user_fields", "user attribute", model.user_fields, header.users),
        ("item_fields", "item attribute", model.item_fields, header.items),
    )
    mistakes = [
        mistake
        for key, what, names, known in sides
        for mistake in _missing((*path, key), what, names or (), known)
    ]
    columns = (*header.context, *header.users, *header.items)
    return mistakes + _missing((*path, "fields"), "column", _fields(model, header), columns)


def _fields(model: Candidate, header: Header) -> list[str]:
    """Return the columns of the option `fields`, except names such as `item.city`."""
    sides = {"context": header.context, "user": header.users, "item": header.items}
    valid = {f"{side}.{name}" for side, names in sides.items() for name in names}
    if "timestamp" in header.events:  # a field can turn parts of it into features
        valid |= {"timestamp", "context.timestamp"}
    cross_domain = "domain" in header.events  # cross-domain models add columns
    return [
        name
        for name in model.options.get("fields") or ()
        if name not in valid
        and not (cross_domain and name.removeprefix("user.").startswith(SOURCE))
    ]


def _missing_roles(experiment: Experiment, header: Header) -> list[Mistake]:
    """Return mistakes of filters, splits and metrics that need ratings, times or domains."""
    mistakes: list[Mistake] = []
    if experiment.split.kind == "by_attribute" and "column" in experiment.split.options:
        sides = (("user", header.users), ("item", header.items))
        known = [*header.events, *header.users, *header.items]
        known += [f"{role}.{name}" for role, names in sides for name in names]
        column = experiment.split.options["column"]
        mistakes += _missing(("split", "column"), "column", [column], known)
    steps: list[tuple[KeyPath, str]] = [(("split",), experiment.split.kind)]
    steps += [(("filter", step.kind), step.kind) for step in experiment.filters]
    needs = [(key, kind, NEEDS[kind]) for key, kind in steps if kind in NEEDS]
    needs += [
        (("metrics", name), name, "rating")
        for name in experiment.metrics
        if Metric.parse(name).name in ERRORS
    ]
    if experiment.data.options.get("merge_repeats") is not None:
        needs.append((("data", "merge_repeats"), "merge_repeats", "timestamp"))
    needs += [
        (("protocols", label), label, "timestamp")
        for label, protocol in experiment.protocols.items()
        if protocol.timed
    ]
    return mistakes + [
        (key, f"{kind} needs a {role}: name its column with data.{role}")
        for key, kind, role in needs
        if role not in header.events
    ]


def _missing(key: KeyPath, what: str, names: Iterable[str], known: Sequence[str]) -> list[Mistake]:
    return [(key, unknown(what, name, known)) for name in names if name not in known]
