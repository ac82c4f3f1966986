"""The numbers printed in the paper.

B. Loni, M. Larson, A. Hanjalic: Factorization Machines for Data with Implicit Feedback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

RECALL, MRR = "recall@10", "mrr@10"
SETS = {"movielens": "MovieLens", "frappe": "Frappe", "amazon": "Amazon", "xing": "XING"}
CONTEXTS = {"frappe": "Frappe", "movielens": "MovieLens", "leak": "MovieLens, the leak"}
DOMAINS = {"books": "Books", "music": "Music"}
FEW = (3, 5, 10)  # limits of events per user in the target domain, in sparse experiments


class Printed(NamedTuple):
    """A mean and its standard deviation over folds, None if the paper has none."""

    mean: float
    sd: float | None = None


def _recall_mrr(means: Mapping[str, tuple[float, float]]) -> dict[tuple[str, str], Printed]:
    """Means of Recall@10 and MRR@10, given by model."""
    return {
        (model, metric): Printed(mean)
        for model, both in means.items()
        for metric, mean in zip((RECALL, MRR), both)
    }


# Table 1: users, items, events.
TABLE1 = {
    "movielens": (943, 1_682, 100_000),
    "frappe": (957, 4_082, 96_203),
    "amazon": (15_994, 84_508, 270_000),
    "xing": (9_751, 9_821, 223_000),
}
# Tables 2 to 4: by set or target domain, model and metric. The paper's genres leak, see the errata.
TABLE2 = {
    "movielens": {
        ("Most-Popular", RECALL): Printed(0.1180, 0.0012),
        ("FM-Map", RECALL): Printed(0.0728, 0.0036),
        ("FM on ratings", RECALL): Printed(0.001),
        ("GPFM", RECALL): Printed(0.1562),
        ("BPR-MF", RECALL): Printed(0.2278, 0.0024),
        ("FM-Pair", RECALL): Printed(0.2357, 0.0016),
    },
    "frappe": {
        ("Most-Popular", RECALL): Printed(0.1643, 0.0087),
        ("FM-Map", RECALL): Printed(0.1230, 0.0260),
        ("GPFM", RECALL): Printed(0.1615),
        ("BPR-MF", RECALL): Printed(0.1428, 0.0167),
        ("FM-Pair", RECALL): Printed(0.1816, 0.0161),
    },
    "amazon": {
        ("Most-Popular", RECALL): Printed(0.0222, 0.0010),
        ("FM-Map", RECALL): Printed(0.0348, 0.0014),
        ("FM on ratings", RECALL): Printed(0.0),
        ("BPR-MF", RECALL): Printed(0.0962, 0.0056),
        ("FM-Pair", RECALL): Printed(0.0972, 0.0030),
    },
    "xing": {
        ("Most-Popular", RECALL): Printed(0.0306, 0.0005),
        ("FM-Map", RECALL): Printed(0.0287, 0.0015),
        ("BPR-MF", RECALL): Printed(0.2925, 0.0030),
        ("FM-Pair", RECALL): Printed(0.2920, 0.0077),
    },
}
TABLE3 = {
    "frappe": _recall_mrr({"FM-Pair": (0.1816, 0.0745), "FM-Pair-Context": (0.2064, 0.0890)}),
    "movielens": _recall_mrr({"FM-Pair": (0.2357, 0.1027)}),
    "leak": _recall_mrr({"FM-Pair": (0.2357, 0.1027), "FM-Pair, leaked genres": (0.2601, 0.1191)}),
}
TABLE4 = {
    "books": _recall_mrr(
        {
            "Target only": (0.1058, 0.0452),
            "All domains": (0.0831, 0.0357),
            "FM-Pair-CD": (0.1238, 0.0490),
        }
    ),
    "music": _recall_mrr(
        {
            "Target only": (0.0966, 0.0356),
            "All domains": (0.0855, 0.0378),
            "FM-Pair-CD": (0.1060, 0.0405),
        }
    ),
}
