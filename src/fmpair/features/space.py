"""The two-sided feature space: numbers every attribute and context value of either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, starts
from fmpair.data import Dataset
from fmpair.data.event_types import EventWeights
from fmpair.data.times import is_calendar
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, named, unknown
from fmpair.features.calendar import TIME, check_role, default_parts, since_last
from fmpair.features.encoder import Encoder, sum_to_one
from fmpair.features.field import Field, field_from, kind_of
from fmpair.features.history_fields import HISTORY, features_of_items, history_encoders

# Which fields meet in pairs, as parts of the terms of order three.


USER, ITEM = "user", "item"  # the ids, among the fields of their sides
Names = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pairing:
    """What a model of order three has beside one of order two.

    factors: length of its own vectors. pairs: the fields that meet, None for all of a side.
    items: whether fields of the item side may.
    """

    factors: int
    pairs: Names | None = None
    items: bool = True


def pairs_from(given: Any) -> Names | None:
    """The option `pairs`: None, or a list of two names each."""
    if given is None:
        return None
    entries = [] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not entries or not all(map(_is_two_names, entries)):
        raise OptionError(
            f"{named('pairs')} must be a list of two fields each, such as "
            f"[['user', 'daytime']], not {given!r}"
        )
    return tuple((str(one), str(other)) for one, other in entries)


def _is_two_names(entry: Any) -> bool:
    two = isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2
    return two and all(isinstance(name, str) for name in entry)


def check_pairs(pairs: Names | None, query: Sequence[Encoder], item: Sequence[Encoder]) -> None:
    """Raise OptionError where a pair names no field, or fields of both sides."""
    sides = [_names(USER, query), _names(ITEM, item)]
    known = [name for side in sides for field in side for name in field[:1]]
    for pair in pairs or ():
        for name in pair:
            if not any(name in field for side in sides for field in side):
                raise OptionError(unknown("field of pairs", name, known))
        if not any(all(any(name in field for field in side) for name in pair) for side in sides):
            raise OptionError(
                f"{named('pairs')}: {pair[0]!r} and {pair[1]!r} are of the query and of the item, "
                "which meet anyhow; name two fields of one side"
            )


def meeting_fields(
    own: str, encoders: Sequence[Encoder], pairing: Pairing
) -> tuple[np.ndarray, np.ndarray]:
    """(groups of the id and of every field, int8 [fields + 1]; which groups meet, float32).

    own: what the id is called. Fields that meet the same others are of one group.
    """
    names = _names(own, encoders)
    meets = np.ones((len(names), len(names)), np.float32)
    if own == ITEM and not (pairing.items and encoders):
        meets[:] = 0
    elif pairing.pairs is not None:
        meets[:] = 0
        for one, other in pairing.pairs:
            both = [np.array([name in field for field in names]) for name in (one, other)]
            meets[np.ix_(*both)] = meets[np.ix_(*both[::-1])] = 1
    rows, group = np.unique(meets, axis=0, return_inverse=True)
    group = group.reshape(-1)
    first = [int(np.flatnonzero(group == number)[0]) for number in range(len(rows))]
    return group.astype(np.int8), meets[np.ix_(first, first)]


def _names(own: str, encoders: Sequence[Encoder]) -> list[tuple[str, ...]]:
    """What the id and every field may be called, the usual name first."""
    return [(own,), *((e.name, f"{e.role}.{e.name}", e.source) for e in encoders)]


@dataclass(frozen=True)
class Side:
    """The fields of one side, one after the other in one range of feature numbers."""

    encoders: tuple[Encoder, ...] = ()

    @property
    def offsets(self) -> np.ndarray:
        """int64 [fields + 1]: where each field's features begin."""
        return starts(np.array([e.size for e in self.encoders], np.int64))

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(self.offsets[-1])

    def of_role(self, role: str) -> list[tuple[int, Encoder]]:
        """(first feature, encoder) of each field of a role."""
        pairs = zip(self.offsets[:-1].tolist(), self.encoders)
        return [(offset, e) for offset, e in pairs if e.role == role]

    def field_numbers(self) -> np.ndarray:
        """int32 [size]: the field each feature belongs to."""
        return np.repeat(
            np.arange(len(self.encoders), dtype=np.int32), [e.size for e in self.encoders]
        )

    def label(self, feature: int) -> str:
        """The readable name of one feature."""
        place = int(np.searchsorted(self.offsets, feature, side="right")) - 1
        return self.encoders[place].label(int(feature - self.offsets[place]))

    def labels(self) -> list[str]:
        """The readable names of all features."""
        return [label for e in self.encoders for label in e.labels()]

    def encode(
        self, role: str, frame: pl.DataFrame, count: int, whole: bool
    ) -> tuple[Rows, dict[str, int]]:
        """Features of each row of a frame, and unseen values by field. Absent columns are absent.

        whole: all values of a row sum to one.
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
        """With the new values that frames (by role) bring."""
        found = [(e, e.values(frames[e.role]) if e.role in frames else None) for e in self.encoders]
        return Side(tuple(e if values is None else e.extend(values) for e, values in found))


@dataclass(frozen=True)
class FeatureSpace:
    """Query side: user attributes and context. Item side: item attributes. Ids stand apart.

    id_columns: what the columns of users and items are called, in answers as in the events.
    history: what users did before as features, whose fields come last on the query side.
    pairing: which fields meet in terms of order three; None for a machine of order two.
    event_weights: by kind of event, which further events have too.
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

    @classmethod
    def fit(
        cls,
        data: Dataset,
        fields: Mapping[str, Any] | None = None,
        whole: bool = False,
        history: Field | None = None,
    ) -> FeatureSpace:
        """The space of a training set; fields: options by column name (or `user.age`)."""
        fields = fields or {}
        columns = [
            *(("user", data.user_table[name]) for name in data.user_table.columns),
            *(("context", data.columns[name]) for name in data.context),
            *(("context", data.columns[name]) for name in _times_asked_for(data, fields)),
            *(("item", data.item_table[name]) for name in data.item_table.columns),
        ]
        options = _options([(role, values.name) for role, values in columns], fields)
        encoders = [
            encoder
            for role, values in columns
            for encoder in _encoders(role, values, options.get((role, values.name), Field()), data)
        ]
        encoders += _period_for_ages(encoders, data)
        query = Side(tuple(e for e in encoders if e.role != "item"))
        item = Side(tuple(e for e in encoders if e.role == "item"))
        space = cls(data.users, data.items, query, item, whole, data.id_columns)
        space = replace(space, event_weights=data.event_weights)
        return space.with_history(history)

    def with_history(self, history: Field | None) -> FeatureSpace:
        """The same with these features of what came before, in place of any there were."""
        rest = tuple(e for e in self.query.encoders if e.role != HISTORY)
        own = history_encoders(history, self.items, self.item.encoders) if history else ()
        return replace(self, query=Side(rest + own), history=history)

    def with_pairing(self, pairing: Pairing | None) -> FeatureSpace:
        """The same with terms of order three, where there are fields for them."""
        if pairing is not None:
            check_pairs(pairing.pairs, self.query.encoders, self.item.encoders)
            if not self.query.size and not (pairing.items and self.item.size):
                pairing = None  # a user and an item make no triple
        return replace(self, pairing=pairing)

    def earlier_items(self, item_rows: Rows) -> Rows:
        """Per item its features as an earlier one: rows over the query side."""
        assert self.history is not None
        offsets = [offset for offset, _ in self.query.of_role(HISTORY)]
        places = {e.name: (at, at + e.size) for at, e in self.item.of_role("item")}
        return features_of_items(self.history, offsets, item_rows, places)

    @property
    def context(self) -> list[str]:
        """The columns of the context fields; `timestamp` where the time of an event is one."""
        own = (e.source for e in self.query.encoders if e.role == "context")
        return list(dict.fromkeys(own))

    @property
    def since(self) -> bool:
        """Whether a query has the days since its user's last event."""
        return any(e.part == "since" for e in self.query.encoders)

    def without_past(self) -> FeatureSpace:
        """The same; refused where it asks for days since the last event, which few models keep."""
        if self.since:
            raise OptionError(
                "only FM-Pair goes by the days since a user's last event: leave out the part since"
            )
        return self

    def context_of(self, data: Dataset) -> pl.DataFrame:
        """The columns of events that context fields are made of."""
        known = self.context
        return data.columns.select([c for c in data.columns.columns if c in known])

    def situation_keys(self, frame: pl.DataFrame) -> pl.DataFrame:
        """What tells situations apart: a column per context field, times by their parts."""
        own = ((e, e.values(frame)) for e in self.query.encoders if e.role == "context")
        return pl.DataFrame(
            [
                (e.bins_of(values) if e.part and e.field.kind == "binned" else values).alias(e.name)
                for e, values in own
                if values is not None
            ]
        )

    def encoder(self, role: str, name: str) -> Encoder:
        """The encoder of one field."""
        sides = (*self.query.encoders, *self.item.encoders)
        return next(e for e in sides if (e.role, e.name) == (role, name))

    def user_rows(self, table: pl.DataFrame, count: int) -> Rows:
        """Attributes of each user: rows over the query side."""
        return self.query.encode("user", table, count, self.whole)[0]

    def item_rows(self, table: pl.DataFrame, count: int) -> Rows:
        """Attributes of each item: rows over the item side."""
        return self.item.encode("item", table, count, self.whole)[0]

    def context_rows(self, frame: pl.DataFrame) -> tuple[Rows, dict[str, int]]:
        """Context of each row of a frame: rows over the query side, and unseen values."""
        return self.query.encode("context", frame, len(frame), self.whole)

    def extend(self, data: Dataset) -> FeatureSpace:
        """With the new ids and values that data bring; those known keep their meaning."""
        extended = replace(
            self,
            users=self.users.extend(data.users.ids),
            items=self.items.extend(data.items.ids),
            query=self.query.extend({"user": data.user_table, "context": data.columns}),
            item=self.item.extend({"item": data.item_table}),
        )
        return extended.with_history(self.history)


def situations(
    space: FeatureSpace, data: Dataset, since: pl.Series | None = None
) -> tuple[Rows, np.ndarray]:
    """The distinct contexts of the events as feature rows, and each event's: int32 [events].

    since: the days since each user's last event, where more events are known than the data's.
    """
    frame = space.context_of(data)
    if not frame.width:
        return empty_rows(1), np.broadcast_to(np.int32(0), len(data))
    if space.since and TIME in frame.columns:
        frame = frame.with_columns(since_last(data) if since is None else since)
    keys = space.situation_keys(frame)
    names = keys.columns
    event = "event of " + ", ".join(names)  # longer than any column's name, so never one of them
    numbered = keys.with_row_index(event)
    first = numbered.select(pl.col(event).first().over(names)).to_series().to_numpy()
    is_first = first == np.arange(len(first))
    number = np.cumsum(is_first, dtype=np.int32) - 1
    return space.context_rows(frame.filter(pl.Series(is_first)))[0], number[first]


def _times_asked_for(data: Dataset, fields: Mapping[str, Any]) -> list[str]:
    """The column of the events' own times, where options make a field of it."""
    if TIME in data.context or not {TIME, f"context.{TIME}"} & set(fields):
        return []
    if TIME not in data.columns.columns:
        raise OptionError(
            f"field {TIME!r} needs times, and the data have none: name their column with "
            f"{named(TIME, ...)}"
        )
    return [TIME]


def _encoders(role: str, values: pl.Series, field: Field, data: Dataset) -> list[Encoder]:
    """The encoder of a column, or one for each part of a column of times."""
    timed = (role, values.name) == ("context", TIME) and TIME not in data.context
    if timed and field.kind == "auto":
        field = replace(field, kind="time")  # whatever the type, it is known to be one
    if kind_of(values, field) != "time":
        return [Encoder.fit(role, values, field)]
    parts = field.parts or default_parts(role, values)
    check_role(role, values.name, parts)
    return [
        Encoder.fit_part(role, since_last(data) if part == "since" else values, part, field)
        for part in parts
    ]


def _period_for_ages(encoders: list[Encoder], data: Dataset) -> list[Encoder]:
    """How old an item is follows from its date and the event's: a pair of the two sides."""
    ages = [e for e in encoders if e.part == "age"]
    there = any(e.part == "period" and e.source == TIME for e in encoders)
    if not ages or there or not is_calendar(data):
        return []
    return [
        Encoder.fit_part("context", data.columns[TIME], "period", Field(bins=ages[0].field.bins))
    ]


def _options(
    columns: list[tuple[str, str]], given: Mapping[str, Any]
) -> dict[tuple[str, str], Field]:
    """Field options by (role, name); a bare name must be unambiguous."""
    found = {}
    for key, options in given.items():
        places = [c for c in columns if key in (c[1], f"{c[0]}.{c[1]}")]
        if not places:
            raise OptionError(unknown("field", key, [name for _, name in columns]))
        if len(places) > 1:
            names = " or ".join(f"{role}.{name}" for role, name in places)
            raise OptionError(f"field {key!r} is ambiguous: say {names}")
        found[places[0]] = field_from(options)
    return found
