"""Context leakage: context columns that identify the item of their event.

This compares columns with items within one data set. `fmpair.data.split_leakage` compares the
training part of a split with its test part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

MAX_EVENTS = 100_000  # larger data are sampled, with all events of an item or none
REPEATED_ITEMS = 50  # items with two or more events that are needed to judge a column
SHUFFLES = 2  # shuffled copies of a column that estimate the information due to chance
MANY = 0.2  # numbers with more distinct values than this share of the events are binned
BINS = 50
UNSURE = 0.02  # nothing is concluded if shuffled columns leave less of the entropy unexplained
# A column follows from the user if at least this share of events have their user's usual value.
OWNED = 0.9

# Thresholds of the degrees of leakage: (share of the item, share of the column) explained.
CERTAIN = (0.75, 0.95)
LIKELY = (0.5, 0.8)
SUSPECT = (0.3, 0.6)


@dataclass(frozen=True)
class ContextLeakage:
    """Mutual information of a column and the item, corrected for chance.

    of_item: share of the item's entropy that the column explains, 0 to 1.
    of_column: share of the column's entropy that the item explains.
    """

    column: str
    of_item: float
    of_column: float

    @property
    def degree(self) -> str:
        """How likely the column is a leak: none, suspect, likely or certain."""
        levels = (("certain", CERTAIN), ("likely", LIKELY), ("suspect", SUSPECT))
        for name, (item, column) in levels:
            if self.of_item >= item or self.of_column >= column:
                return name
        return "none"

    @property
    def line(self) -> str:
        """The larger share as a sentence."""
        if self.of_column >= self.of_item:
            return f"the item explains {self.of_column:.0%} of it"
        return f"it explains {self.of_item:.0%} of the item"


def context_leakage(
    user: np.ndarray,
    item: np.ndarray,
    columns: pl.DataFrame,
    names: Sequence[str],
    least: int = REPEATED_ITEMS,
) -> dict[str, ContextLeakage]:
    """Return how much each column reveals of the item; columns with too few events are left out.

    user, item: int [events], numbers of ids. least: the number of items with two or more events
    that a column needs. A column that follows from the user, such as a country, reveals nothing,
    because the user is known.
    """
    rows = _sample(item, least)
    leakage: dict[str, ContextLeakage] = {}
    for name in names if len(rows) else ():
        values = columns[name].gather(rows)
        known = values.is_not_null().to_numpy()
        users, items = user[rows][known], _numbered(item[rows][known])
        code = _codes(values.filter(pl.Series(known)))
        repeated = int((np.bincount(items) > 1).sum()) if len(items) else 0
        if repeated < least or not len(items) or code.max(initial=0) < 1:
            continue
        shares = (0.0, 0.0) if _follows_from_user(code, users) else _shares(items, code)
        leakage[name] = ContextLeakage(name, *shares)
    return leakage


def has_one_each(values: pl.Series, other: pl.Series) -> bool:
    """Return whether nearly every repeated value has a single value of the other column."""
    if values.dtype.is_nested() or other.dtype.is_nested():
        return False
    frame = pl.DataFrame({"value": values, "other": other}).drop_nulls()
    each = frame.group_by("value").agg(
        pl.len().alias("events"), pl.col("other").n_unique().alias("others")
    )
    several = each.filter(pl.col("events") > 1)
    return len(several) > 0 and int((several["others"] == 1).sum()) >= 0.99 * len(several)


def entropy(code: np.ndarray) -> float:
    """Return the entropy of non-negative integers, in bits."""
    count = np.bincount(code)
    share = count[count > 0] / len(code)
    return float(-(share * np.log2(share)).sum())


def _shares(item: np.ndarray, code: np.ndarray) -> tuple[float, float]:
    """Return the explained shares (of the item, of the column), less those of shuffled columns."""
    rng = np.random.default_rng(0)
    of_item, of_code = entropy(item), entropy(code)
    mutual = of_item + of_code - _joint_entropy(item, code)
    chance = np.mean(
        [of_item + of_code - _joint_entropy(item, rng.permutation(code)) for _ in range(SHUFFLES)],
        dtype=float,
    )
    beyond = max(mutual - chance, 0.0)
    return _share(beyond, of_item - chance, of_item), _share(beyond, of_code - chance, of_code)


def _share(explained: float, left: float, whole: float) -> float:
    """Return the share explained, 0 if chance alone explains nearly everything."""
    return 0.0 if left < UNSURE * whole else min(explained / left, 1.0)


def _joint_entropy(item: np.ndarray, code: np.ndarray) -> float:
    return entropy(_numbered(item.astype(np.int64) * (int(code.max()) + 1) + code))


def _sample(item: np.ndarray, least: int) -> np.ndarray:
    """Return rows of items with two or more events, all rows of an item or none."""
    count = np.bincount(item) if len(item) else np.zeros(0, np.int64)
    repeated = np.flatnonzero(count > 1)
    if len(repeated) < least:
        return np.zeros(0, np.int64)
    order = np.random.default_rng(0).permutation(repeated)
    enough = int(np.searchsorted(np.cumsum(count[order]), MAX_EVENTS)) + 1
    chosen = np.zeros(len(count), bool)
    chosen[order[: max(enough, least)]] = True
    return np.flatnonzero(chosen[item])


def _codes(values: pl.Series) -> np.ndarray:
    """int64 [values]: equal values get equal codes from 0 on; many distinct numbers are binned."""
    if isinstance(values.dtype, pl.List | pl.Array):
        values = values.list.eval(pl.element().cast(pl.String)).list.join("\x1f")
    elif values.dtype.is_nested():
        values = values.struct.json_encode()
    if values.dtype.is_numeric() and values.n_unique() > MANY * len(values):
        rank = values.rank("ordinal").to_numpy().astype(np.int64) - 1
        return rank * BINS // max(len(values), 1)
    return values.rank("dense").to_numpy().astype(np.int64) - 1


def _numbered(values: np.ndarray) -> np.ndarray:
    """int64 [values]: numbers from 0 on without gaps."""
    return np.unique(values, return_inverse=True)[1]


def _follows_from_user(code: np.ndarray, user: np.ndarray) -> bool:
    """Return whether nearly all events of users with two or more have their user's usual value."""
    events = pl.DataFrame({"user": user, "code": code})
    per_value = events.group_by("user", "code").len()
    per_user = per_value.group_by("user").agg(
        pl.col("len").sum().alias("all"), pl.col("len").max().alias("usual")
    )
    several = per_user.filter(pl.col("all") > 1)
    # One event of each user always has the usual value, so it proves nothing and is not counted.
    rest = int((several["all"] - 1).sum())
    return rest > 0 and int((several["usual"] - 1).sum()) >= OWNED * rest
