"""Filters: explicit to implicit feedback, merged duplicates, k-core, samples. All return new data.

Filters that compute statistics have a parameter `training`. In an experiment they run after the
split and compute the statistics from its training part only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from fmpair.data.columns.roles import STANDARD
from fmpair.data.dataset import Dataset
from fmpair.data.owner_splits import histories
from fmpair.data.parts import by_time_order
from fmpair.data.splits import in_domain
from fmpair.errors import DataError, OptionError, listing, named, unknown
from fmpair.threads import check_process

STATISTICS = ("training", "all")
# Filters of single events: they keep the same events before and after a split.
EVENT_BY_EVENT = ("above", "at_least", "dislikes", "all_positive", "leaked")


def above_mean(
    data: Dataset, statistics: str = "training", training: np.ndarray | None = None
) -> Dataset:
    """Keep events with a rating strictly above the mean of their user's ratings.

    statistics: which ratings the means are computed from: those of the 'training' part, or 'all',
        which includes test events, as in the code of the paper. A user without such ratings gets
        the mean of all of them.
    training: bool [events], the training part; None without a split.
    """
    rating, used = _ratings(data), _used(data, statistics, training)
    total = np.bincount(data.user, weights=np.where(used, rating, 0.0), minlength=len(data.users))
    count = np.bincount(data.user[used], minlength=len(data.users))
    overall = rating[used].mean() if used.any() else 0.0
    mean = np.where(count > 0, total / np.maximum(count, 1), overall)
    return _with_ratings(data, rating > mean[data.user], "above their user's mean")


# Filters that decide which ratings are positive.
RATED = ("above_mean", "above", "at_least", "dislikes", "all_positive")


def above(data: Dataset, threshold: float) -> Dataset:
    """Keep events with a rating strictly above the threshold."""
    return _with_ratings(data, _ratings(data) > threshold, f"above {threshold}")


def at_least(data: Dataset, threshold: float) -> Dataset:
    """Keep events with a rating of the threshold or more."""
    return _with_ratings(data, _ratings(data) >= threshold, f"of at least {threshold}")


def dislikes(data: Dataset, below: float) -> Dataset:
    """Turn events with a lower rating into impressions: items shown and not chosen.

    Only FM-Pair uses them: it draws a share of its negatives from them (`impression_share`).
    """
    low = _ratings(data) < below
    positive = _with_ratings(data, ~low, f"of at least {below}")
    return positive.with_impressions(data.take(low).frame()) if low.any() else positive


def all_positive(data: Dataset) -> Dataset:
    """Take every event as positive feedback: drop the ratings."""
    return replace(data, columns=data.columns.drop("rating", strict=False))


def merge_duplicates(data: Dataset, context: bool = True) -> Dataset:
    """Keep one event per (user, item, context), weighted by the number of its events.

    Existing weights are added up and ratings averaged; the latest time is kept, and the last
    session and event type.
    context: False merges across contexts too and drops the context columns.
    """
    check_process()
    names = list(data.context) if context else []
    standard = [name for name in STANDARD if name not in ("weight", *names)]
    extra = [name for name in standard if name in data.columns.columns]
    ids = {"__user": data.user, "__item": data.item, "weight": data.weight.astype(np.float64)}
    events = pl.DataFrame(ids).hstack(list(data.columns.select(*names, *extra).iter_columns()))
    rules = {
        "rating": pl.col("rating").mean(),
        "timestamp": pl.col("timestamp").max(),
        "domain": pl.col("domain").first(),
        "session": pl.col("session").last(),
        "event_type": pl.col("event_type").last(),
    }
    merged = events.group_by("__user", "__item", *names, maintain_order=True).agg(
        pl.col("weight").sum(), *(rules[name] for name in extra)
    )
    return replace(
        data,
        user=merged["__user"].to_numpy(),
        item=merged["__item"].to_numpy(),
        columns=merged.drop("__user", "__item"),
        context=tuple(names),
    )


def distinct(data: Dataset) -> Dataset:
    """Keep the first event of each pair of user and item, in any context."""
    check_process()
    pair = data.user.astype(np.int64) * len(data.items) + data.item
    return data.take(np.sort(np.unique(pair, return_index=True)[1]))


def shuffled(data: Dataset, seed: int = 0) -> Dataset:
    """Shuffle the events. Their order matters to `distinct` and to the candidates 'first'."""
    return data.take(np.random.default_rng(seed).permutation(len(data)))


def sampled(data: Dataset, count: int, seed: int = 0) -> Dataset:
    """Keep at most `count` random events in their order, and compact the data."""
    if count < 1:
        raise OptionError(f"count must be at least 1, not {count}")
    rows = np.random.default_rng(seed).permutation(len(data))[:count]
    return data.take(np.sort(rows)).compact()


def enlarged(
    data: Dataset, events: int, contexts: int = 0, values: int = 4, seed: int = 0
) -> Dataset:
    """Repeat the events until there are `events` of them, for measurements of speed.

    contexts: number of added random context columns random_1, ..., with `values` values each; an
    event has the same values each time it is repeated.
    """
    for name, count, least in (("events", events, 1), ("contexts", contexts, 0)):
        if count < least:
            raise OptionError(f"{name} must be at least {least}, not {count}")
    rng = np.random.default_rng(seed)
    noise = {
        f"random_{n + 1}": pl.Series(rng.integers(0, values, len(data))).cast(pl.String)
        for n in range(contexts)
    }
    wider = replace(
        data, columns=data.columns.with_columns(**noise), context=(*data.context, *noise)
    )
    return wider.take(np.arange(events) % max(len(data), 1))


def thinned(data: Dataset, most: int, domain: str | None = None, seed: int = 0) -> Dataset:
    """Keep at most `most` random events of each user, in their order.

    domain: thin the events of this domain only, so that its users look like new users.
    """
    check_process()
    if most < 1:
        raise OptionError(f"most must be at least 1, not {most}")
    thin = np.ones(len(data), bool) if domain is None else in_domain(data, domain)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(thin))
    by_user = histories(data.user, order)
    thinned_rows = by_user.row[by_user.later < most]
    return data.take(np.sort(np.concatenate([thinned_rows, np.flatnonzero(~thin)])))


def faded(
    data: Dataset,
    half: float = 30.0,
    least: float = 0.1,
    statistics: str = "training",
    training: np.ndarray | None = None,
) -> Dataset:
    """Weight events by recency: the weight falls with the number of later events of the user.

    Existing weights are multiplied by it.
    half: number of later events after which the weight is half way from 1 to `least`.
    statistics: which later events count: those of the 'training' part, or 'all', which includes
        test events.
    training: bool [events], the training part; None without a split.
    """
    check_process()
    used = _used(data, statistics, training)
    if not half > 0:
        raise OptionError(f"half must be a number of events above 0, not {half!r}")
    if not 0 <= least <= 1:
        raise OptionError(f"least must be a share from 0 to 1, not {least!r}")
    by_user = histories(data.user, by_time_order(data))
    running = np.cumsum(used[by_user.row])
    later = running[np.arange(len(running)) + by_user.later] - running
    weight = np.empty(len(data))
    weight[by_user.row] = least + (1 - least) * 0.5 ** (later / half)
    column = pl.Series("weight", weight * data.weight)
    return replace(data, columns=data.columns.with_columns(column))


def leaked(data: Dataset, column: str) -> Dataset:
    """Use an item attribute as context, as in the paper: this leaks the answer.

    All candidates then get the positive item's value. Only useful to measure the leakage.
    """
    if column not in data.item_table.columns:
        raise DataError(unknown("item attribute", column, data.item_table.columns))
    value = data.item_table[column].gather(data.item)
    columns = data.columns.with_columns(value.alias(column))
    item_table = data.item_table.drop(column)
    return replace(data, columns=columns, context=(*data.context, column), item_table=item_table)


def core(data: Dataset, users: int = 5, items: int = 5) -> Dataset:
    """Keep the largest subset in which each user and item has this many events, and compact it.

    Events are counted: merge duplicates first if distinct pairs should count.
    """
    check_process()
    if users < 1 or items < 1:
        raise OptionError(f"users and items must be at least 1, not {users} and {items}")
    rows = np.arange(len(data))
    while True:
        user, item = data.user[rows], data.item[rows]
        enough = np.bincount(user, minlength=len(data.users))[user] >= users
        enough &= np.bincount(item, minlength=len(data.items))[item] >= items
        if enough.all():
            break
        rows = rows[enough]
    if not len(rows):
        raise DataError(
            f"no events are left with {users} per user and {items} per item: lower the numbers"
        )
    return data.take(rows).compact()


def _used(data: Dataset, statistics: str, training: np.ndarray | None) -> np.ndarray:
    """bool [events]: the events that statistics are computed from."""
    if statistics not in STATISTICS:
        raise OptionError(f"statistics must be one of {listing(STATISTICS)}, not {statistics!r}")
    return np.ones(len(data), bool) if training is None or statistics == "all" else training


def _ratings(data: Dataset) -> np.ndarray:
    rating = data.column("rating")
    if rating is None:
        raise DataError(f"the data have no ratings: name their column with {named('rating', ...)}")
    return rating.astype(np.float64)


def _with_ratings(data: Dataset, rows: np.ndarray, which: str) -> Dataset:
    if not rows.any():
        raise DataError(f"no event has a rating {which}: the data would be empty")
    return data.take(rows)
