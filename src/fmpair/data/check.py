"""Checks of a frame of events before it is used."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fmpair.errors import DataError, named


def check_events(events: pl.DataFrame, roles: dict[str, str], context: Sequence[str]) -> None:
    """Raise DataError at the first thing that makes the events unusable."""
    if not len(events):
        raise DataError("there are no events: the table has a header but no rows")
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


def check_no_leak(context: Sequence[str], item_table: pl.DataFrame, allowed: Sequence[str]) -> None:
    """Refuse context columns that the item table has too, but for those allowed."""
    for name in context:
        if name in item_table.columns and name not in allowed:
            raise leak(name, "it is in the item table too")


def leak(name: str, why: str) -> DataError:
    """What is said of a context column that belongs to the item."""
    return DataError(
        f"column {name!r} describes the item, not the context: {why}. As context every candidate "
        "would get the positive item's value, and the answer would leak into the query. Give it "
        f"with {named('item_columns', [name])}, or drop it with {named('ignore', [name])}"
    )
