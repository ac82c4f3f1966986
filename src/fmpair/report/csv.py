"""Tables for people as CSV: what a spreadsheet would take for a formula stays text."""

from __future__ import annotations

import polars as pl
from polars import selectors

# What spreadsheets begin a formula with, in both widths of letters.
FORMULA = r"(?s)^[=+\-@\t\r\n\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}]."
NUMBER = r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"
TEXT = selectors.by_dtype(pl.String, pl.Categorical, pl.Enum)
QUOTE = "'"  # makes a cell text, and is not shown


def csv(frame: pl.DataFrame, exact: bool = False) -> bytes:
    """The frame as CSV; a text that begins as a formula gets a quote before it, unless `exact`.

    Numbers stay numbers, also those that stand in a column of text.
    """
    if not exact:
        headings = pl.DataFrame({"name": pl.Series(frame.columns, dtype=pl.String)})
        safe = headings.select(_quoted(pl.col("name")))["name"]
        frame = frame.with_columns(_quoted(TEXT)).rename(dict(zip(frame.columns, safe)))
    return frame.write_csv().encode()


def _quoted(column: pl.Expr) -> pl.Expr:
    text = column.cast(pl.String)
    formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(formula).then(pl.lit(QUOTE) + text).otherwise(text).name.keep()
