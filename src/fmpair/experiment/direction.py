"""Whether more of a metric is better."""

from __future__ import annotations

from fmpair.metrics import Metric
from fmpair.metrics.metric import ERRORS

LOWER_IS_BETTER = (*ERRORS, "gini", "popularity")


def sign(metric: str) -> int:
    """1 where a higher value is better, -1 where a lower one is; metric: as `recall@10`."""
    return -1 if Metric.parse(metric).name in LOWER_IS_BETTER else 1
