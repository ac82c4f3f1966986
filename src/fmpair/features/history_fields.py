"""History fields: the earlier items of a user as features of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fmpair.arrays import Rows, group_rows, join_rows, one_row, ordered_rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, named, unknown
from fmpair.features.encoder import Encoder
from fmpair.features.field import Field, field_from

HISTORY = "history"  # the role of these fields, and the name of the field of earlier items
AUTO = "auto"  # trials on the data decide whether to use the history
ITEM = "item"  # in `Field.of`: the earlier item itself, not one of its attributes


def history_field(given: Any) -> Field | None:
    """Return the Field of the option `history`: a number of items, a mapping, or a Field.

    None for 0, None and False, and for 'auto', which the caller resolves first.
    """
    if given in (None, False, 0, AUTO):
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        return Field(kind=HISTORY, last=given)
    field = None
    if isinstance(given, Mapping):
        field = field_from({"kind": HISTORY, **given})
    elif isinstance(given, Field):
        field = given
    if field is None or field.kind != HISTORY:
        raise OptionError(
            f"{named(HISTORY)} must be a number of items (10, or 0 for none), {AUTO!r}, or options "
            f"such as {{'last': 10, 'fade': 1.0}}, not {given!r}"
        )
    return field


def history_weights(field: Field) -> np.ndarray:
    """Return the weights of the latest item, the one before it, and so on: float32 [last]."""
    ranks = np.arange(1, field.last + 1, dtype=np.float64)
    return (field.scale * ranks**-field.fade).astype(np.float32)


def history_encoders(
    field: Field, items: Vocabulary, attributes: tuple[Encoder, ...]
) -> tuple[Encoder, ...]:
    """Return an encoder for each entry of `field.of`: the items or an attribute."""
    known, encoders = {e.name: e for e in attributes}, []
    for name in field.of:
        if name == ITEM:
            encoders.append(Encoder(HISTORY, HISTORY, field, items))
        elif name in known:
            encoders.append(replace(known[name], role=HISTORY, name=f"{HISTORY}.{name}"))
        else:
            raise OptionError(unknown("attribute of a history", name, [ITEM, *known]))
    return tuple(encoders)


def features_of_items(
    field: Field, offsets: list[int], item_rows: Rows, ranges: dict[str, tuple[int, int]]
) -> Rows:
    """Return the query features that each item adds if it is in the history: rows per item.

    offsets: the first query feature of each entry of `field.of`. ranges: (start, end) of the
    item-side features of each attribute.
    """
    count, parts = item_rows.size, []
    for name, offset in zip(field.of, offsets):
        if name == ITEM:
            column = np.arange(offset, offset + count, dtype=np.int32)
            parts.append(Rows(np.arange(count + 1), column, np.ones(count, np.float32)))
            continue
        first, end = ranges[name]
        inside = (item_rows.column >= first) & (item_rows.column < end)
        column = item_rows.column[inside] - np.int32(first) + np.int32(offset)
        parts.append(group_rows(item_rows.owner[inside], column, count, item_rows.value[inside]))
    return join_rows(parts)


def history_rows(before: Rows, weight: np.ndarray, features: Rows) -> Rows:
    """Return the history features of each query, with items weighted by their position.

    before: item numbers per query, oldest first. weight: by position, the latest item first
    (`history_weights`). features: rows per item (`features_of_items`).
    """
    age = np.repeat(before.start[1:], np.diff(before.start)) - 1 - np.arange(len(before.column))
    recent = age < len(weight)
    rows = features.take(before.column[recent])
    owner = before.owner[recent][rows.owner]
    value = weight[age[recent]][rows.owner] * rows.value
    return ordered_rows(owner, rows.column, value.astype(np.float32), before.size)


@dataclass(frozen=True)
class PastItems:
    """How earlier items become query features.

    weight: float32 [last], of the latest item, the one before it, and so on; features: per item
    its features as an earlier one; within: microseconds, or None for no limit.
    """

    weight: np.ndarray
    features: Rows
    within: int | None

    def rows(self, items: Rows) -> Rows:
        """Return the features of each query; items: its earlier items, oldest first."""
        if items.size != 1:
            return history_rows(items, self.weight, self.features)
        latest = items.column[-len(self.weight) :]  # the same, faster, for single requests
        weight = self.weight[: len(latest)][::-1]
        if self._offset is not None:
            return one_row(latest + self._offset, weight)
        if self._one_each:
            return one_row(self.features.column[latest], weight * self.features.value[latest])
        features = self.features.take(latest)
        value = np.repeat(weight, np.diff(features.start)) * features.value
        return one_row(features.column, value)

    @cached_property
    def _offset(self) -> np.int32 | None:
        """What is added to the number of an item to get its one feature, of value 1; else None."""
        column, value = self.features.column, self.features.value
        if not len(column) or not self._one_each or (value != 1).any():
            return None
        offset = column[0]
        return offset if np.array_equal(column, np.arange(len(column)) + offset) else None

    @cached_property
    def _one_each(self) -> bool:
        """Whether every item has one feature, so that its number is also its place."""
        return bool((np.diff(self.features.start) == 1).all())
