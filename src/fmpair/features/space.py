"""`FeatureSpace`: numbers every attribute and context value of the query and the item side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, ordered_rows, starts
from fmpair.data import Dataset
from fmpair.data.event_types import DROPPED, EventWeights, Refunds
from fmpair.data.item_columns import changed
from fmpair.data.times import is_calendar
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, named, unknown
from fmpair.features.calendar import TIME, check_role, default_parts, since_last
from fmpair.features.encoder import Encoder, sum_to_one
from fmpair.features.field import Field, field_from, kind_of
from fmpair.features.history_fields import HISTORY, features_of_items, history_encoders
from fmpair.features.vectors import owners_named

USER, ITEM = "user", "item"  # names of the ids among the fields of their sides
Names = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Side:
    """The fields of one side, with consecutive feature numbers."""

    encoders: tuple[Encoder, ...] = ()

    @property
    def offsets(self) -> np.ndarray:
        """int64 [fields + 1]: the first feature of each field."""
        return starts(np.array([e.size for e in self.encoders], np.int64))

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.offsets[-1])

    def of_role(self, role: str) -> list[tuple[int, Encoder]]:
        """Return (first feature, encoder) of each field of a role."""
        pairs = zip(self.offsets[:-1].tolist(), self.encoders)
        return [(offset, e) for offset, e in pairs if e.role == role]

    def field_numbers(self) -> np.ndarray:
        """Return the field of each feature: int32 [size]."""
        fields = np.arange(len(self.encoders), dtype=np.int32)
        return np.repeat(fields, [e.size for e in self.encoders])

    def only(self, rows: Rows, fields: Sequence[bool]) -> Rows:
        """Return the rows with only the features of the given fields."""
        if all(fields):
            return rows
        if not any(fields):
            return empty_rows(rows.size)
        chosen = np.repeat(fields, [e.size for e in self.encoders]).astype(bool)[rows.column]
        return ordered_rows(rows.owner[chosen], rows.column[chosen], rows.value[chosen], rows.size)

    def content(self, rows: Rows) -> Rows:
        """Return rows of items with only the features of lists and vectors."""
        return self.only(rows, [e.is_content for e in self.encoders])

    def label(self, feature: int) -> str:
        """Return the readable name of one feature."""
        field = int(np.searchsorted(self.offsets, feature, side="right")) - 1
        return self.encoders[field].label(int(feature - self.offsets[field]))

    def labels(self) -> list[str]:
        """Return the readable names of all features."""
        return [label for e in self.encoders for label in e.labels()]

    def encode(
        self, role: str, frame: pl.DataFrame, count: int, whole: bool
    ) -> tuple[Rows, dict[str, int]]:
        """Return the features of each row of a frame, and the number of unseen values by field.

        Columns that the frame lacks give no features. whole: all values of a row sum to one.
        """
        parts, unseen = [], {}
        for offset, encoder in self.of_role(role):
            values = encoder.values(frame)
            if values is not None:
                rows, missed = encoder.encode(values)
                parts.append(rows._replace(column=(rows.column + offset).astype(np.int32)))
                if missed:
                    unseen[encoder.name] = missed
        rows = join_rows(parts) if parts else empty_rows(count)
        return (sum_to_one(rows) if whole and parts else rows), unseen

    def extend(self, frames: Mapping[str, pl.DataFrame]) -> Side:
        """Return the side with the new values of frames (by role)."""
        pairs = [(e, e.values(frames[e.role]) if e.role in frames else None) for e in self.encoders]
        return Side(tuple(e if values is None else e.extend(values) for e, values in pairs))


@dataclass(frozen=True)
class FeatureSpace:
    """The ids, the query side (user attributes and context) and the item side (attributes).

    whole: whether all values of a row sum to one.
    id_columns: names of the user and item columns, in answers as in the events.
    history: options of the history fields, which come last on the query side.
    pairing: which fields interact in terms of order three; None for a machine of order two.
    event_weights: weights by event type, which also apply to further events.
    refunds: whether refunds are left out, also of further events, and the column of event types.
    catalogue: one row per item with all its known columns, features or not.
    """

    users: Vocabulary
    items: Vocabulary
    query: Side
    item: Side
    whole: bool = False
    id_columns: tuple[str, str] = ("user", "item")
    history: Field | None = None
    pairing: Pairing | None = None
    event_weights: EventWeights | None = None
    refunds: Refunds = DROPPED
    catalogue: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, compare=False)

    @classmethod
    def fit(
        cls,
        data: Dataset,
        fields: Mapping[str, Any] | None = None,
        whole: bool = False,
        history: Field | None = None,
    ) -> FeatureSpace:
        """Fit the space of a training set; fields: options by column name (or `user.age`)."""
        fields = fields or {}
        columns = [
            *(("user", data.user_table[name]) for name in data.user_table.columns),
            *(("context", data.columns[name]) for name in data.context),
            *(("context", data.columns[name]) for name in _requested_time(data, fields)),
            *(("item", data.item_table[name]) for name in data.item_table.columns),
        ]
        options = _options([(role, values.name) for role, values in columns], fields)
        encoders = []
        for role, values in columns:
            with owners_named(_owner_of(role, data)):
                field = options.get((role, values.name), Field())
                encoders += _encoders(role, values, field, data)
        encoders += _period_for_ages(encoders, data)
        query = Side(tuple(e for e in encoders if e.role != "item"))
        item = Side(tuple(e for e in encoders if e.role == "item"))
        space = cls(data.users, data.items, query, item, whole, data.id_columns)
        space = replace(space, event_weights=data.event_weights, refunds=data.refunds)
        space = replace(space, catalogue=data.all_item_columns)
        return space.with_history(history)

    def with_history(self, history: Field | None) -> FeatureSpace:
        """Return the space with these history fields, instead of any it has."""
        rest = tuple(e for e in self.query.encoders if e.role != HISTORY)
        added = history_encoders(history, self.items, self.item.encoders) if history else ()
        return replace(self, query=Side(rest + added), history=history)

    def with_pairing(self, pairing: Pairing | None) -> FeatureSpace:
        """Return the space with terms of order three, if there are fields for them."""
        if pairing is not None:
            check_pairs(pairing.pairs, self.query.encoders, self.item.encoders)
            if not self.query.size and not (pairing.items and self.item.size):
                pairing = None  # a user and an item alone make no triple
        return replace(self, pairing=pairing)

    def earlier_items(self, item_rows: Rows) -> Rows:
        """Return the features of each item as an earlier item: rows over the query side."""
        assert self.history is not None
        offsets = [offset for offset, _ in self.query.of_role(HISTORY)]
        ranges = {e.name: (first, first + e.size) for first, e in self.item.of_role("item")}
        return features_of_items(self.history, offsets, item_rows, ranges)

    @property
    def context(self) -> list[str]:
        """The columns of the context fields; `timestamp` if the time of an event is one."""
        return list(dict.fromkeys(e.source for e in self.query.encoders if e.role == "context"))

    @property
    def user_features(self) -> list[str]:
        """The columns of the attributes of users."""
        return list(dict.fromkeys(e.source for e in self.query.encoders if e.role == "user"))

    @property
    def since(self) -> bool:
        """Whether a field is the days since the user's last event."""
        return any(e.part == "since" for e in self.query.encoders)

    def without_past(self) -> FeatureSpace:
        """Return the space; refuse days since the last event, which only FM-Pair supports."""
        if self.since:
            raise OptionError("the part since is supported by FM-Pair only: leave it out")
        return self

    def context_of(self, data: Dataset) -> pl.DataFrame:
        """Return the event columns of the context fields."""
        known = self.context
        return data.columns.select([c for c in data.columns.columns if c in known])

    def situation_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a column per context field that distinguishes situations; times by parts."""
        columns = []
        for encoder in self.query.encoders:
            values = encoder.values(frame) if encoder.role == "context" else None
            if values is not None:
                columns.append(encoder.keys(values).alias(encoder.name))
        return pl.DataFrame(columns)

    def encoder(self, role: str, name: str) -> Encoder:
        """Return the encoder of one field."""
        encoders = (*self.query.encoders, *self.item.encoders)
        return next(e for e in encoders if (e.role, e.name) == (role, name))

    def user_rows(self, table: pl.DataFrame, count: int) -> Rows:
        """Encode the attributes of each user: rows over the query side."""
        with owners_named(lambda row: f"user {self.users.ids[row]!r}"):
            return self.query.encode("user", table, count, self.whole)[0]

    def item_rows(self, table: pl.DataFrame, count: int) -> Rows:
        """Encode the attributes of each item: rows over the item side."""
        with owners_named(lambda row: f"item {self.items.ids[row]!r}"):
            return self.item.encode("item", table, count, self.whole)[0]

    def context_rows(self, frame: pl.DataFrame) -> tuple[Rows, dict[str, int]]:
        """Encode the context of each row of a frame: rows over the query side, unseen values."""
        return self.query.encode("context", frame, len(frame), self.whole)

    def extend(self, data: Dataset) -> FeatureSpace:
        """Return the space with the new ids and values of data; known ones keep their numbers."""
        table = data.all_item_columns
        items, catalogue, _ = changed(self.items, self.catalogue, data.items.ids, table)
        extended = replace(
            self,
            users=self.users.extend(data.users.ids),
            items=items,
            catalogue=catalogue,
            query=self.query.extend({"user": data.user_table, "context": data.columns}),
            item=self.item.extend({"item": data.item_table}),
        )
        return extended.with_history(self.history)


def situations(
    space: FeatureSpace, data: Dataset, since: pl.Series | None = None
) -> tuple[Rows, np.ndarray]:
    """Return the distinct contexts as feature rows, and the number of each event's: int32 [events].

    since: the days since each user's last event, if more events are known than those of data.
    """
    frame = space.context_of(data)
    if not frame.width:
        return empty_rows(1), np.broadcast_to(np.int32(0), len(data))
    if space.since and TIME in frame.columns:
        frame = frame.with_columns(since_last(data) if since is None else since)
    with owners_named(_owner_of("context", data)):
        keys = space.situation_keys(frame)
    names = keys.columns
    event = "event of " + ", ".join(names)  # longer than any column name, so not one of them
    numbered = keys.with_row_index(event)
    first = numbered.select(pl.col(event).first().over(names)).to_series().to_numpy()
    is_first = first == np.arange(len(first))
    number = np.cumsum(is_first, dtype=np.int32) - 1
    return space.context_rows(frame.filter(pl.Series(is_first)))[0], number[first]


def _owner_of(role: str, data: Dataset) -> Callable[[int], str]:
    """Return a function from a row of a table of `data`, or of its events, to what it is of."""
    users, items = data.users.ids, data.items.ids
    if role == USER:
        return lambda row: f"user {users[row]!r}"
    if role == ITEM:
        return lambda row: f"item {items[row]!r}"
    user, item = data.user, data.item
    return lambda row: (
        f"an event of user {users[int(user[row])]!r} with item {items[int(item[row])]!r}"
    )


def _requested_time(data: Dataset, fields: Mapping[str, Any]) -> list[str]:
    """Return the column of the times of the events, if options make a field of it."""
    if TIME in data.context or not {TIME, f"context.{TIME}"} & set(fields):
        return []
    if TIME not in data.columns.columns:
        raise OptionError(
            f"field {TIME!r} needs times, but the data have none: name their column with "
            f"{named(TIME, ...)}"
        )
    return [TIME]


def _encoders(role: str, values: pl.Series, field: Field, data: Dataset) -> list[Encoder]:
    """Fit the encoder of a column, or one for each part of a column of times."""
    timed = (role, values.name) == ("context", TIME) and TIME not in data.context
    if timed and field.kind == "auto":
        field = replace(field, kind="time")  # whatever its type
    if kind_of(values, field) != "time":
        return [Encoder.fit(role, values, field)]
    parts = field.parts or default_parts(role, values)
    check_role(role, values.name, parts)
    return [
        Encoder.fit_part(role, since_last(data) if part == "since" else values, part, field)
        for part in parts
    ]


def _period_for_ages(encoders: list[Encoder], data: Dataset) -> list[Encoder]:
    """Return the period of the events, which together with its date gives the age of an item."""
    ages = [e for e in encoders if e.part == "age"]
    present = any(e.part == "period" and e.source == TIME for e in encoders)
    if not ages or present or not is_calendar(data):
        return []
    bins = Field(bins=ages[0].field.bins)
    return [Encoder.fit_part("context", data.columns[TIME], "period", bins)]


def _options(
    columns: list[tuple[str, str]], given: Mapping[str, Any]
) -> dict[tuple[str, str], Field]:
    """Return field options by (role, name); a bare name must be unambiguous."""
    fields = {}
    for key, options in given.items():
        matches = [c for c in columns if key in (c[1], f"{c[0]}.{c[1]}")]
        if not matches:
            raise OptionError(unknown("field", key, [name for _, name in columns]))
        if len(matches) > 1:
            names = " or ".join(f"{role}.{name}" for role, name in matches)
            raise OptionError(f"field {key!r} is ambiguous: write {names}")
        fields[matches[0]] = field_from(options)
    return fields


# Which fields interact in the terms of order three.


@dataclass(frozen=True)
class Pairing:
    """The terms of order three of a model.

    factors: length of their vectors. pairs: the fields that interact, None for all of a side.
    items: whether fields of the item side interact.
    """

    factors: int
    pairs: Names | None = None
    items: bool = True


def pairs_from(given: Any) -> Names | None:
    """Return the option `pairs`: None, or a tuple of two names each."""
    if given is None:
        return None

    def is_list(value: Any) -> bool:
        return isinstance(value, Sequence) and not isinstance(value, str)

    entries = list(given) if is_list(given) else []
    valid = [is_list(e) and len(e) == 2 and all(isinstance(n, str) for n in e) for e in entries]
    if not entries or not all(valid):
        raise OptionError(
            f"{named('pairs')} must be a list of two fields each, such as "
            f"[['user', 'daytime']], not {given!r}"
        )
    return tuple((str(first), str(second)) for first, second in entries)


def check_pairs(pairs: Names | None, query: Sequence[Encoder], item: Sequence[Encoder]) -> None:
    """Raise OptionError if a pair has an unknown field, or fields of both sides."""
    sides = [_names(USER, query), _names(ITEM, item)]
    known = [names[0] for side in sides for names in side]
    for pair in pairs or ():
        for name in pair:
            if not any(name in names for side in sides for names in side):
                raise OptionError(unknown("field of pairs", name, known))
        if not any(all(any(name in names for names in side) for name in pair) for side in sides):
            raise OptionError(
                f"{named('pairs')}: {pair[0]!r} and {pair[1]!r} are fields of the query and of the "
                "item, which always interact; give two fields of one side"
            )


def meeting_fields(
    id_name: str, encoders: Sequence[Encoder], pairing: Pairing
) -> tuple[np.ndarray, np.ndarray]:
    """Return (group of the id and of every field, int8 [fields + 1]; interacting groups, float32).

    id_name: name of the id. Fields that interact with the same others are of one group.
    """
    fields = _names(id_name, encoders)
    meets = np.ones((len(fields), len(fields)), np.float32)
    if id_name == ITEM and not (pairing.items and encoders):
        meets[:] = 0
    elif pairing.pairs is not None:
        meets[:] = 0
        for pair in pairing.pairs:
            both = [np.array([name in names for names in fields]) for name in pair]
            meets[np.ix_(*both)] = meets[np.ix_(*both[::-1])] = 1
    rows, group = np.unique(meets, axis=0, return_inverse=True)
    group = group.reshape(-1)
    first = [int(np.flatnonzero(group == number)[0]) for number in range(len(rows))]
    return group.astype(np.int8), meets[np.ix_(first, first)]


def _names(id_name: str, encoders: Sequence[Encoder]) -> list[tuple[str, ...]]:
    """Return the names of the id and of every field, the shortest first."""
    return [(id_name,), *((e.name, f"{e.role}.{e.name}", e.source) for e in encoders)]
