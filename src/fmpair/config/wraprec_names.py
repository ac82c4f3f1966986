"""What WrapRec's models and evaluators are called here, and their options."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import product
from typing import Any

from fmpair.config.wraprec import Attributes, class_name, listed

Notes = list[str]

# Class, without its namespace -> kind here.
MODELS = {
    "BPRFM": "fm-pair",
    "WeightedBPRFM": "fm-pair-weighted",
    "MultiLevelBPRFM": "fm-pair-levels",
    "TimeBasedMultiLevelBPRFM": "fm-pair-levels",
    "BPRMF": "bpr-mf",
    "WrapRecBPRMF": "bpr-mf",
    "WRMF": "implicit-als",
    "WrapRecWRMF": "implicit-als",
    "MostPopular": "popularity",
    "Random": "random",
    "ItemKNN": "item-knn",
    "UserKNN": "user-knn",
    "FM": "fm-map",
    "WFM": "fm-map",
    "MatrixFactorization": "fm",
    "BiasedMatrixFactorization": "fm",
    "LibFmWrapper": "fm",
}
FIELDS_OF_FM = ("fm-pair", "fm-pair-weighted", "fm-pair-levels", "fm", "fm-map")
IDS_ONLY = ("MatrixFactorization", "BiasedMatrixFactorization")

# Option there -> option here, for the kinds that have it.
OPTIONS = {
    "NumFactors": "factors",
    "NumIter": "epochs",
    "LearnRate": "learning_rate",
    "InitStdDev": "init_std",
    "Regularization": "regularization",
    "Alpha": "alpha",
    "K": "k",
    "iter": "epochs",
    "learn_rate": "learning_rate",
    "init_stdev": "init_std",
    "method": "learner",
}
SHARES = {"RegU": "user", "RegI": "item", "RegJ": "negative", "BiasReg": "bias"}
SAMPLING = ("UniformUserSampling", "WithReplacement")
TASKS = {"r": "regression", "c": "classification"}
SILENT = ("ml-class", "libFmPath", "verbosity", "save_model")

MEASURES = ("precision", "recall", "map", "mrr", "ndcg")
ALONE = ("recall", "mrr", "ndcg")  # of one relevant item
EVALUATORS = {
    "RankingEvaluators": "user",
    "RankingEvaluatorsOpr": "interaction",
    "RankingEvaluatorsContextAware": "user-context",
    "RatingBasedRankingEvaluators": "user",
    "RatingBasedRankingEvaluatorsOpr": "interaction",
}


def model_of(id: str, outer: str, given: Attributes, notes: Notes) -> dict[str, Any] | None:
    """One model element as an entry of `models`; None where there is no equivalent."""
    name = class_name(given.get("ml-class", outer))
    if name not in MODELS:
        notes.append(f"model {id}: {name} has no equivalent and is left out")
        return None
    entry: dict[str, Any] = {"kind": MODELS[name], "name": id, **_options(id, given, notes)}
    if name in IDS_ONLY:
        entry |= {"context": [], "user_fields": [], "item_fields": []}
    return entry


def _options(id: str, given: Attributes, notes: Notes) -> dict[str, Any]:
    options: dict[str, Any] = {}
    shares: dict[str, Any] = {}
    for name, text in given.items():
        values = [_value(part) for part in listed(text)]
        if name in SILENT or name in SAMPLING or not values:
            continue
        if name in OPTIONS:
            options[OPTIONS[name]] = _one_or_grid(values)
        elif name in SHARES:
            shares[SHARES[name]] = values[0]
            if len(values) > 1:
                notes.append(f"model {id}: of {name}={text} only the first value is kept")
        elif name in ("dim", "regular"):  # libFM's triples: w0-w-v
            last = [_value(part.split("-")[-1]) for part in listed(text)]
            options["factors" if name == "dim" else "regularization"] = _one_or_grid(last)
        elif name == "task":
            options["task"] = TASKS.get(text, text)
        else:
            notes.append(f"model {id}: option {name}={text} has no equivalent")
    if shares:
        options["regularization"] = shares
    if any(name in given for name in SAMPLING):
        options["positives"] = _one_or_grid(_positives(given))
    return options


def _positives(given: Attributes) -> list[str]:
    """How events are visited, from WrapRec's two switches, each perhaps a list."""
    by_user, again = (listed(given.get(name, "false").lower()) for name in SAMPLING)
    kinds = [
        "user" if user == "true" else "bootstrap" if replaced == "true" else "permutation"
        for user, replaced in product(by_user, again)
    ]
    return list(dict.fromkeys(kinds))


def protocols_of(given: Attributes, notes: Notes) -> tuple[dict[str, Any], list[str]]:
    """One evaluator element: the protocols it stands for by label, and its metrics."""
    name = class_name(given.get("class", ""))
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
        return {"candidates": "first", "n": int(count)}
    return {"candidates": "all" if mode == "union" else "train"}


def _one_or_grid(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else {"grid": values}


def _value(text: str) -> Any:
    """A number or truth value where the text is one."""
    try:
        return json.loads(text.lower())
    except ValueError:
        return text


def unique(things: Iterable[str]) -> list[str]:
    """Each once, in order of first appearance."""
    return list(dict.fromkeys(things))
