"""Event types such as view, cart and buy; impressions; refunds; repeats of an event.

Impressions are items that users were shown and did not choose, or disliked. They are stored
separately from the events.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, group_rows
from fmpair.checks import one_of
from fmpair.data.columns.roles import find_column
from fmpair.data.times import read_times
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable
from fmpair.errors import DataError, OptionError, listing, named, notice

LOG = logging.getLogger("fmpair")

MAX_EVENT_TYPES = 20

# Names of event types. Each line has names of one strength; the weakest sign of interest is first.
SIGNS: tuple[tuple[str, ...], ...] = (
    ("impression", "shown", "show"),
    ("view", "click", "pv", "page_view", "pageview", "detail", "visit", "open", "read"),
    ("play", "listen", "watch", "stream"),
    ("like", "fav", "favorite", "favourite", "wishlist", "bookmark", "save", "share", "follow"),
    ("cart", "add_to_cart", "addtocart", "basket", "add", "install", "download"),
    ("checkout", "reserve"),
    ("buy", "purchase", "transaction", "order", "book", "apply", "subscribe", "conversion"),
)
STRENGTH = {name: strength for strength, names in enumerate(SIGNS) for name in names}


class EventWeights(NamedTuple):
    """The column of event types, and the weight of each type."""

    column: str
    weights: tuple[tuple[str, float], ...]


def event_types(values: pl.Series, sure: bool = True) -> list[str]:
    """Return the event types of a column, [] if it is not one of event types.

    The weakest type comes first if all types are known. sure: whether the column name indicates
    event types; otherwise most values must be known types.
    """
    text = isinstance(values.dtype, pl.String | pl.Categorical | pl.Enum)
    if not text and not (sure and values.dtype.is_integer()):
        return []
    distinct = values.drop_nulls().unique(maintain_order=True)
    if not (1 if sure else 2) <= len(distinct) <= MAX_EVENT_TYPES:
        return []
    types = distinct.cast(pl.String).to_list()
    strengths = strengths_of(types)
    known = sum(strength is not None for strength in strengths)
    if not sure and 2 * known <= len(types):
        return []
    if known < len(types):
        return types
    return [name for _, name in sorted(zip(strengths, types), key=lambda pair: pair[0] or 0)]


def ordered_event_types(values: pl.Series) -> list[str] | None:
    """Return the event types from weakest to strongest, None if their order is not known."""
    types = event_types(values)
    strengths = strengths_of(types)
    distinct = len(set(strengths)) == len(strengths)
    return types if types and None not in strengths and distinct else None


def strengths_of(types: list[str]) -> list[int | None]:
    """Return how strong a sign of interest each event type is; None where that is not known."""
    plain = (name.lower().strip().replace("-", "_").replace(" ", "_") for name in types)
    return [STRENGTH.get(name) for name in plain]


def weights_by_type(types: pl.Series, weights: Mapping[str, Any]) -> pl.Series:
    """Return the weight of each event's type: float64 [events]; every type must have a weight."""
    check_event_weights(weights)
    by_type = {str(name): float(weight) for name, weight in weights.items()}
    text = types.cast(pl.String)
    lacking = text.filter(~text.is_in(list(by_type)).fill_null(False)).unique().sort()
    if len(lacking):
        names = ["(missing)" if name is None else name for name in lacking]
        unused = [name for name in by_type if name not in text]
        extra = f" (no event has type {listing(map(repr, unused))})" if unused else ""
        raise DataError(
            f"{named('event_weights')} has no weight for {listing(names)}{extra}: give every event "
            "type a weight, 0 to ignore it"
        )
    return text.replace_strict(by_type, return_dtype=pl.Float64)


def check_event_weights(weights: Mapping[str, Any]) -> None:
    """Raise OptionError unless every weight is a number of at least 0."""
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise OptionError(
                f"{named('event_weights')} must be 0 or more, not {weight!r} for {name!r}"
            )


class Events(Protocol):
    """The attributes of a `Dataset` that impressions need."""

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
    data: Events, table: pl.DataFrame, roles: Mapping[str, str | None]
) -> pl.DataFrame:
    """Return the impressions of the data and of a table: user, item, timestamp if any.

    Each pair is kept once, with its earliest time. Rows with unknown ids are kept and counted in
    the log, because an updated model may know them.
    roles: columns of the table by role; other roles are inferred from the column names.
    """
    columns = _role_columns(table, roles)
    ids = {"user": data.users, "item": data.items}
    new = table.select(_as_event_id_type(table[columns[role]], ids[role], role) for role in ids)
    unknown = np.any([known.numbers(new[role]) < 0 for role, known in ids.items()], axis=0)
    if unknown.any():
        LOG.warning(
            "%d of %d impressions have a user or item without events", unknown.sum(), len(unknown)
        )
    if "timestamp" in columns:
        times = read_times(table[columns["timestamp"]]).alias("timestamp")
        _check_comparable(times, data)
        new = new.with_columns(times)
    if len(data.impressions):
        new = pl.concat([data.impressions, new], how="diagonal_relaxed")
    return new.group_by("user", "item", maintain_order=True).agg(pl.all().min())


def impression_rows(data: Events) -> Rows:
    """Return the items shown to each user up to the time of the user's last event.

    Later impressions are excluded, because they may belong to the test period; this needs times of
    events and impressions. Items that the user chose are included.
    """
    user = data.users.numbers(data.impressions["user"])
    item = data.items.numbers(data.impressions["item"])
    usable = (user >= 0) & (item >= 0)
    if "timestamp" in data.impressions.columns and "timestamp" in data.columns.columns:
        events = pl.DataFrame({"user": data.user, "last": data.columns["timestamp"]})
        shown = pl.DataFrame({"user": user, "time": data.impressions["timestamp"]})
        last = events.group_by("user").max()
        late = shown.join(last, on="user", how="left", maintain_order="left").select(
            (pl.col("time") > pl.col("last")).fill_null(False)
        )
        usable &= ~late.to_series().to_numpy()
    return group_rows(user[usable], item[usable], len(data.users))


def _role_columns(table: pl.DataFrame, roles: Mapping[str, str | None]) -> dict[str, str]:
    columns = {}
    for role in ("user", "item", "timestamp"):
        wanted = roles.get(role)
        column = wanted if wanted in table.columns else find_column(role, table.columns, None)
        if column is not None:
            columns[role] = column
        elif role != "timestamp":
            raise DataError(
                f"the impressions have no {role} column among {listing(table.columns)}: rename it "
                f"to {wanted or role!r}"
            )
    return columns


def _as_event_id_type(values: pl.Series, known: Vocabulary, role: str) -> pl.Series:
    ids = comparable(as_plain(values), known.ids.dtype)
    if ids is None:
        raise DataError(
            f"{role} ids of the impressions are {values.dtype}, those of the events "
            f"{known.ids.dtype}: give both the same type"
        )
    return ids.alias(role)


def _check_comparable(times: pl.Series, data: Events) -> None:
    if "timestamp" in data.columns.columns:
        events = data.columns["timestamp"].dtype
        if events.is_temporal() != times.dtype.is_temporal():
            raise DataError(
                f"times of the impressions are {times.dtype}, those of the events {events}: "
                "give both the same type"
            )


# Refunds, and repeats: events with the same item as the one before, within minutes.

REFUNDS = ("drop", "keep")
# Names of event types that are refunds.
REFUND_TYPES = (
    *("refund", "refunded", "return", "returned", "returns", "chargeback", "cancel", "canceled"),
    *("cancelled", "cancellation", "remove_from_cart", "removefromcart", "removed_from_cart"),
)
# Columns whose negative numbers are refunds; a logarithm or a difference may be negative as well.
AMOUNT_NAME = re.compile(r"(^|_)(quantity|qty|price|amount|revenue|sales|total)($|_)")
NO_AMOUNT = re.compile(r"(^|_)(log|change|diff|difference|delta|norm|normalized|scaled|z)($|_)")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MAX_NEGATIVE = 1 / 3  # with a larger share of negative numbers a column is no amount of money


class Refunds(NamedTuple):
    """What happens to refunds ('drop' or 'keep'), and the column of event types, if any."""

    choice: str = "drop"
    column: str | None = None


DROPPED = Refunds()  # unless the data or a model say otherwise


MINUTE = 60_000_000  # microseconds
MINUTES = 30.0  # the longest time between an event and its repeat, if none is given


def without_refunds(
    events: pl.DataFrame, everything: pl.DataFrame, roles: Mapping[str, str], refunds: str
) -> pl.DataFrame:
    """Return the events without refunds, which are reported; refunds='keep' keeps them.

    everything: the same rows with all columns, since ignored columns may identify refunds.
    """
    one_of("refunds", refunds, REFUNDS)
    if refunds == "keep":
        return events
    marked = {name: flags for name, flags in _refunds(everything, roles).items() if flags.any()}
    either = np.any([flags.to_numpy() for flags in marked.values()], axis=0)
    count = int(either.sum())
    if not count:
        return events
    if count == len(events):
        raise DataError(
            f"all {count:,} events are refunds by {' and '.join(map(repr, marked))}: "
            f"{named('refunds', 'keep')} takes them as choices"
        )
    where = " and ".join(f"{int(flags.sum()):,} by {name!r}" for name, flags in marked.items())
    notice(
        f"left out {count:,} of {len(events):,} events that are refunds ({where}); "
        f"{named('refunds', 'keep')} takes them as choices"
    )
    return events.filter(~pl.Series(either))


def types_without_refunds(
    events: pl.DataFrame, roles: Mapping[str, str], refunds: str
) -> pl.Series | None:
    """Return the distinct types of events that are kept; None without a column of types."""
    if "event_type" not in roles:
        return None
    types = events[roles["event_type"]]
    if refunds != "keep":
        flags = [flag.to_numpy() for flag in _refunds(events, roles).values()]
        types = types.filter(~pl.Series(np.any(flags, axis=0))) if flags else types
    return types.unique(maintain_order=True)


def is_refund_type(name: str) -> bool:
    """Return whether an event type is a refund, such as refund, Return or remove-from-cart."""
    return re.sub(r"[\s-]", "_", name.strip().lower()) in REFUND_TYPES


def _refunds(events: pl.DataFrame, roles: Mapping[str, str]) -> dict[str, pl.Series]:
    """Return by column whether it marks each event as a refund: Boolean [events]."""
    flags = {}
    types = events[roles["event_type"]] if "event_type" in roles else None
    if types is not None and isinstance(types.dtype, pl.String | pl.Categorical | pl.Enum):
        text = types.cast(pl.String)
        refunds = [name for name in text.unique().drop_nulls() if is_refund_type(name)]
        flags[types.name] = text.is_in(refunds).fill_null(False)
    others = {column for role, column in roles.items() if role != "weight"}
    for values in events.select(pl.exclude(others)).iter_columns():
        name = CAMEL.sub("_", values.name).lower().replace(" ", "_").replace("-", "_")
        amount = AMOUNT_NAME.search(name) is not None and NO_AMOUNT.search(name) is None
        if amount and values.dtype.is_numeric():
            negative = (values < 0).fill_null(False)
            if negative.sum() <= MAX_NEGATIVE * len(negative):
                flags[values.name] = negative
    return flags


def first_of_run(
    user: np.ndarray, item: np.ndarray, moment: np.ndarray, minutes: float = MINUTES
) -> np.ndarray:
    """int64 [events]: the row of the first event of each event's run.

    A run is consecutive events of a user with one item, each within `minutes` of the one before.
    moment: int64 [events], microseconds.
    """
    check_minutes(minutes)
    order = np.lexsort((moment, user))
    same = (np.diff(user[order]) == 0) & (np.diff(item[order]) == 0)
    same &= np.diff(moment[order]) <= minutes * MINUTE
    begins = np.concatenate([[True], ~same])[: len(order)]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return first


def check_minutes(minutes: Any) -> None:
    """Raise OptionError unless `merge_repeats` is a number of minutes."""
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise OptionError(f"{named('merge_repeats')} must be minutes above 0, not {minutes!r}")


def merged(columns: pl.DataFrame, first: np.ndarray) -> pl.DataFrame:
    """Merge each run of events into its first event; return the columns, in the order of rows.

    The event gets the largest weight, the last rating and the strongest event type of the run. If
    the strength of a type is not known, it gets the last type.
    columns: with timestamp. first: the rows of `first_of_run`.
    """
    rules = {"weight": pl.col("weight").max(), "rating": pl.col("rating").last()}
    ranked = columns
    if "event_type" in columns.columns:
        types = columns["event_type"].cast(pl.String)
        known = types.unique().drop_nulls().to_list()
        by_type = {name: s for name, s in zip(known, strengths_of(known)) if s is not None}
        unknown = len(by_type) < len(known)
        strength = types.replace_strict(by_type, default=None, return_dtype=pl.Int64)
        ranked = columns.with_columns(__strength=pl.lit(0) if unknown else strength)
        rules["event_type"] = pl.col("event_type").sort_by("__strength", maintain_order=True).last()
    named_rules = [rules.get(name, pl.col(name).first()) for name in columns.columns]
    runs = ranked.with_columns(__first=first).sort("timestamp", maintain_order=True)
    return runs.group_by("__first").agg(named_rules).sort("__first").drop("__first")
