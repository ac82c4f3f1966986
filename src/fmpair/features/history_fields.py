"""Histories: what users did before, as fields of the query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fmpair.arrays import Rows, group_rows, join_rows, starts
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError, named, unknown
from fmpair.features.encoder import Encoder
from fmpair.features.field import Field, field_from

HISTORY = "history"  # the role, and the name of the field of items
AUTO = "auto"  # whether there is to be a history is for the data to say
ITEM = "item"  # of each earlier item, the item itself


def history_field(given: Any) -> Field | None:
    """The field that an option `history` asks for: how many items, options by name, or a Field.

    None for 0, None and False, and for auto: whoever leaves it to the data settles it first.
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
            f"{named(HISTORY)} must be how many items (10, or 0 for none), {AUTO!r}, or options "
            f"such as {{'last': 10, 'fade': 1.0}}, not {given!r}"
        )
    return field


def history_weights(field: Field) -> np.ndarray:
    """float32 [last]: what the latest item counts, the one before it, and so on."""
    ranks = np.arange(1, field.last + 1, dtype=np.float64)
    return (field.scale * ranks**-field.fade).astype(np.float32)


def history_encoders(
    field: Field, items: Vocabulary, attributes: tuple[Encoder, ...]
) -> tuple[Encoder, ...]:
    """A field for the earlier items themselves, and one for each of their attributes asked for."""
    known, found = {e.name: e for e in attributes}, []
    for name in field.of:
        if name == ITEM:
            found.append(Encoder(HISTORY, HISTORY, field, items))
        elif name in known:
            found.append(replace(known[name], role=HISTORY, name=f"{HISTORY}.{name}"))
        else:
            raise OptionError(unknown("attribute of a history", name, [ITEM, *known]))
    return tuple(found)


def features_of_items(
    field: Field, offsets: list[int], item_rows: Rows, places: dict[str, tuple[int, int]]
) -> Rows:
    """Per item its features as an earlier one: rows over the query side.

    offsets: the first query feature of each of `field.of`. places: by name of an attribute its
    first feature of the item side and the one after its last.
    """
    count, parts = item_rows.size, []
    for name, offset in zip(field.of, offsets):
        if name == ITEM:
            column = np.arange(offset, offset + count, dtype=np.int32)
            parts.append(Rows(np.arange(count + 1), column, np.ones(count, np.float32)))
            continue
        first, end = places[name]
        own = (item_rows.column >= first) & (item_rows.column < end)
        column = item_rows.column[own] - np.int32(first) + np.int32(offset)
        parts.append(group_rows(item_rows.owner[own], column, count, item_rows.value[own]))
    return join_rows(parts)


def history_rows(before: Rows, weight: np.ndarray, features: Rows) -> Rows:
    """Per query the features of what came before: each item's, by how many came after it.

    before: per query item numbers, oldest first. features: per item.
    """
    age = np.repeat(before.start[1:], np.diff(before.start)) - 1 - np.arange(len(before.column))
    kept = age < len(weight)
    own = features.take(before.column[kept])
    owner = before.owner[kept][own.owner]
    value = weight[age[kept]][own.owner] * own.value
    lengths = np.bincount(owner, minlength=before.size)
    return Rows(starts(lengths), own.column, value.astype(np.float32))
