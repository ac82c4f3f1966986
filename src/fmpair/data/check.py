"""Checks of a frame of events before it is used."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fmpair.errors import DataError, named

MOST_CONTEXTS = 1_000  # columns of context
REPEATED_ITEMS = 50  # fewer repeated items than this prove nothing about a column


def check_events(events: pl.DataFrame, roles: dict[str, str], context: Sequence[str]) -> None:
    """Raise DataError at the first thing that makes the events unusable."""
    if not len(events):
        raise DataError("there are no events: the table has a header but no rows")
    if len(context) > MOST_CONTEXTS:
        raise DataError(
            f"{len(context):,} columns would be context, and {MOST_CONTEXTS:,} are the most: name "
            f"those that matter with {named('context', ...)}"
        )
    check_types(events.select({*roles.values(), *context}))
    for role in ("user", "item"):
        _check_ids(events[roles[role]], role)
    for role in ("rating", "weight"):
        if role in roles:
            _check_numbers(events[roles[role]], role)
    if "weight" in roles and (events[roles["weight"]] < 0).any():
        raise DataError(
            f"column {roles['weight']!r} has negative weights: weights must be 0 or more"
        )


def check_types(frame: pl.DataFrame) -> None:
    """Refuse columns of Python objects, which can be neither compared nor written."""
    for name, dtype in frame.schema.items():
        if dtype == pl.Object:
            raise DataError(
                f"column {name!r} holds Python objects: make them text, numbers or lists, "
                f"or leave the column out"
            )


def _check_ids(ids: pl.Series, role: str) -> None:
    missing = ids.is_null() | (ids.is_nan() if ids.dtype.is_float() else False)
    if missing.any():
        first = missing.arg_max()
        raise DataError(
            f"column {ids.name!r} has {missing.sum()} missing {role} ids "
            f"(the first in row {first}, counted from 0): leave them out with "
            f"{named('missing', 'drop')}"
        )
    if ids.dtype.is_nested():
        raise DataError(f"column {ids.name!r} holds {ids.dtype}, which cannot be {role} ids")


def _check_numbers(values: pl.Series, role: str) -> None:
    if not values.dtype.is_numeric():
        sample = values.drop_nulls()
        shown = f", such as {sample[0]!r}" if len(sample) else ""
        raise DataError(
            f"column {values.name!r} is the {role} but holds {values.dtype}{shown}: "
            "it must hold numbers"
        )
    if values.null_count():
        raise DataError(
            f"column {values.name!r} ({role}) has {values.null_count()} missing values: drop or "
            f"fill those rows, or leave the column out with {named('ignore', [values.name])}"
        )
    if values.dtype.is_float() and not values.is_finite().all():
        raise DataError(f"column {values.name!r} ({role}) has infinite or NaN values")


def check_no_leak(
    events: pl.DataFrame,
    item: str,
    context: Sequence[str],
    item_table: pl.DataFrame | None,
    allowed: Sequence[str],
) -> None:
    """Refuse context columns that belong to the item: a negative would get the positive's."""
    for name in context:
        if name in allowed:
            continue
        described = item_table is not None and name in item_table.columns
        if described or _follows_from_item(events, item, name):
            why = "is in the item table too" if described else "never changes for one item"
            raise DataError(
                f"column {name!r} {why}: it describes the item, not the context. As context "
                "every candidate would get the positive item's value, and the answer would leak "
                f"into the query. Give it with {named('item_columns', [name])}, or drop it "
                f"with {named('ignore', [name])}"
            )


def _follows_from_item(events: pl.DataFrame, item: str, name: str) -> bool:
    """Whether many items occur often and each always with the one value of the column."""
    if item not in events.columns:
        return False
    known = events.select(item, name).drop_nulls()
    if known[name].n_unique() < 2:
        return False
    per_item = known.group_by(item).agg(pl.len().alias("n"), pl.col(name).n_unique().alias("v"))
    repeated = per_item.filter(pl.col("n") > 1)
    return len(repeated) >= REPEATED_ITEMS and bool((repeated["v"] == 1).all())
