"""What WrapRec's evaluators are called here, and their options."""

from __future__ import annotations

from typing import Any

from fmpair.config.wraprec import Attributes, Notes, class_name, listed
from fmpair.errors import DataError

MEASURES = ("precision", "recall", "map", "mrr", "ndcg")
ALONE = ("recall", "mrr", "ndcg")  # of one relevant item
KNOWN = ("class", "cutOffs", "numCandidates", "candidateItemsMode", "relevantItems")
EVALUATORS = {
    "RankingEvaluators": "user",
    "RankingEvaluatorsOpr": "interaction",
    "RankingEvaluatorsContextAware": "user-context",
    "RatingBasedRankingEvaluators": "user",
    "RatingBasedRankingEvaluatorsOpr": "interaction",
}


def protocols_of(given: Attributes, notes: Notes) -> tuple[dict[str, Any], list[str]]:
    """One evaluator element: the protocols it stands for by label, and its metrics."""
    name = class_name(given.get("class", ""))
    _note_lost(name, given, notes)
    if name in ("RMSE", "MAE"):
        return {}, [name.lower()]
    if name not in EVALUATORS:
        notes.append(f"evaluator {name} has no equivalent and is left out")
        return {}, []
    unit = EVALUATORS[name]
    label = {"user": "per user", "interaction": "one-plus-random"}.get(unit, "per user in context")
    found: dict[str, Any] = {}
    for count in listed(given.get("numCandidates", "max")):
        protocol = {"unit": unit, **_candidates(given, count, notes), "seen": "train+test"}
        if unit == "interaction":
            protocol["relevant"] = "distinct"
        found[f"{label} ({count} candidates)"] = protocol
    if given.get("relevantItems", "").lower() == "all":
        notes.append(
            f"evaluator {name}: relevantItems=all has no equivalent: test items are relevant"
        )
    measures = ALONE if unit == "interaction" else MEASURES
    return found, [f"{m}@{cut}" for cut in listed(given.get("cutOffs", "10")) for m in measures]


def _candidates(given: Attributes, count: str, notes: Notes) -> dict[str, Any]:
    mode = given.get("candidateItemsMode", "training").lower()
    if mode == "explicit":
        return {"candidates": "file", "items": given.get("candidateItemsFile", "")}
    if mode not in ("training", "union"):
        notes.append(f"candidateItemsMode={mode} has no equivalent: items of training are ranked")
    if count != "max":
        notes.append(
            f"numCandidates={count}: WrapRec takes the first {count} training items, which is kept "
            "(candidates: first); `candidates: uniform` samples them"
        )
        return {"candidates": "first", "n": number("numCandidates", count)}
    return {"candidates": "all" if mode == "union" else "train"}


def _note_lost(name: str, given: Attributes, notes: Notes) -> None:
    explicit = given.get("candidateItemsMode", "").lower() == "explicit"
    for key, text in given.items():
        if key == "candidateItemsFile" and not explicit:
            notes.append(
                f"evaluator {name}: {key}={text} is left out: candidateItemsMode is not explicit"
            )
        elif key not in (*KNOWN, "candidateItemsFile"):
            notes.append(f"evaluator {name}: {key}={text} has no equivalent")


def number(name: str, text: str) -> int:
    """The whole number that an attribute of that name says."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{name} must be a whole number, not {text[:60]!r}") from None
