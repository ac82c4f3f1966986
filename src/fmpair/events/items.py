"""Changes of items that a shop sends to a service, stored beside the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmpair.errors import DataError
from fmpair.events.event import Id, check_id, context_json

ITEM, REMOVED = "item", "removed"  # names with a meaning of their own
MAX_NAME_LENGTH = 200  # characters of a column
MAX_LENGTH = 100_000  # characters of all columns of an item, as JSON


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What is now known of an item by column; a null erases a value, other columns stay.

    The column `removed` says whether the item is out of the catalogue. position: number of the
    change in the store; of several changes of an item only the last has one.
    """

    item: Id
    columns: Mapping[str, Any]
    position: int = 0

    @property
    def key(self) -> str:
        """What identifies the item in a store: 7 and "7" are one item, as in models."""
        return str(self.item)


def check_changes(changes: Sequence[ItemChange]) -> None:
    """Raise a DataError for changes that no database could store."""
    for change in changes:
        check_id(ITEM, change.item)
        for name in change.columns:
            if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable():
                raise DataError(
                    f"invalid column {name[:40]!r} of item {change.item!r}: use a name of 1 to "
                    f"{MAX_NAME_LENGTH} characters"
                )
        if not isinstance(change.columns.get(REMOVED), bool | None):
            removed = change.columns[REMOVED]
            raise DataError(f"{REMOVED!r} must be true or false, not {str(removed)[:40]!r}")
        if len(context_json(change.columns, "columns of an item")) > MAX_LENGTH:
            raise DataError(
                f"item {change.item!r} has more than {MAX_LENGTH:,} characters of columns"
            )


def merged_changes(
    changes: Iterable[ItemChange], stored: Mapping[str, str], last: int
) -> list[ItemChange]:
    """Return one change per item, each with the columns known before, numbered after `last`.

    stored: the columns of items by key, as JSON.
    """
    merged: dict[str, ItemChange] = {}
    for change in changes:
        known = merged.pop(change.key, None)
        before = json.loads(stored.get(change.key, "{}")) if known is None else known.columns
        merged[change.key] = ItemChange(change.item, {**before, **change.columns})
    return [
        ItemChange(change.item, change.columns, number)
        for number, change in enumerate(merged.values(), last + 1)
    ]
