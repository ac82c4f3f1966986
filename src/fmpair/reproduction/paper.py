"""The numbers printed in the paper.

B. Loni, M. Larson, A. Hanjalic: Factorization Machines for Data with Implicit Feedback.
"""

from __future__ import annotations

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
    "frappe": {
        ("FM-Pair", RECALL): Printed(0.1816),
        ("FM-Pair", MRR): Printed(0.0745),
        ("FM-Pair-Context", RECALL): Printed(0.2064),
        ("FM-Pair-Context", MRR): Printed(0.0890),
    },
    "movielens": {("FM-Pair", RECALL): Printed(0.2357), ("FM-Pair", MRR): Printed(0.1027)},
    "leak": {
        ("FM-Pair", RECALL): Printed(0.2357),
        ("FM-Pair", MRR): Printed(0.1027),
        ("FM-Pair, leaked genres", RECALL): Printed(0.2601),
        ("FM-Pair, leaked genres", MRR): Printed(0.1191),
    },
}
TABLE4 = {
    "books": {
        ("Target only", RECALL): Printed(0.1058),
        ("Target only", MRR): Printed(0.0452),
        ("All domains", RECALL): Printed(0.0831),
        ("All domains", MRR): Printed(0.0357),
        ("FM-Pair-CD", RECALL): Printed(0.1238),
        ("FM-Pair-CD", MRR): Printed(0.0490),
    },
    "music": {
        ("Target only", RECALL): Printed(0.0966),
        ("Target only", MRR): Printed(0.0356),
        ("All domains", RECALL): Printed(0.0855),
        ("All domains", MRR): Printed(0.0378),
        ("FM-Pair-CD", RECALL): Printed(0.1060),
        ("FM-Pair-CD", MRR): Printed(0.0405),
    },
}
