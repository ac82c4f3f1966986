"""Metrics by name: `ndcg@10` is a formula and a cut-off."""

from fmpair.metrics.metric import Metric
from fmpair.metrics.placement import Placement

__all__ = ["Metric", "Placement"]
