"""What is known of an event, its context, its user, its item, and splits by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.parts import Split, split_of
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.forked import check_process


def by_attribute(
    data: Dataset, column: str, test: Iterable[Any], validation: Iterable[Any] = ()
) -> Split:
    """Events with one of the values of `test` in the column for testing, and so for validation.

    column: of the events, else of the user or item table; user.NAME and item.NAME say which. An
    event whose cell is a list counts where any member does. Values are compared as text.
    """
    values = _column(data, column)
    tested, validated = (_has(values, wanted) for wanted in (test, validation))
    if (tested & validated).any():
        raise OptionError(f"some events of column {column!r} would both validate and test")
    trained = ~tested & ~validated
    if not (trained.any() and tested.any()):
        raise DataError(f"a split by {column!r} would leave nothing to train or to test on")
    return split_of(*(np.flatnonzero(part) for part in (trained, validated, tested)))


def in_domain(data: Dataset, domain: str) -> np.ndarray:
    """bool [events]: whether the event is of the domain."""
    if "domain" not in data.columns.columns:
        raise DataError(f"the data have no domains: name their column with {named('domain', ...)}")
    return _has(data.columns["domain"], domain)


def _column(data: Dataset, name: str) -> pl.Series:
    """The column, one cell per event."""
    places = {own: (data.columns[own], np.arange(len(data))) for own in data.columns.columns}
    for role, table, number in (
        ("user", data.user_table, data.user),
        ("item", data.item_table, data.item),
    ):
        for own in table.columns:
            places.setdefault(own, (table[own], number))
            places[f"{role}.{own}"] = (table[own], number)
    if name not in places:
        raise UnknownError(unknown("column", name, places))
    values, number = places[name]
    return values.gather(number)


def _has(values: pl.Series, wanted: Any) -> np.ndarray:
    """bool [events]: whether the cell is, or holds, one of the values."""
    check_process()
    many = isinstance(wanted, Iterable) and not isinstance(wanted, str)
    listed = list(wanted) if many else [wanted]
    if not listed:
        return np.zeros(len(values), bool)
    names = pl.Series(listed, strict=False).cast(pl.String).to_list()
    lists = isinstance(values.dtype, pl.List)
    text = values.cast(pl.List(pl.String) if lists else pl.String)
    known = (text.explode() if lists else text).unique(maintain_order=True).drop_nulls()
    for name in names:
        if name not in known:
            raise UnknownError(unknown(f"value of {values.name!r}", name, known))
    if not lists:
        return text.is_in(names).fill_null(False).to_numpy()
    inside = text.list.eval(pl.element().is_in(names)).list.any()
    return inside.fill_null(False).to_numpy()
