"""`Catalogue`: all columns of the items, for rules and display."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import polars as pl

from fmpair.data.columns.roles import check_types
from fmpair.data.frame import to_polars
from fmpair.data.item_columns import changed, id_column, plain_columns
from fmpair.data.vocabulary import Vocabulary

MIN_CACHED, MAX_CACHED = 8, 256  # results that `cached` holds at a time
CELLS_CACHED = 32_000_000  # in all results together; MIN_CACHED results are held in any case

T = TypeVar("T")


@dataclass(frozen=True)
class Catalogue:
    """One row per item, with any columns. Immutable: a change makes a new one.

    items: the ids. Those of the model come first, in the model's order, so that the rows
    [:len(model.space.items)] belong to its item arrays; items that the model does not know follow.
    table: one row per id of `items`, null where nothing is known; the ids are not among its
    columns. key: the name of the item column in frames.
    """

    items: Vocabulary
    table: pl.DataFrame
    key: str = "item"
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.items)

    def __reduce__(self) -> tuple[Any, ...]:
        return Catalogue, (self.items, self.table, self.key)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, without the item column."""
        return self.table.columns

    def frame(self) -> pl.DataFrame:
        """Return the ids and all columns as one frame."""
        ids = self.items.ids.rename(self.key).to_frame()
        return ids.hstack(self.table.drop(self.key, strict=False))

    def row(self, item: Any) -> dict[str, Any]:
        """Return what is known of one item by column, without nulls; empty for an unknown item."""
        number = self.items.number(item)
        if number < 0 or not self.table.width:
            return {}
        row = self.table.row(number, named=True)
        return {name: value for name, value in row.items() if value is not None}

    def changed(self, changes: Any, *, clear: bool = False) -> Catalogue:
        """Return the catalogue with rows added or changed; this one stays as it is.

        changes: a frame with an item column and any others. An item that has a row keeps the values
        of columns that are not given; an unknown item gets a row, an unknown column is added. Of
        several rows of one item the last counts. clear: whether a null erases the value; by
        default it leaves the value as it is.
        """
        frame = to_polars(changes)
        check_types(frame)
        ids = id_column(frame, self.items.ids.dtype, "item", self.key, distinct=False)
        frame = frame.with_columns(ids).unique(ids.name, keep="last", maintain_order=True)
        given = plain_columns(frame.drop(ids.name))
        items, table, _ = changed(self.items, self.table, frame[ids.name], given, clear)
        return replace(self, items=items, table=table)

    def cached(self, key: Any, make: Callable[[], T]) -> T:
        """Return the result of `make` for a key, computed once for this catalogue.

        Rules keep the arrays of their conditions here, so that a condition is computed once.
        """
        result = self._cache.get(key)
        if result is None:
            limit = max(min(MAX_CACHED, CELLS_CACHED // max(len(self), 1)), MIN_CACHED)
            for oldest in list(self._cache)[: max(len(self._cache) - limit + 1, 0)]:
                self._cache.pop(oldest, None)  # another thread may have done so
            result = self._cache[key] = make()
        return result
