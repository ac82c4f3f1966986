"""Events that are no new choice: repeats of the event before within minutes, and refunds."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import polars as pl

from fmpair.checks import one_of
from fmpair.data.event_types import strengths_of
from fmpair.errors import DataError, OptionError, named, notice

REFUNDS = ("drop", "keep")
# Names of event types that take a choice back.
TAKEN_BACK = (
    *("refund", "refunded", "return", "returned", "returns", "chargeback", "cancel", "canceled"),
    *("cancelled", "cancellation", "remove_from_cart", "removefromcart", "removed_from_cart"),
)
# Columns whose negative numbers are refunds; a logarithm or a difference may be negative as well.
AMOUNT_NAME = re.compile(r"(^|_)(quantity|qty|price|amount|revenue|sales|total)($|_)")
NO_AMOUNT = re.compile(r"(^|_)(log|change|diff|difference|delta|norm|normalized|scaled|z)($|_)")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
MOST_NEGATIVE = 1 / 3  # a larger share of negative numbers means another thing, such as a z-score

MINUTE = 60_000_000  # microseconds
MINUTES = 30.0  # within which a repeat belongs to the event before, unless the caller says


def without_refunds(
    events: pl.DataFrame, everything: pl.DataFrame, roles: Mapping[str, str], refunds: str
) -> pl.DataFrame:
    """Return the events that take nothing back, and report the others; all with refunds='keep'.

    everything: the same rows with all columns: an ignored quantity tells refunds too.
    """
    one_of("refunds", refunds, REFUNDS)
    if refunds == "keep":
        return events
    back = {name: found for name, found in _refunds(everything, roles).items() if found.any()}
    either = np.any([found.to_numpy() for found in back.values()], axis=0)
    count = int(either.sum())
    if not count:
        return events
    if count == len(events):
        raise DataError(
            f"all {count:,} events are refunds by {' and '.join(map(repr, back))}: "
            f"{named('refunds', 'keep')} takes them as choices"
        )
    where = " and ".join(f"{int(found.sum()):,} by {name!r}" for name, found in back.items())
    notice(
        f"left out {count:,} of {len(events):,} events that are refunds ({where}); "
        f"{named('refunds', 'keep')} takes them as choices"
    )
    return events.filter(~pl.Series(either))


def _refunds(events: pl.DataFrame, roles: Mapping[str, str]) -> dict[str, pl.Series]:
    """Boolean [events] by column: whether the column says that the event takes a choice back."""
    found = {}
    types = events[roles["event_type"]] if "event_type" in roles else None
    if types is not None and isinstance(types.dtype, pl.String | pl.Categorical | pl.Enum):
        plain = types.cast(pl.String).str.strip_chars().str.to_lowercase()
        plain = plain.str.replace_all(r"[\s-]", "_")
        found[types.name] = plain.is_in(TAKEN_BACK).fill_null(False)
    others = {column for role, column in roles.items() if role != "weight"}
    for values in events.select(pl.exclude(others)).iter_columns():
        name = CAMEL.sub("_", values.name).lower().replace(" ", "_").replace("-", "_")
        amount = AMOUNT_NAME.search(name) is not None and NO_AMOUNT.search(name) is None
        if amount and values.dtype.is_numeric():
            negative = (values < 0).fill_null(False)
            if negative.sum() <= MOST_NEGATIVE * len(negative):
                found[values.name] = negative
    return found


def first_of_run(
    user: np.ndarray, item: np.ndarray, moment: np.ndarray, minutes: float = MINUTES
) -> np.ndarray:
    """int64 [events]: the row of the first event of each event's run.

    A run is consecutive events of a user with one item, each within `minutes` of the one before.
    moment: int64 [events], microseconds.
    """
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise OptionError(f"{named('merge_repeats')} must be minutes above 0, not {minutes!r}")
    order = np.lexsort((moment, user))
    same = (np.diff(user[order]) == 0) & (np.diff(item[order]) == 0)
    same &= np.diff(moment[order]) <= minutes * MINUTE
    begins = np.concatenate([[True], ~same])[: len(order)]
    first = np.empty(len(order), np.int64)
    first[order] = order[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    return first


def merged(columns: pl.DataFrame, first: np.ndarray) -> pl.DataFrame:
    """Return the columns of the first event of each run, in order of its row.

    It gets the largest weight of the run, its last rating and its strongest event type; the last
    type where the strength of one is not known.
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
