"""What the paper prints or leaves out that a reader must know to get its numbers."""

from __future__ import annotations

from fmpair.report.number import figure
from fmpair.reproduction.claims import Found
from fmpair.reproduction.significance import difference

ERRATA = (
    "Signs of the update rule. The paper prints sigma(g) and + lambda theta. Gradient ascent on "
    "the sum of ln sigma(g) minus the penalty gives theta + eta (sigma(-g) dg/dtheta - lambda "
    "theta). The authors' code had the wrong sigmoid for two weeks and then took it back; it "
    "always subtracted the penalty. fmpair checks its gradients by finite differences.",
    "Candidates. The text has 1000 random items. The code took the first 1000 items without an "
    "event of the user, in the order of the shuffled training events: popular items first, and "
    "nearly the same for everyone.",
    "Thresholds. The text calls ratings above the user's mean positive. The paper's MovieLens "
    "numbers are reproduced only where every rating is positive.",
    "Duplicates. Frappe's 96,203 records repeat 18,842 pairs of user and app. The paper's "
    "numbers need the pairs, each with one of its contexts; with all records the same pair is in "
    "training and test set, and Recall@10 is several times as high.",
    "Hidden constants. Not printed, but in the code: regularisation .0025 for users and positive "
    "items, .00025 for negative items and for features, 0 for biases; every feature has value "
    "0.1 instead of 1; events are not sampled uniformly, but a user first and then one of their "
    "items.",
)


def errata(found: Found) -> list[str]:
    """The list, with the effect of the leak of genres where it was measured."""
    said = (
        "Genres that leak. A negative gets the genres of the positive item, in training and in "
        "ranking: the query contains the genres of the answer (target leakage)."
    )
    run = found.get("table3-leak-legacy")
    small, whole = (difference(run, f"FM-Pair, leaked genres{of}") for of in ("", " of value 1"))
    if small is not None and whole is not None:
        said += (
            f" Recall@10 under legacy goes from {figure(small.base)} to {figure(small.other)} with "
            f"features of value 0.1, and to {figure(whole.other)} with features of value 1. "
            "Neither says anything about recommendations."
        )
    return [*ERRATA, said]
