"""What a visitor looked at before asking: a list of items in place of a user's id."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, starts
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, named
from fmpair.fitted.lookup import ids_of, known_only

COLUMN = "history"  # of a frame of queries
BETWEEN = "|"  # the items of a history that is text, as in delimited files


def with_history(frame: pl.DataFrame | None, items: Any) -> pl.DataFrame:
    """The queries of one visitor, or of one user, with their history as a column.

    frame: None for a visitor without an id; items: any collection of ids.
    """
    column = pl.Series(COLUMN, [ids_of(items)])
    if frame is None:
        return column.to_frame()
    if len(frame) != 1:
        raise OptionError(
            f"{named(COLUMN)} is of one visitor, not of {len(frame):,}: for several give a frame "
            f"with a column {COLUMN!r} of lists"
        )
    return frame.drop(COLUMN, strict=False).hstack([column])


def histories_of(values: pl.Series, items: Vocabulary, strict: bool) -> Rows:
    """Per query the numbers of its items that are known, in their order, each with value 1.

    values: lists, or text with bars between ids. strict: an unknown item is refused.
    """
    if values.dtype == pl.String:
        values = values.str.split(BETWEEN).list.eval(pl.element().filter(pl.element() != ""))
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List | pl.Null):
        raise DataError(
            f"column {values.name!r} holds {values.dtype}: give lists of items, or text such as "
            f"'a{BETWEEN}b'"
        )
    lengths, members = _members(values)
    number = known_only(COLUMN, members, items, strict)
    known = number >= 0
    owner = np.repeat(np.arange(len(lengths)), lengths)[known]
    counts = np.bincount(owner, minlength=len(lengths))
    return Rows(starts(counts), number[known], np.ones(len(owner), np.float32))


def _members(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """(how many each list holds, all that they hold)."""
    if values.null_count() == len(values):
        return np.zeros(len(values), np.int64), pl.Series([], dtype=pl.Null)
    if len(values) == 1:  # one visitor waits for an answer: expressions take half a millisecond
        return np.array([len(values[0])]), values[0]
    lengths = values.list.len().fill_null(0).to_numpy()
    return lengths, values.explode(empty_as_null=False, keep_nulls=False)
