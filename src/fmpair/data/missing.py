"""Events without a user or an item, which no model can learn from."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from fmpair.checks import one_of
from fmpair.errors import DataError, named, notice

MISSING = ("drop", "error")


def with_ids(events: pl.DataFrame, roles: Mapping[str, str], missing: str) -> pl.DataFrame:
    """The events with both ids; the others are left out and counted, or stay, to be refused."""
    one_of("missing", missing, MISSING)
    user, item = (_absent(events[roles[role]]) for role in ("user", "item"))
    gone = user | item
    count = int(gone.sum())
    if missing == "error" or not count:
        return events
    what = " and ".join(
        f"{int(absent.sum()):,} in {roles[role]!r}"
        for role, absent in (("user", user), ("item", item))
        if absent.any()
    )
    if count == len(events):
        raise DataError(
            f"all {count:,} rows lack a user or an item ({what}): name other columns with "
            f"{named('user', ...)} and {named('item', ...)}"
        )
    notice(
        f"left out {count:,} of {len(events):,} rows without a user or item ({what}); "
        f"{named('missing', 'error')} refuses them"
    )
    return events.filter(~gone)


def _absent(ids: pl.Series) -> pl.Series:
    """Whether each is null or no number."""
    return ids.is_null() | ids.is_nan().fill_null(True) if ids.dtype.is_float() else ids.is_null()
