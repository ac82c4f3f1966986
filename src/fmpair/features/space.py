"""The two-sided feature space: numbers every attribute and context value of either side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, starts
from fmpair.data import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, unknown
from fmpair.features.encoder import Encoder, sum_to_one
from fmpair.features.field import Field, field_from


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
        return [label for e in self.encoders for label in e.labels()]

    def encode(
        self, role: str, frame: pl.DataFrame, count: int, whole: bool
    ) -> tuple[Rows, dict[str, int]]:
        """Features of each row of a frame, and unseen values by field. Absent columns are absent.

        whole: all values of a row sum to one.
        """
        parts, unseen = [], {}
        for offset, encoder in self.of_role(role):
            if encoder.name in frame.columns:
                rows, missed = encoder.encode(frame[encoder.name])
                parts.append(rows._replace(column=(rows.column + offset).astype(np.int32)))
                if missed:
                    unseen[encoder.name] = missed
        rows = join_rows(parts) if parts else empty_rows(count)
        return (sum_to_one(rows) if whole and parts else rows), unseen

    def extend(self, frames: Mapping[str, pl.DataFrame]) -> Side:
        """With the new values that frames (by role) bring."""
        return Side(
            tuple(
                e.extend(frames[e.role][e.name])
                if e.role in frames and e.name in frames[e.role].columns
                else e
                for e in self.encoders
            )
        )


@dataclass(frozen=True)
class FeatureSpace:
    """Query side: user attributes and context. Item side: item attributes. Ids stand apart.

    id_columns: what the columns of users and items are called, in answers as in the events.
    """

    users: Vocabulary
    items: Vocabulary
    query: Side
    item: Side
    whole: bool = False
    id_columns: tuple[str, str] = ("user", "item")

    @classmethod
    def fit(
        cls, data: Dataset, fields: Mapping[str, Any] | None = None, whole: bool = False
    ) -> FeatureSpace:
        """The space of a training set; fields: options by column name (or `user.age`)."""
        columns = [
            *(("user", data.user_table[name]) for name in data.user_table.columns),
            *(("context", data.columns[name]) for name in data.context),
            *(("item", data.item_table[name]) for name in data.item_table.columns),
        ]
        options = _options([(role, values.name) for role, values in columns], fields or {})
        encoders = [
            Encoder.fit(role, values, options.get((role, values.name), Field()))
            for role, values in columns
        ]
        query = Side(tuple(e for e in encoders if e.role != "item"))
        item = Side(tuple(e for e in encoders if e.role == "item"))
        return cls(data.users, data.items, query, item, whole, data.id_columns)

    @property
    def context(self) -> list[str]:
        """The names of the context fields."""
        return [e.name for e in self.query.encoders if e.role == "context"]

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
        return replace(
            self,
            users=self.users.extend(data.users.ids),
            items=self.items.extend(data.items.ids),
            query=self.query.extend({"user": data.user_table, "context": data.columns}),
            item=self.item.extend({"item": data.item_table}),
        )


def situations(space: FeatureSpace, data: Dataset) -> tuple[Rows, np.ndarray]:
    """The distinct contexts of the events as feature rows, and each event's: int32 [events]."""
    names = [name for name in data.context if name in space.context]
    if not names:
        return empty_rows(1), np.broadcast_to(np.int32(0), len(data))
    frame = data.columns.select(names)
    event = "event of " + ", ".join(names)  # longer than any column's name, so never one of them
    numbered = frame.with_row_index(event)
    first = numbered.select(pl.col(event).first().over(names)).to_series().to_numpy()
    is_first = first == np.arange(len(first))
    number = np.cumsum(is_first, dtype=np.int32) - 1
    return space.context_rows(frame.filter(pl.Series(is_first)))[0], number[first]


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
