"""Impressions: items that users were shown and did not choose, or disliked, beside the events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, group_rows
from fmpair.data.roles import find_column
from fmpair.data.times import read_times
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable
from fmpair.errors import DataError, listing

LOG = logging.getLogger("fmpair")


class Events(Protocol):
    """What impressions need to know of the events they stand beside: see `Dataset`."""

    @property
    def users(self) -> Vocabulary: ...
    @property
    def items(self) -> Vocabulary: ...
    @property
    def user(self) -> np.ndarray: ...
    @property
    def columns(self) -> pl.DataFrame: ...
    @property
    def impressions(self) -> pl.DataFrame: ...


def add_impressions(
    data: Events, table: pl.DataFrame, named: Mapping[str, str | None]
) -> pl.DataFrame:
    """The data's impressions with those of a table: user, item, and timestamp where there are any.

    A pair stays once, with its first time. Rows of ids that the data do not know stay too, since a
    model that is updated may know them; their number is logged.
    named: the table's columns by role, as the events have them; others are found by name.
    """
    roles = _roles(table, named)
    ids = {"user": data.users, "item": data.items}
    found = table.select(_ids(table[roles[role]], known, role) for role, known in ids.items())
    unknown = np.any([known.numbers(found[role]) < 0 for role, known in ids.items()], axis=0)
    if unknown.any():
        LOG.warning(
            "%d of %d impressions have a user or an item without any event",
            unknown.sum(),
            len(unknown),
        )
    if "timestamp" in roles:
        times = read_times(table[roles["timestamp"]]).alias("timestamp")
        found = found.with_columns(_like_those_of_events(times, data))
    both = (
        pl.concat([data.impressions, found], how="diagonal_relaxed")
        if len(data.impressions)
        else found
    )
    return both.group_by("user", "item", maintain_order=True).agg(pl.all().min())


def impression_rows(data: Events) -> Rows:
    """Per user the impressions that may be known to someone who has these events and no others.

    Where both have times, impressions after a user's last event are left out: they may be of the
    test period. Items that the user chose are not.
    """
    user, item = (
        data.users.numbers(data.impressions["user"]),
        data.items.numbers(data.impressions["item"]),
    )
    kept = (user >= 0) & (item >= 0)
    if "timestamp" in data.impressions.columns and "timestamp" in data.columns.columns:
        events = pl.DataFrame({"user": data.user, "last": data.columns["timestamp"]})
        shown = pl.DataFrame({"user": user, "time": data.impressions["timestamp"]})
        last = events.group_by("user").max()
        late = shown.join(last, on="user", how="left", maintain_order="left").select(
            (pl.col("time") > pl.col("last")).fill_null(False)
        )
        kept &= ~late.to_series().to_numpy()
    return group_rows(user[kept], item[kept], len(data.users))


def _roles(table: pl.DataFrame, named: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    for role in ("user", "item", "timestamp"):
        given = named.get(role)
        column = given if given in table.columns else find_column(role, table.columns, None)
        if column is not None:
            found[role] = column
        elif role != "timestamp":
            raise DataError(
                f"the impressions have no {role}s: none of {listing(table.columns)} is named like "
                f"{role}; rename it to {given or role!r}"
            )
    return found


def _ids(values: pl.Series, known: Vocabulary, role: str) -> pl.Series:
    """Ids in the type they have among the events."""
    found = comparable(as_plain(values), known.ids.dtype)
    if found is None:
        raise DataError(
            f"{role} ids of the impressions are {values.dtype}, those of the events "
            f"{known.ids.dtype}: give both the same type"
        )
    return found.alias(role)


def _like_those_of_events(times: pl.Series, data: Events) -> pl.Series:
    """The times as they are; DataError where they cannot be compared with those of the events."""
    if "timestamp" in data.columns.columns:
        events = data.columns["timestamp"].dtype
        if events.is_temporal() != times.dtype.is_temporal():
            raise DataError(
                f"times of the impressions are {times.dtype}, those of the events {events}: "
                "give both the same type"
            )
    return times
