"""Metrics that need more than ranks: of whole lists, and corrected for sampled candidates.

List metrics (coverage, gini, novelty, popularity, diversity) describe the first k items of each
list, relevant or not.

Sampled metrics are corrected to estimates among all items. EM fits the distribution of true ranks
to the sampled ranks, and the metric is averaged over it: Jin et al., On Estimating Recommendation
Evaluation Metrics under Sampling (AAAI 2021), after Krichene and Rendle, On Sampled Metrics for
Item Recommendation (KDD 2020), whose least squares benchmarks/correction.py compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl

from fmpair.arrays import distinct_pairs
from fmpair.data import Dataset
from fmpair.metrics import ALONE, Metric, Placement
from fmpair.ranking.plain import Pool
from fmpair.ranking.ranks import shared

STEPS = 50  # more would fit the noise of the sample
ESTIMATOR = (
    f"likelihood of true ranks, {STEPS} steps of EM from 1/rank (Jin et al. 2021, after "
    "Krichene & Rendle 2020)"
)
MAX_RANKS = 1000  # true ranks that represent all ranks of a large catalogue


def list_values(
    metric: Metric, best: np.ndarray, candidates: Pool | np.ndarray, train: Dataset
) -> tuple[pl.Series, float]:
    """Return (value per list, value over all lists); null per list for coverage and gini.

    best: int32 [lists, at least k], item numbers, -1 beyond the end of a list.
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
    """coverage@k = share of the catalogue that is in any list.

    times: int [items], the number of lists with each item of the catalogue.
    """
    return float((times > 0).mean())


def gini(times: np.ndarray) -> float:
    """gini@k = sum of (2 j - n - 1) x_j / (n sum of x), x_1 <= ... <= x_n the times listed.

    0: all items are listed equally often; near 1: all lists have the same few items.
    """
    total, n = times.sum(), len(times)
    weight = 2 * np.arange(1, n + 1) - n - 1
    return float((weight * np.sort(times)).sum() / (n * total)) if total else float("nan")


def novelty(train: Dataset) -> np.ndarray:
    """novelty@k = mean over the list of -log2(share of training users who have the item).

    An item without users counts as if it had one.
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
    present = (lists[:, left] >= 0) & (lists[:, right] >= 0)
    low = np.minimum(lists[:, left], lists[:, right])[present].astype(np.int64)
    high = np.maximum(lists[:, left], lists[:, right])[present]
    pair, index = np.unique(low << 32 | high, return_inverse=True)
    a, b = pair >> 32, pair & 0xFFFFFFFF
    both = shared(owners.start, owners.column, a, b)
    distance = 1 - both / np.sqrt(np.maximum(size[a] * size[b], 1))
    values = np.zeros(present.shape)
    values[present] = distance[index]
    return _mean_over_lists(values, present)


def _mean_over_lists(values: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Mean of each row over the entries that are present; NaN if none is."""
    count = present.sum(axis=1)
    total = np.where(present, values, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def corrected(
    metrics: Sequence[Metric], placement: Placement, eligible: np.ndarray, n: int
) -> dict[str, float]:
    """Return {metric: estimate among all items}; empty unless every unit has one relevant item.

    eligible: int64 [units], the number of items each sample was drawn from.
    """
    known = [metric for metric in metrics if metric.name in ALONE]
    if not known or (placement.relevant != 1).any():
        return {}
    others = round(float(eligible.mean()))
    seen = _rank_counts(placement, min(n, others) + 1)
    ranks, chance = true_ranks(seen, others)
    # A unit whose item is not in the list counts 0.
    share = float((placement.level > 0).mean())
    return {str(metric): share * float(chance @ metric.worth(ranks)) for metric in known}


def true_ranks(seen: np.ndarray, others: int, steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Estimate (true ranks int64, probability of each) from counts of sampled ranks.

    seen: float64 [n + 1], counts; samples of n are drawn from `others` without replacement.
    """
    n = len(seen) - 1
    share = seen / max(seen.sum(), 1e-300)
    if n >= others:
        return np.arange(1, n + 2), share
    ranks, chance = possible_ranks(others + 1)
    likely = sampled_chances(others, n)
    for _ in range(steps):
        made = chance @ likely
        chance = chance * (likely @ (share / np.maximum(made, 1e-300)))
    return ranks, chance


def possible_ranks(last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (true ranks int64, prior of each); large ranks are thinned out.

    The prior falls with 1 / rank: a useful model ranks most relevant items near the top.
    """
    ranks = np.unique(np.geomspace(1, last, MAX_RANKS).round().astype(np.int64))
    if last <= MAX_RANKS:
        ranks = np.arange(1, last + 1)
    width = np.diff(ranks, append=last + 1)
    prior = width / ranks
    return ranks, prior / prior.sum()


@lru_cache(maxsize=2)
def sampled_chances(others: int, n: int) -> np.ndarray:
    """Return float64 [possible ranks, n + 1]: hypergeometric probability of each sampled rank.

    At true rank R, j of the R - 1 better items are among the n drawn from `others`.
    """
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, others + 1)))])

    def log_choose(total: np.ndarray, part: np.ndarray) -> np.ndarray:
        wrong = (part < 0) | (part > total)
        valid = np.where(wrong, 0, part)
        value = log_factorial[total] - log_factorial[valid] - log_factorial[total - valid]
        return np.where(wrong, -np.inf, value)

    ranks, _ = possible_ranks(others + 1)
    better, drawn = (ranks - 1)[:, None], np.arange(n + 1)[None, :]
    chosen = log_choose(better, drawn) + log_choose(others - better, n - drawn)
    return np.exp(chosen - log_choose(np.array(others), np.array(n)))


def _rank_counts(placement: Placement, last: int) -> np.ndarray:
    """Return float64 [last]: counts of the ranks; tied items count in equal parts."""
    listed = placement.level > 0
    above, level = placement.above[listed], placement.level[listed]
    part = 1 / level
    change = np.bincount(np.minimum(above, last), part, last + 1)
    change -= np.bincount(np.minimum(above + level, last), part, last + 1)
    return np.maximum(np.cumsum(change)[:last], 0.0)
