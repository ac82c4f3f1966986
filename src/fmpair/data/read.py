"""Read data from any file; the reader is chosen by the given format, else by the path."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

import polars as pl

from fmpair.checks import unknown_option
from fmpair.data.columns.roles import find_column
from fmpair.data.dataset import Dataset
from fmpair.data.formats.atomic import read_atomic
from fmpair.data.formats.delimited import read_delimited, read_wraprec
from fmpair.data.formats.json_lines import read_json
from fmpair.data.formats.libfm import read_libfm
from fmpair.data.formats.parquet import read_parquet
from fmpair.data.formats.research_sets import (
    read_cfm,
    read_citeulike,
    read_frappe,
    read_lightgcn,
    read_movielens,
    read_ncf,
    read_sequences,
)
from fmpair.data.formats.source import STANDARD_INPUT, Contents, locate, parse_errors, suffix_of
from fmpair.errors import DataError, OptionError, unknown
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
EXPERIMENTS = (".yaml", ".yml", ".toml")  # suffixes of experiment files, which hold no events


def read(path: str | Path, format: str | None = None, **options: Any) -> Dataset:
    """Read a Dataset from a file, a folder, or standard input (``-``: CSV or JSON lines).

    format: one of FORMATS; by default inferred from the path.
    options: those of the format's reader, and those of Dataset.from_frame (user=, item=,
    context=, ...). users=, items= and impressions= may also be paths, or mappings with a path and
    options of its reader.
    """
    contents = read_contents(path, format, **options)
    with parse_errors(str(path)):
        return contents.dataset()


def read_frame(path: str | Path, format: str | None = None, **options: Any) -> pl.DataFrame:
    """Read the events of a file as a plain frame, without roles of columns."""
    return read_contents(path, format, **options).events


def read_contents(path: str | Path, format: str | None = None, **options: Any) -> Contents:
    """Read the contents of a file; options of `Dataset.from_frame` are kept in its `roles`."""
    check_process()
    with parse_errors(str(path)):
        format = guess_format(path) if format is None else format
    if format not in list(FORMATS):
        raise OptionError(unknown("format", format, FORMATS))
    reading, roles = _split_options(FORMATS[format], options)
    with parse_errors(f"{path} as {format}"):
        contents = FORMATS[format](path, **reading)
        if isinstance(contents, pl.DataFrame):
            contents = Contents(contents)
        shared = {name: value for name, value in reading.items() if name in ("encoding", "nulls")}
        return _with_tables(contents, roles, shared)


def _with_tables(contents: Contents, roles: dict[str, Any], shared: dict[str, Any]) -> Contents:
    """Return the contents with the caller's options, and with the tables among them read.

    shared: text options of the events, which apply to tables given by a path alone.
    """
    events = contents.events
    for role in ("user", "item"):
        file = _file(roles.get(f"{role}s"), shared)
        if file is not None:
            table = read_table(role=role, key=roles.get(role), **file)
            roles[f"{role}s"] = _keyed_alike(table, events, role, roles.get(role))
    impressions = _file(roles.get("impressions"), shared)
    if impressions is not None:
        ids = {role: roles.get(role) for role in ("user", "item")}
        roles["impressions"] = read_frame(**{**ids, **impressions})
        for role, key in ids.items():
            roles["impressions"] = _keyed_alike(roles["impressions"], events, role, key)
    return replace(contents, roles={**contents.roles, **roles})


def read_table(path: str | Path, role: str, key: str | None = None, **options: Any) -> pl.DataFrame:
    """Read attributes of users or items; a table with a row per value gives a list per id."""
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
    "citeulike": read_citeulike,
}


def guess_format(path: str | Path) -> str:
    """Guess the format of a path by the files of a folder or zip, else by the suffix."""
    if str(path) == STANDARD_INPUT:
        start = cast(BufferedReader, sys.stdin.buffer).peek(64).lstrip()
        return "jsonl" if start.startswith((b"{", b"[")) else "delimited"
    if locate(path, "u.data") or locate(path, "ratings.dat"):
        return "movielens"
    if locate(path, "item-tag.dat"):
        return "citeulike"
    if Path(path).is_dir():
        return "frappe" if locate(path, "frappe.csv") else "atomic"
    if suffix_of(path) in EXPERIMENTS and Path(path).is_file():
        raise DataError(f"{path} is an experiment file, not a table: use fmpair run {path}")
    return SUFFIXES.get(suffix_of(path), "delimited")


def _split_options(
    reader: Callable[..., Any], options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the reader and those of Dataset.from_frame; refuse all others."""
    of_reader = [name for name in inspect.signature(reader).parameters if name != "path"]
    of_frame = list(inspect.signature(Dataset.from_frame).parameters)[1:]
    for name in options:
        if name not in of_reader and name not in of_frame:
            raise OptionError(unknown_option(name, [*of_reader, *of_frame]))
    reading = {name: value for name, value in options.items() if name in of_reader}
    roles = {name: value for name, value in options.items() if name not in of_reader}
    if "ids" in of_reader:  # columns that the caller names as user or item are ids too
        ids = (roles[role] for role in ("user", "item") if roles.get(role))
        reading["ids"] = [*reading.get("ids", ()), *ids]
    return reading, roles


def _file(given: Any, shared: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the path and reading options of a table, None if it is not given as a file."""
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
    """Return the table with text ids if those of the events are text, such as '007'."""
    key, other = _key(table, role, given), _key(events, role, given)
    if key is None or other is None or events[other].dtype != pl.String:
        return table
    return table.with_columns(pl.col(key).cast(pl.String))
