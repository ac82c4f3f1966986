"""TREC run files: `user Q0 item rank score tag`, a line for each recommended item."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.source import parsing, read_text, suffix_of
from fmpair.data.frame import with_types
from fmpair.errors import DataError

FIELDS = ("user", "q0", "item", "rank", "score", "tag")
SUFFIXES = (".trec", ".run")


def is_run(path: str | Path) -> bool:
    """Whether the name, or else the first line, is that of a TREC run."""
    if suffix_of(path) in SUFFIXES:
        return True
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        fields = file.readline(1000).split()
    return len(fields) == len(FIELDS) and fields[1].upper() == b"Q0"


def read_run(path: str | Path) -> pl.DataFrame:
    """A frame with the columns FIELDS; ids that are all whole numbers become such."""
    with parsing(f"{path} as a TREC run"):
        return _run(path)


def _run(path: str | Path) -> pl.DataFrame:
    lines = pl.Series(read_text(path).splitlines(), dtype=pl.String).str.strip_chars()
    fields = lines.filter(lines != "").str.replace_all(r"\s+", " ").str.split(" ")
    if not len(fields):
        raise DataError(f"{path} has no line of a TREC run: {' '.join(FIELDS)}")
    odd = fields.list.len() != len(FIELDS)
    if odd.any():
        raise DataError(
            f"line {odd.arg_max()} of {path} (counted from 0) has not the six fields of a TREC "
            f"run: {' '.join(FIELDS)}"
        )
    frame = fields.list.to_struct(fields=list(FIELDS)).struct.unnest()
    score = frame["score"].cast(pl.Float64, strict=False).fill_nan(None)
    if score.null_count():
        wrong = frame["score"].filter(score.is_null())[0]
        raise DataError(f"a score of {path} is not a number: {wrong!r}")
    return with_types(frame.with_columns(score), ids=("user", "item"))
