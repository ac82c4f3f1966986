"""The columns of an experiment's data, by the header alone."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.config.experiment import Source, Step
from fmpair.config.option_schema import options_of
from fmpair.data import public_sets, synthetic
from fmpair.data.columns.inference import role_columns
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.data.formats.delimited import read_columns, with_names
from fmpair.data.formats.parquet import parquet_columns
from fmpair.data.formats.source import Contents, find_file, parse_errors, read_text
from fmpair.data.frame import id_columns, with_types
from fmpair.data.read import FORMATS, guess_format, read_contents, read_delimited, read_table
from fmpair.errors import DataError

HEAD = 65_536  # bytes that surely hold the header of a file


@dataclass(frozen=True)
class Header:
    """Column names: of the file, of the events made from it, of contexts and attributes."""

    file: tuple[str, ...]
    events: tuple[str, ...]
    context: tuple[str, ...]
    users: tuple[str, ...] = ()
    items: tuple[str, ...] = ()


def header_of(source: Source, filters: Sequence[Step] = ()) -> Header | None:
    """The columns after all filters; None where the data are not on this machine."""
    header = _source_header(source)
    return None if header is None else reduce(_filtered, filters, header)


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
        own = {} if known.items is None else {"items": str(folder / known.items)}
        path, options = str(folder / known.train), {"format": known.format, **own, **source.options}
    else:
        path, options = str(source.path or source.train), dict(source.options)
    return _header(_contents(path, options), options)


def _filtered(header: Header, step: Step) -> Header:
    """Three filters change which columns there are."""
    if step.kind == "enlarged":
        more = tuple(f"random_{n + 1}" for n in range(step.options.get("contexts", 0)))
        return replace(header, events=(*header.events, *more), context=(*header.context, *more))
    if step.kind == "merge_duplicates" and not step.options.get("context", True):
        events = tuple(name for name in header.events if name not in header.context)
        return replace(header, events=events, context=())
    if step.kind == "leaked" and step.options["column"] in header.items:
        column = step.options["column"]
        return replace(
            header,
            events=(*header.events, column),
            context=(*header.context, column),
            items=tuple(name for name in header.items if name != column),
        )
    return header


def _contents(path: str, options: dict[str, Any]) -> Contents:
    """No more than the first rows where the format allows that."""
    with parse_errors(path):
        return _first_rows(path, options)


def _first_rows(path: str, options: dict[str, Any]) -> Contents:
    format = options.get("format") or guess_format(path)
    reader = options_of(FORMATS[format]).known
    own = {key: value for key, value in options.items() if key in reader}
    if format == "parquet":
        return Contents(parquet_columns(path))
    if FORMATS[format] is not read_delimited:
        return read_contents(path, format, **own)
    text = _head(path, own)
    frame = read_columns(
        text, path, own.get("separator"), own.get("header", True), ragged=own.get("ragged", "error")
    )
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
    moved = tuple(given.get("item_columns", ()))
    taken = (*moved, *(given.get("context") or ()), *(given.get("leaks") or ()))
    head = with_types(contents.events.select(names), id_columns(names))
    roles = role_columns(head, here, taken) if _askable(asked, names) else {}
    rest = [name for name in names if name not in (*roles.values(), *moved)]
    context = tuple(rest if given.get("context") is None else given["context"])
    timed = {"timestamp"} if given.get("order") else set()
    standard = [role for role in STANDARD if role in roles or role in timed]
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
