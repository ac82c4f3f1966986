"""Metrics beyond accuracy: of the first k items of each list, relevant or not."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.arrays import distinct_pairs
from fmpair.data import Dataset
from fmpair.metrics import Metric
from fmpair.ranking.ranks import shared
from fmpair.ranking.task import Pool


def list_values(
    metric: Metric, best: np.ndarray, candidates: Pool | np.ndarray, train: Dataset
) -> tuple[pl.Series, float]:
    """(value per list, null where the metric is one number for all lists; the value of them all).

    best: int32 [lists, at least k], item numbers, -1 where a list is shorter.
    """
    lists = best[:, : metric.cutoff]
    if metric.name in ("coverage", "gini"):
        times = np.bincount(lists[lists >= 0], minlength=len(train.items))
        times = times if isinstance(candidates, Pool) else times[candidates]
        value = coverage(times) if metric.name == "coverage" else gini(times)
        return pl.Series([None] * len(lists), dtype=pl.Float64), value
    if metric.name == "diversity":
        values = diversity(lists, train)
    else:
        worth = novelty(train) if metric.name == "novelty" else popularity(train)
        values = _mean_over_lists(worth[lists], lists >= 0)
    series = pl.Series(values).fill_nan(None)
    mean = series.mean()
    return series, float(mean) if isinstance(mean, float) else float("nan")


def coverage(times: np.ndarray) -> float:
    """coverage@k = the share of the catalogue that is in any list.

    times: int [items], in how many lists each item of the catalogue is.
    """
    return float((times > 0).mean())


def gini(times: np.ndarray) -> float:
    """gini@k = sum of (2 j - n - 1) x_j / (n sum of x), x_1 <= ... <= x_n the times listed.

    0: all items are listed equally often; near 1: all lists are of the same few items.
    """
    total, n = times.sum(), len(times)
    weight = 2 * np.arange(1, n + 1) - n - 1
    return float((weight * np.sort(times)).sum() / (n * total)) if total else float("nan")


def novelty(train: Dataset) -> np.ndarray:
    """novelty@k = mean over the list of -log2(share of training users who have the item).

    An item nobody has counts as if one user had it.
    """
    owners = np.bincount(train.seen.column, minlength=len(train.items))
    return -np.log2(np.maximum(owners, 1) / max(len(np.unique(train.user)), 1))


def popularity(train: Dataset) -> np.ndarray:
    """popularity@k = mean over the list of the item's number of training events."""
    return np.bincount(train.item, minlength=len(train.items)).astype(np.float64)


def diversity(lists: np.ndarray, train: Dataset) -> np.ndarray:
    """diversity@k = mean over the pairs of the list of 1 - |A and B| / sqrt(|A| |B|).

    A, B: the training users of the two items; so the measure does not depend on any model.
    """
    owners = distinct_pairs(train.item, train.user, len(train.items))
    size = np.diff(owners.start)
    left, right = np.triu_indices(lists.shape[1], 1)
    there = (lists[:, left] >= 0) & (lists[:, right] >= 0)
    low = np.minimum(lists[:, left], lists[:, right])[there].astype(np.int64)
    high = np.maximum(lists[:, left], lists[:, right])[there]
    pair, place = np.unique(low << 32 | high, return_inverse=True)
    a, b = pair >> 32, pair & 0xFFFFFFFF
    both = shared(owners.start, owners.column, a, b)
    distance = 1 - both / np.sqrt(np.maximum(size[a] * size[b], 1))
    values = np.zeros(there.shape)
    values[there] = distance[place]
    return _mean_over_lists(values, there)


def _mean_over_lists(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """The mean of each row over what is there; NaN if nothing is."""
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
