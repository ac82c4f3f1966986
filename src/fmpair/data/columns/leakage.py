"""How much a column of the events and the item tell of each other, beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

MOST_EVENTS = 100_000  # more are sampled, item by item
REPEATED_ITEMS = 50  # fewer items with two events or more prove nothing about a column
SHUFFLES = 2  # orders of a column that show what chance alone would tell
MANY = 0.2  # numbers with more distinct values than this share of the events are put into bins
BINS = 50
UNSURE = 0.02  # share that chance must leave open, so that more can be told
OWNED = 0.9  # share of a user's events with the user's usual value, from which it is the user's

# From here on a column is no context, by (share of the item, share of the column) that is told.
CERTAIN = (0.75, 0.95)
LIKELY = (0.5, 0.8)
SUSPECT = (0.3, 0.6)


@dataclass(frozen=True)
class Information:
    """What a column gives away of the item: mutual information corrected for chance.

    of_item: share of the item's entropy that the column explains, 0 to 1. of_column: share of the
    column's entropy that the item explains. degree: none, suspect, likely or certain, of a leak.
    """

    column: str
    of_item: float
    of_column: float

    @property
    def degree(self) -> str:
        levels = (("certain", CERTAIN), ("likely", LIKELY), ("suspect", SUSPECT))
        for name, (item, column) in levels:
            if self.of_item >= item or self.of_column >= column:
                return name
        return "none"

    @property
    def line(self) -> str:
        """The figure as a sentence; what is larger tells more."""
        if self.of_column >= self.of_item:
            return f"the item tells {self.of_column:.0%} of it"
        return f"it tells {self.of_item:.0%} of the item"


def information(
    user: np.ndarray,
    item: np.ndarray,
    columns: pl.DataFrame,
    names: Sequence[str],
    least: int = REPEATED_ITEMS,
) -> dict[str, Information]:
    """By column what it gives away; columns of which too little is known are left out.

    user, item: int [events], numbers of ids. least: items with two events that it takes to tell.
    A column that follows from the user, such as a country, tells no more than the user, who is
    known anyway: it gives nothing away.
    """
    rows = _sample(item, least)
    if not len(rows):
        return {}
    found = {}
    for name in names:
        values = columns[name].gather(rows)
        known = values.is_not_null().to_numpy()
        own, chosen = user[rows][known], _numbered(item[rows][known])
        code = _codes(values.filter(pl.Series(known)))
        if not _proves(chosen, least) or code.max(initial=0) < 1:
            continue
        if _follows(code, own):
            found[name] = Information(name, 0.0, 0.0)
        else:
            found[name] = Information(name, *_shares(chosen, code))
    return found


def entropy(code: np.ndarray) -> float:
    """Of numbers from 0 on, in bits."""
    count = np.bincount(code)
    share = count[count > 0] / len(code)
    return float(-(share * np.log2(share)).sum())


def _shares(item: np.ndarray, code: np.ndarray) -> tuple[float, float]:
    """(of the item, of the column) that the other tells beyond what shuffled columns do."""
    rng = np.random.default_rng(0)
    own, other = entropy(item), entropy(code)
    told = own + other - _joint(item, code)
    chance = np.mean(
        [own + other - _joint(item, rng.permutation(code)) for _ in range(SHUFFLES)], dtype=float
    )
    beyond = max(told - chance, 0.0)
    of_item, of_column = (_share(beyond, whole - chance, whole) for whole in (own, other))
    return of_item, of_column


def _share(told: float, left: float, whole: float) -> float:
    """0 where chance alone tells all but everything, so that nothing can be said."""
    return 0.0 if left < UNSURE * whole else min(told / left, 1.0)


def _joint(item: np.ndarray, code: np.ndarray) -> float:
    pair = item.astype(np.int64) * (int(code.max()) + 1) + code
    return entropy(_numbered(pair))


def _sample(item: np.ndarray, least: int) -> np.ndarray:
    """Rows of items with two events or more, all rows of an item or none."""
    count = np.bincount(item) if len(item) else np.zeros(0, np.int64)
    repeated = np.flatnonzero(count > 1)
    if len(repeated) < least:
        return np.zeros(0, np.int64)
    order = np.random.default_rng(0).permutation(repeated)
    enough = int(np.searchsorted(np.cumsum(count[order]), MOST_EVENTS)) + 1
    chosen = np.zeros(len(count), bool)
    chosen[order[: max(enough, least)]] = True
    return np.flatnonzero(chosen[item])


def _proves(item: np.ndarray, least: int) -> bool:
    return len(item) > 0 and int((np.bincount(item) > 1).sum()) >= least


def _codes(values: pl.Series) -> np.ndarray:
    """int64: the values numbered from 0 on; numbers that hardly repeat by quantile."""
    if isinstance(values.dtype, pl.List | pl.Array):
        values = values.list.eval(pl.element().cast(pl.String)).list.join("\x1f")
    elif values.dtype.is_nested():
        values = values.struct.json_encode()
    if values.dtype.is_numeric() and values.n_unique() > MANY * len(values):
        rank = values.rank("ordinal").to_numpy().astype(np.int64) - 1
        return rank * BINS // max(len(values), 1)
    return values.rank("dense").to_numpy().astype(np.int64) - 1


def _numbered(values: np.ndarray) -> np.ndarray:
    """int64: numbers from 0 on without gaps."""
    return np.unique(values, return_inverse=True)[1]


def _follows(code: np.ndarray, user: np.ndarray) -> bool:
    """Whether nearly all events of users with several have their user's usual value."""
    events = pl.DataFrame({"user": user, "code": code})
    per_value = events.group_by("user", "code").len()
    per_user = per_value.group_by("user").agg(
        pl.col("len").sum().alias("all"), pl.col("len").max().alias("usual")
    )
    several = per_user.filter(pl.col("all") > 1)
    # of a user with two events one is always the usual one, so that this is told from the second on
    rest = int((several["all"] - 1).sum())
    return rest > 0 and int((several["usual"] - 1).sum()) >= OWNED * rest
