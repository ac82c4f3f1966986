"""What the paper prints or leaves out that a reader must know to get its numbers."""

from __future__ import annotations

from fmpair.report.number import figure
from fmpair.reproduction.claims import Found
from fmpair.reproduction.significance import contest

ERRATA = (
    "Signs of the update rule. The paper prints sigma(g) and + lambda theta. Ascending the sum of "
    "ln sigma(g) less the penalty gives theta + eta (sigma(-g) dg/dtheta - lambda theta). The "
    "authors' code had the wrong sigmoid for two weeks and then took it back; it always subtracted "
    "the penalty. fmpair checks its gradients by finite differences.",
    "Candidates. The text has 1000 random items. The code took the first 1000, in the order in "
    "which the shuffled training events bring them up, that the user had not met: popular items "
    "first, and nearly the same for everyone.",
    "Thresholds. The text calls ratings above the user's mean positive. The paper's MovieLens "
    "numbers come out only where every rating is.",
    "Duplicates. Frappe's 96,203 records repeat 18,842 pairs of user and app. The paper's numbers "
    "need the pairs, each with one of its contexts; with all records the same pair stands in "
    "training and test, and Recall@10 is several times as high.",
    "Hidden constants. Not printed, but in the code: regularisation .0025 for users and chosen "
    "items, .00025 for items not chosen and for features, 0 for biases; every feature is worth 0.1 "
    "instead of 1; events are not drawn alike, but a user first and then one of their items.",
)


def errata(found: Found) -> list[str]:
    """The list, with what the leak of genres is worth where it was measured."""
    said = (
        "Genres that leak. An item that was not chosen gets the chosen one's genres, in training "
        "and when it is ranked: the genres of the answer are a part of the question."
    )
    run = found.get("table3-leak-legacy")
    small, whole = (contest(run, f"FM-Pair, leaked genres{worth}") for worth in ("", " worth 1"))
    if small is not None and whole is not None:
        said += (
            f" Recall@10 under legacy goes from {figure(small.base)} to {figure(small.other)} with "
            f"features worth 0.1, and to {figure(whole.other)} with features worth 1. Neither says "
            "anything about recommendations."
        )
    return [*ERRATA, said]
