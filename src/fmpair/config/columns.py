"""Whether the columns that an experiment names are in its data, told from the header alone."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.config.experiment import Candidate, Experiment, Source
from fmpair.config.read import Reading, reading
from fmpair.config.shape import options_of
from fmpair.config.syntax import KeyPath
from fmpair.data import catalog, synthetic
from fmpair.data.dataset import STANDARD
from fmpair.data.delimited import read_columns, with_names
from fmpair.data.read import FORMATS, guess_format, read_contents, read_delimited, read_table
from fmpair.data.roles import find_column, find_roles
from fmpair.data.source import Contents, find_file, read_text
from fmpair.errors import DataError, FmpairError, unknown
from fmpair.evaluation.views import CONTEXT
from fmpair.metrics import Metric
from fmpair.metrics.metric import ERRORS

HEAD = 65_536  # bytes that surely hold the header of a file
LISTS = ("context", "ignore", "item_columns", "leaks")
# What cannot do without a column.
NEEDS = {
    "above_mean": "rating", "above": "rating", "at_least": "rating", "dislikes": "rating",
    "by_time": "timestamp", "leave_last_out": "timestamp", "target": "domain",
}  # fmt: skip

Mistake = tuple[KeyPath, str]


@dataclass(frozen=True)
class Header:
    """Column names: of the file, of the events made from it, of contexts and attributes."""

    file: tuple[str, ...]
    events: tuple[str, ...]
    context: tuple[str, ...]
    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


def validate(path: str | Path, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a file whose columns are there too; ConfigError lists all mistakes."""
    found = reading(path, overrides)
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
        header = header_of(experiment.data)
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


def header_of(source: Source) -> Header | None:
    """What columns there are; None where the data are not at hand."""
    if source.generate is not None:
        data = synthetic.make(2, 2, 2).data
        events = tuple(data.columns.columns)
        tables = tuple(data.user_table.columns), tuple(data.item_table.columns)
        return Header(events, events, data.context, *tables)
    if source.set is not None:
        folder = catalog.held(source.set)
        if folder is None:
            return None
        known = catalog.find(source.set)
        own = {} if known.items is None else {"items": str(folder / known.items)}
        path, options = str(folder / known.train), {"format": known.format, **own, **source.options}
    else:
        path, options = str(source.path or source.train), dict(source.options)
    return _header(_contents(path, options), options)


def _contents(path: str, options: dict[str, Any]) -> Contents:
    """No more than the first rows where the format allows that."""
    format = options.get("format") or guess_format(path)
    reader = options_of(FORMATS[format]).known
    own = {key: value for key, value in options.items() if key in reader}
    if format == "parquet":
        return Contents(pl.read_parquet(find_file(Path(path)), n_rows=0))
    if FORMATS[format] is not read_delimited:
        return read_contents(path, format, **own)
    text = _head(path, own)
    frame = read_columns(text, path, own.get("separator"), own.get("header", True))
    return Contents(with_names(frame, path, own.get("columns")))


def _head(path: str, own: dict[str, Any]) -> str:
    """The first lines of a file, plain or gzipped; all of a zipped one."""
    encoding = own.get("encoding", "utf-8")
    file = find_file(Path(path))
    if file.suffix == ".zip":
        return read_text(path, encoding, own.get("member"))
    with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        start = stream.read(HEAD)
    whole = start if len(start) < HEAD else start[: start.rfind(b"\n")]
    if not whole.strip():
        raise DataError(f"{path} is empty: there is nothing to read")
    return whole.decode(encoding, errors="replace").removeprefix("\ufeff")


def _header(contents: Contents, options: dict[str, Any]) -> Header:
    """Which column is what, as `Dataset.from_frame` would have it."""
    given = {**contents.roles, **options}
    names = [name for name in contents.events.columns if name not in given.get("ignore", ())]
    asked = {role: given.get(role) for role in ("user", "item", *STANDARD)}
    here = {role: name for role, name in asked.items() if name in names}
    roles = find_roles(names, here) if _askable(asked, names) else {}
    moved = tuple(given.get("item_columns", ()))
    rest = [name for name in names if name not in (*roles.values(), *moved)]
    context = tuple(rest if given.get("context") is None else given["context"])
    standard = [role for role in STANDARD if role in roles]
    users = _attributes(contents.users, given.get("users"), "user", given.get("user"))
    items = _attributes(contents.items, given.get("items"), "item", given.get("item")) + moved
    return Header(tuple(contents.events.columns), (*standard, *context), context, users, items)


def _askable(asked: dict[str, Any], names: list[str]) -> bool:
    """Whether all columns that are named are there; if not, that is said first."""
    return all(name is None or name in names for name in asked.values())


def _attributes(
    found: pl.DataFrame | None, given: Any, role: str, key: str | None
) -> tuple[str, ...]:
    """Columns of a table of attributes but for the id."""
    if isinstance(given, dict):
        found = read_table(role=role, key=key, **given)
    elif isinstance(given, str | Path):
        found = read_table(given, role, key)
    if found is None:
        return ()
    own = key if key in found.columns else find_column(role, found.columns, None)
    return tuple(name for name in found.columns if name != own)


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
        ("fields", "column", tuple(model.options.get("fields") or ()),
         (*header.context, *header.users, *header.items)),
    )  # fmt: skip
    return [
        mistake
        for key, what, wanted, known in sides
        for mistake in _absent((*at, key), what, wanted or (), known)
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
    return found + [
        (key, f"{kind} needs a {role}: name its column with data.{role}")
        for key, kind, role in asked
        if role not in header.events
    ]


def _absent(key: KeyPath, what: str, wanted: Iterable[str], known: Sequence[str]) -> list[Mistake]:
    return [(key, unknown(what, name, known)) for name in wanted if name not in known]
