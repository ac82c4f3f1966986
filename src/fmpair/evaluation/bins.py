"""A column with many values as few groups: ranges of numbers and times, the commonest of others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import polars as pl

MOST = 12  # different values that are left as they are
RANGES = 5  # of numbers and times, each with as many events as the others
OTHERS = "others"
NUMBER = re.compile(r"-?[\d,]+(\.\d+)?")


def binned(values: pl.Series, known: pl.Series) -> pl.Series:
    """The group of each value, null where it is missing.

    known: all values there are, which decide what the groups are.
    """
    known = known.drop_nulls()
    if known.dtype.is_float():
        known = known.drop_nans()
    if known.n_unique() <= MOST:
        return values
    if known.dtype.is_numeric() or known.dtype.is_temporal():
        return _ranges(values, known)
    common = known.value_counts(sort=True).sort("count", known.name, descending=[True, False])
    kept = common[known.name].head(MOST - 1).implode()
    named = pl.when(values.is_in(kept) | values.is_null()).then(values.cast(pl.String))
    return pl.select(named.otherwise(pl.lit(OTHERS)).alias(values.name)).to_series()


def in_order(groups: Iterable[str]) -> list[str]:
    """As a reader expects them: numbers and ranges by size, text by letters, the rest last."""
    return sorted(groups, key=_place)


def _ranges(values: pl.Series, known: pl.Series) -> pl.Series:
    """up to a, a to b, ..., above z: ranges that hold about as many of the known values each."""
    times = known.dtype.is_temporal()
    numbers = known.to_physical() if times else known
    cuts = np.quantile(numbers.to_numpy(), np.arange(1, RANGES) / RANGES, method="lower")
    cuts = np.unique(cuts[cuts < numbers.max()])
    names = _times(known, cuts) if times else _numbers(cuts)
    labels = [f"up to {names[0]}", *(f"{a} to {b}" for a, b in pairwise(names))]
    labels.append(f"above {names[-1]}")
    place = np.searchsorted(cuts, (values.to_physical() if times else values).fill_null(0))
    missing = values.is_null() | (values.is_nan() if values.dtype.is_float() else False)
    made = pl.Series(values.name, np.array(labels)[place])
    return pl.select(pl.when(~missing).then(made).alias(values.name)).to_series()


def _numbers(cuts: np.ndarray) -> list[str]:
    """Each with as few digits as tell them apart, three at least."""
    for digits in range(3, 17):
        names = [_number(float(cut), digits) for cut in cuts]
        if len(set(names)) == len(names):
            return names
    return [repr(float(cut)) for cut in cuts]


def _number(value: float, digits: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _times(known: pl.Series, cuts: np.ndarray) -> list[str]:
    """Days, or minutes where days would be the same."""
    found = [pl.Series([int(cut)]).cast(known.dtype).item() for cut in cuts]
    days = [f"{one:%Y-%m-%d}" if hasattr(one, "year") else str(one) for one in found]
    if len(set(days)) == len(days):
        return days
    return [f"{one:%Y-%m-%d %H:%M:%S}" if hasattr(one, "hour") else str(one) for one in found]


def _place(group: str) -> tuple[int, float, str]:
    if group in (OTHERS, "(none)", "unknown"):
        return 2, 0.0, group
    if group.startswith("up to "):
        return -1, 0.0, group
    if group.startswith("above "):
        return 1, 0.0, group
    number = NUMBER.match(group)
    ranged = number and (number.end() == len(group) or group[number.end() :].startswith(" to "))
    return 0, float(number[0].replace(",", "")) if number and ranged else math.inf, group
