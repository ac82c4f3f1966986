"""TREC run files: one line `user Q0 item rank score tag` per recommended item."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fmpair.data.formats.source import first_line, parse_errors, read_lines, suffix_of
from fmpair.data.frame import with_types
from fmpair.errors import DataError

FIELDS = ("user", "q0", "item", "rank", "score", "tag")
SUFFIXES = (".trec", ".run")


def is_run(path: str | Path) -> bool:
    """Return whether the suffix or the first line is that of a TREC run."""
    if suffix_of(path) in SUFFIXES:
        return True
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        fields = file.readline(1000).split()
    return len(fields) == len(FIELDS) and fields[1].upper() == b"Q0"


def read_run(path: str | Path) -> pl.DataFrame:
    """Read a TREC run as a frame with the columns FIELDS; whole-number ids become integers."""
    with parse_errors(f"{path} as a TREC run"):
        lines = read_lines(path).str.strip_chars()
        fields = lines.filter(lines != "").str.replace_all(r"\s+", " ").str.split(" ")
        if not len(fields):
            raise DataError(f"{path} has no lines '{' '.join(FIELDS)}' of a TREC run")
        wrong = (lines != "") & (lines.str.count_matches(r"\S+") != len(FIELDS))
        if wrong.any():
            raise DataError(
                f"line {first_line(wrong)} of {path} does not have the six fields of a TREC run: "
                f"{' '.join(FIELDS)}"
            )
        frame = fields.list.to_struct(fields=list(FIELDS)).struct.unnest()
        score = frame["score"].cast(pl.Float64, strict=False).fill_nan(None)
        if score.null_count():
            text = frame["score"].filter(score.is_null())[0]
            raise DataError(f"a score in {path} is not a number: {text!r}")
        return with_types(frame.with_columns(score), ids=("user", "item"))
