"""Columns of the events that describe the item, moved to the table of items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from fmpair.data.check import check_no_leak
from fmpair.data.decision import ATTRIBUTE, CONTEXT, Decisions
from fmpair.data.frame import to_polars
from fmpair.data.table import ids_of
from fmpair.data.vocabulary import as_plain


def item_table(
    events: pl.DataFrame, found: Decisions, items: Any, leaks: Sequence[str]
) -> pl.DataFrame | None:
    """The item table with columns of the events added: each item's most frequent value."""
    key, moved = found.roles["item"], found.named(ATTRIBUTE)
    table = None if items is None else to_polars(items)
    if table is not None:
        check_no_leak(found.named(CONTEXT), table, leaks)
    if not moved:
        return table
    own = events.group_by(key, maintain_order=True).agg(_usual(events[name]) for name in moved)
    own = own.with_columns(as_plain(own[key]))
    if table is None:
        return own
    ids = ids_of(table, own[key].dtype, "item", key)
    table = table.with_columns(ids).rename({ids.name: key})
    return own.join(table, on=key, how="full", coalesce=True)


def _usual(values: pl.Series) -> pl.Expr:
    """The most frequent value of a group, the least of several such; of lists the first."""
    known = pl.col(values.name).drop_nulls()
    if values.dtype.is_nested():
        return known.first()
    return known.mode().sort().first()
