"""Data from any file: the reader is chosen by the format's name, else by the path."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import polars as pl

from fmpair.data.columns.roles import find_column
from fmpair.data.dataset import Dataset
from fmpair.data.formats.atomic import read_atomic
from fmpair.data.formats.delimited import read_delimited
from fmpair.data.formats.frappe import read_cfm, read_frappe
from fmpair.data.formats.json_lines import read_json
from fmpair.data.formats.libfm import read_libfm
from fmpair.data.formats.lightgcn import read_lightgcn, read_sequences
from fmpair.data.formats.movielens import read_movielens
from fmpair.data.formats.ncf import read_ncf
from fmpair.data.formats.parquet import read_parquet
from fmpair.data.formats.source import STANDARD_INPUT, Contents, locate, parsing, suffix_of
from fmpair.data.formats.wraprec import read_wraprec
from fmpair.errors import OptionError, unknown
from fmpair.option_names import unknown_option
from fmpair.threads import check_process

SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".inter": "atomic",
    ".libfm": "libfm",
    ".svm": "libfm",
    ".svmlight": "libfm",
    ".rating": "ncf",
}


def read(path: str | Path, format: str | None = None, **options: Any) -> Dataset:
    """The data of a file, a folder, or standard input (``-``: CSV or JSON lines).

    format: one of FORMATS, by default inferred from the path.
    options: those of the format's reader, and those of Dataset.from_frame (user=, item=,
    context=, ...), where users=, items= and impressions= may also be paths, or mappings of a path
    and options.
    """
    contents = read_contents(path, format, **options)
    with parsing(str(path)):
        return contents.dataset()


def read_frame(path: str | Path, format: str | None = None, **options: Any) -> pl.DataFrame:
    """The events of a file as a plain frame, without roles of columns."""
    return read_contents(path, format, **options).events


def read_contents(path: str | Path, format: str | None = None, **options: Any) -> Contents:
    """What the file holds, with the caller's options for Dataset.from_frame among its roles."""
    check_process()
    with parsing(str(path)):
        format = guess_format(path) if format is None else format
    if format not in list(FORMATS):
        raise OptionError(unknown("format", format, FORMATS))
    own, roles = _split_options(FORMATS[format], options)
    with parsing(f"{path} as {format}"):
        contents = FORMATS[format](path, **own)
        if isinstance(contents, pl.DataFrame):
            contents = Contents(contents)
        shared = {name: value for name, value in own.items() if name in ("encoding", "nulls")}
        return _with_tables(contents, roles, shared)


def _with_tables(contents: Contents, roles: dict[str, Any], shared: dict[str, Any]) -> Contents:
    """The contents with the caller's options, and the tables among these read.

    shared: how the text of the events is read; tables given by their path alone are read alike.
    """
    events = contents.events
    for role in ("user", "item"):
        given = _file(roles.get(f"{role}s"), shared)
        if given is not None:
            table = read_table(role=role, key=roles.get(role), **given)
            roles[f"{role}s"] = _keyed_alike(table, events, role, roles.get(role))
    impressions = _file(roles.get("impressions"), shared)
    if impressions is not None:
        ids = {role: roles.get(role) for role in ("user", "item")}
        roles["impressions"] = read_frame(**{**ids, **impressions})
        for role, key in ids.items():
            roles["impressions"] = _keyed_alike(roles["impressions"], events, role, key)
    return replace(contents, roles={**contents.roles, **roles})


def read_table(path: str | Path, role: str, key: str | None = None, **options: Any) -> pl.DataFrame:
    """Attributes of users or items; a long table (an id per value) becomes one list per id."""
    table = read_frame(path, **{role: key}, **options)
    column = _key(table, role, key)
    if column is None or table.width != 2 or table[column].n_unique() == len(table):
        return table
    values = pl.all().exclude(column).drop_nulls().cast(pl.String)
    return table.group_by(column, maintain_order=True).agg(values)


FORMATS: dict[str, Callable[..., Contents | pl.DataFrame]] = {
    "delimited": read_delimited,
    "csv": read_delimited,
    "tsv": read_delimited,
    "parquet": read_parquet,
    "jsonl": read_json,
    "movielens": read_movielens,
    "frappe": read_frappe,
    "cfm": read_cfm,
    "lightgcn": read_lightgcn,
    "sequences": read_sequences,
    "libfm": read_libfm,
    "atomic": read_atomic,
    "wraprec": read_wraprec,
    "ncf": read_ncf,
}


def guess_format(path: str | Path) -> str:
    """The format a path looks like: by what a folder or zip holds, else by the suffix."""
    if str(path) == STANDARD_INPUT:
        start = cast(BufferedReader, sys.stdin.buffer).peek(64).lstrip()
        return "jsonl" if start.startswith((b"{", b"[")) else "delimited"
    if locate(path, "u.data") or locate(path, "ratings.dat"):
        return "movielens"
    if Path(path).is_dir():
        return "frappe" if locate(path, "frappe.csv") else "atomic"
    return SUFFIXES.get(suffix_of(path), "delimited")


def _split_options(
    reader: Callable[..., Any], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the reader and those of Dataset.from_frame; any other is an error."""
    own = [name for name in inspect.signature(reader).parameters if name != "path"]
    roles = list(inspect.signature(Dataset.from_frame).parameters)[1:]
    for name in options:
        if name not in own and name not in roles:
            raise OptionError(unknown_option(name, [*own, *roles]))
    mine = {name: value for name, value in options.items() if name in own}
    rest = {name: value for name, value in options.items() if name not in own}
    if "ids" in own:  # a column the caller calls user or item is kept as exactly as any id
        mine["ids"] = [*mine.get("ids", ()), *(rest[r] for r in ("user", "item") if rest.get(r))]
    return mine, rest


def _file(given: Any, shared: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A table's path and reading options, None where it is given otherwise or not at all."""
    if isinstance(given, str | Path):
        given = {"path": given}
        if FORMATS[guess_format(given["path"])] is read_delimited:
            given |= shared
    return given if isinstance(given, Mapping) else None


def _key(frame: pl.DataFrame, role: str, given: str | None) -> str | None:
    return given if given in frame.columns else find_column(role, frame.columns, None)


def _keyed_alike(
    table: pl.DataFrame, events: pl.DataFrame, role: str, given: str | None
) -> pl.DataFrame:
    """The table with text ids where the events have such: '8' beside '007' is text in both."""
    key, other = _key(table, role, given), _key(events, role, given)
    if key is None or other is None or events[other].dtype != pl.String:
        return table
    return table.with_columns(pl.col(key).cast(pl.String))
