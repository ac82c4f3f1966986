"""Sampled metrics corrected: estimates of the metric among all items.

Krichene and Rendle, On Sampled Metrics for Item Recommendation (KDD 2020): replace the metric by
another function of the sampled rank, whose expected value is near the metric of the true rank.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fmpair.metrics import Metric, Placement
from fmpair.metrics.formulas import expected
from fmpair.metrics.metric import ALONE

GAMMA = 0.1  # how much the variance of the estimate weighs against its bias
ESTIMATOR = f"bias-variance least squares, gamma={GAMMA}, prior 1/rank (Krichene & Rendle 2020)"
MOST_RANKS = 2000  # of a large catalogue, this many true ranks stand for all


def corrected(
    metric: Metric, placement: Placement, eligible: np.ndarray, n: int
) -> dict[str, float]:
    """{metric: estimate}, or nothing where the metric is not a function of one sampled rank.

    eligible: int64 [units], how many items each sample was drawn from.
    """
    if metric.name not in ALONE or (placement.relevant != 1).any():
        return {}
    others = round(float(eligible.mean()))
    worth = estimator(metric, others, min(n, others))
    total = np.concatenate([[0.0], np.cumsum(worth)])
    return {str(metric): float(expected(placement, total).mean())}


def estimator(metric: Metric, others: int, n: int) -> np.ndarray:
    """float64 [n + 1]: the value of each sampled rank, n drawn of `others` without replacement."""
    if n >= others:
        return metric.worth(np.arange(1, n + 2))
    ranks, prior = _true_ranks(others + 1)
    return _solution(others, n) @ (prior * metric.worth(ranks))


@lru_cache(maxsize=2)
def _solution(others: int, n: int) -> np.ndarray:
    """float64 [n + 1, ranks]: from the metric at true ranks, weighted, to its estimator.

    Minimises the sum over true ranks R of p(R) [bias(R)^2 + gamma variance(R)]; p(R) ~ 1 / R, as
    a useful model ranks most relevant items near the top.
    """
    ranks, prior = _true_ranks(others + 1)
    chance = _chances(ranks, others, n)
    seen = prior @ chance
    left = (1 - GAMMA) * (chance.T * prior) @ chance + GAMMA * np.diag(seen)
    left[np.diag_indices_from(left)] += 1e-12 * seen.max()  # some ranks are never seen
    return np.linalg.solve(left, chance.T)


def _true_ranks(last: int) -> tuple[np.ndarray, np.ndarray]:
    """(true ranks int64, the weight of each): all, or ever sparser ones that stand for the rest."""
    ranks = np.unique(np.geomspace(1, last, MOST_RANKS).round().astype(np.int64))
    if last <= MOST_RANKS:
        ranks = np.arange(1, last + 1)
    width = np.diff(ranks, append=last + 1)
    prior = width / ranks
    return ranks, prior / prior.sum()


def _chances(ranks: np.ndarray, others: int, n: int) -> np.ndarray:
    """float64 [ranks, n + 1]: the chance of each sampled rank, which is hypergeometric.

    At true rank R, j of the R - 1 better items are among the n drawn of `others`.
    """
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, others + 1)))])

    def log_choose(total: np.ndarray, part: np.ndarray) -> np.ndarray:
        wrong = (part < 0) | (part > total)
        kept = np.where(wrong, 0, part)
        value = log_factorial[total] - log_factorial[kept] - log_factorial[total - kept]
        return np.where(wrong, -np.inf, value)

    better, drawn = (ranks - 1)[:, None], np.arange(n + 1)[None, :]
    chosen = log_choose(better, drawn) + log_choose(others - better, n - drawn)
    return np.exp(chosen - log_choose(np.array(others), np.array(n)))
