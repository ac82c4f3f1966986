"""Tables for people as CSV: what a spreadsheet would take for a formula stays text."""

from __future__ import annotations

import polars as pl

# What spreadsheets begin a formula with, in both widths of letters.
FORMULA = r"(?s)^[=+\-@\t\r\n\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}]."
NUMBER = r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"
QUOTE = "'"  # makes a cell text, and is not shown


def csv(frame: pl.DataFrame, exact: bool = False) -> bytes:
    """The frame as CSV; a text that begins as a formula gets a quote before it, unless `exact`.

    Numbers stay numbers, also those that stand in a column of text.
    """
    if not exact:
        names = pl.Series(frame.columns, dtype=pl.String)
        frame = frame.with_columns(_quoted(pl.col(name)) for name in _texts(frame))
        frame = frame.rename(dict(zip(names, names.to_frame("").select(_quoted(pl.all()))[""])))
    return frame.write_csv().encode()


def _texts(frame: pl.DataFrame) -> list[str]:
    return [
        name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)
    ]


def _quoted(column: pl.Expr) -> pl.Expr:
    text = column.cast(pl.String)
    formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(formula).then(pl.lit(QUOTE) + text).otherwise(text).name.keep()
