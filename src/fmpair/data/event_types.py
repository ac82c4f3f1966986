"""Impressions: items that users were shown and did not choose, or disliked, beside the events."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, group_rows
from fmpair.data.columns.roles import find_column
from fmpair.data.times import read_times
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable
from fmpair.errors import DataError, OptionError, listing, named

# Kinds of events, such as view, cart and buy: which there are, their order, their weights.


MOST_KINDS = 20

# What a kind may be called, the weakest sign of interest first.
SIGNS: tuple[tuple[str, ...], ...] = (
    ("impression", "shown", "show"),
    ("view", "click", "pv", "page_view", "pageview", "detail", "visit", "open", "read"),
    ("play", "listen", "watch", "stream"),
    ("like", "fav", "favorite", "favourite", "wishlist", "bookmark", "save", "share", "follow"),
    ("cart", "add_to_cart", "addtocart", "basket", "add", "install", "download"),
    ("checkout", "reserve"),
    ("buy", "purchase", "transaction", "order", "book", "apply", "subscribe", "conversion"),
)
PLACE = {name: place for place, names in enumerate(SIGNS) for name in names}


class EventWeights(NamedTuple):
    """How much events of each kind count, and the column that tells their kinds."""

    column: str
    weights: tuple[tuple[str, float], ...]


def event_kinds(values: pl.Series, named_so: bool = True) -> list[str]:
    """The kinds of events that a column tells, the weakest first where all are known; else none.

    Under a name that does not say so for sure most of the values must be known kinds.
    """
    text = isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum)
    if not text and not (named_so and values.dtype.is_integer()):
        return []
    found = values.drop_nulls().unique(maintain_order=True)
    if not (1 if named_so else 2) <= len(found) <= MOST_KINDS:
        return []
    kinds = found.cast(pl.String).to_list()
    places = [PLACE.get(_plain(kind)) for kind in kinds]
    known = sum(place is not None for place in places)
    if not named_so and 2 * known <= len(kinds):
        return []
    if known < len(kinds):
        return kinds
    return [kind for _, kind in sorted(zip(places, kinds), key=lambda pair: pair[0] or 0)]


def ordered_kinds(values: pl.Series) -> list[str] | None:
    """The kinds from the weakest to the strongest, None where the order of some is not known."""
    kinds = event_kinds(values)
    places = [PLACE.get(_plain(kind)) for kind in kinds]
    distinct = len(set(places)) == len(places)
    return kinds if kinds and None not in places and distinct else None


def kind_weights(kinds: pl.Series, weights: Mapping[str, Any]) -> pl.Series:
    """Float64 [events]: the weight of each event's kind; every kind must have one."""
    for kind, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise OptionError(
                f"{named('event_weights')} must be 0 or more, not {weight!r} for {kind!r}"
            )
    by_kind = {str(kind): float(weight) for kind, weight in weights.items()}
    found = kinds.cast(pl.String)
    lacking = found.filter(~found.is_in(list(by_kind)).fill_null(False)).unique().sort()
    if len(lacking):
        names = ["(missing)" if kind is None else kind for kind in lacking]
        strange = [kind for kind in by_kind if kind not in found]
        beside = f", and no event is of kind {listing(map(repr, strange))}" if strange else ""
        raise DataError(
            f"{named('event_weights')}: no weight for {listing(names)}{beside}: give each kind "
            "one, 0 for those that do not count"
        )
    return found.replace_strict(by_kind, return_dtype=pl.Float64)


def _plain(kind: str) -> str:
    return kind.lower().strip().replace("-", "_").replace(" ", "_")


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
