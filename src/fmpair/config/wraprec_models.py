"""WrapRec's models, those of MyMediaLite and libFM among them, and what they are here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import isfinite
from typing import Any

from fmpair.config.option_schema import options_of
from fmpair.config.wraprec_config import Attributes, Notes, class_name, listed
from fmpair.models import catalog


@dataclass(frozen=True)
class Equivalent:
    """A kind here, with options that make it the model there.

    usual: what it takes there where the file says nothing, by the names there; differs: how it is
    not quite the same.
    """

    kind: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    usual: Attributes = field(default_factory=dict)
    differs: str = ""


IDS_ONLY: dict[str, list[str]] = {"context": [], "user_fields": [], "item_fields": []}
FALLS = "the learning rate falls to a tenth of itself, where MyMediaLite keeps it"
FACTORS = {"NumFactors": "10", "NumIter": "30", "InitStdDev": "0.1"}
RATINGS = {**FACTORS, "LearnRate": "0.01", "Regularization": "0.015"}
PAIRS = {
    **FACTORS, "LearnRate": "0.05", "RegU": "0.0025", "RegI": "0.0025", "RegJ": "0.00025",
    "BiasReg": "0", "UniformUserSampling": "true",
}  # fmt: skip
PLAIN_PAIRS = {"loss": "bpr", "final_rate_share": 1.0, "weights": "none"}
FM_MAP = Equivalent("fm-map", {"learner": "sgd"}, differs=FALLS)
BPR_MF = Equivalent("bpr-mf", {"item_bias": True, "weights": "none"}, PAIRS, FALLS)
LEVELS = Equivalent("fm-pair-levels", PLAIN_PAIRS, PAIRS)
WRMF = Equivalent(
    "implicit-als",
    {"frequency": 0},  # all vectors are held alike
    {"NumFactors": "10", "NumIter": "15", "Alpha": "1", "Regularization": "0.015"},
)

# By class, without its namespace. The defaults are MyMediaLite's and libFM's.
MODELS = {
    "BPRFM": Equivalent("fm-pair", PLAIN_PAIRS, PAIRS),
    "WeightedBPRFM": Equivalent("fm-pair-weighted", PLAIN_PAIRS, PAIRS),
    "MultiLevelBPRFM": LEVELS,
    "TimeBasedMultiLevelBPRFM": LEVELS,
    "BPRMF": BPR_MF,
    "WrapRecBPRMF": BPR_MF,
    "WRMF": WRMF,
    "WrapRecWRMF": WRMF,
    "MostPopular": Equivalent("popularity"),
    "Random": Equivalent("random"),
    "ItemKNN": Equivalent("item-knn", usual={"K": "80"}),
    "UserKNN": Equivalent("user-knn", usual={"K": "80"}),
    "FM": FM_MAP,
    "WFM": FM_MAP,
    "MatrixFactorization": Equivalent(
        "fm", {"learner": "sgd", "linear": False, **IDS_ONLY}, RATINGS, FALLS
    ),
    "BiasedMatrixFactorization": Equivalent(
        "fm",
        {"learner": "sgd", **IDS_ONLY},
        {**RATINGS, "BiasReg": "0.01"},
        f"{FALLS}; and ratings are predicted as they are, where it bends them by a sigmoid",
    ),
    "LibFmWrapper": Equivalent("fm", usual={"dim": "1-1-8", "iter": "100", "method": "mcmc"}),
}
FIELDS_OF_FM = ("fm-pair", "fm-pair-weighted", "fm-pair-levels", "fm", "fm-map")

# Option there -> option here.
OPTIONS = {
    "NumFactors": "factors",
    "NumIter": "epochs",
    "LearnRate": "learning_rate",
    "InitStdDev": "init_std",
    "Alpha": "alpha",
    "K": "k",
    "iter": "epochs",
    "learn_rate": "learning_rate",
    "init_stdev": "init_std",
    "method": "learner",
}
SHARES = {"RegU": "user", "RegI": "item", "RegJ": "negative", "BiasReg": "bias"}
VECTORS = ("user", "item", "context", "user_features", "item_features")
SAMPLING = ("UniformUserSampling", "WithReplacement")
TASKS = {"r": "regression", "c": "classification"}
TRIPLES = ("dim", "regular")  # libFM's: of the global bias, the linear terms, the vectors


def model_of(id: str, outer: str, given: Attributes, notes: Notes) -> dict[str, Any] | None:
    """One model element as an entry of `models`; None where there is no equivalent."""
    name = class_name(given.get("ml-class", outer))
    if name not in MODELS:
        notes.append(f"model {id}: {name} has no equivalent and is left out")
        return None
    own = MODELS[name]
    if own.differs:
        notes.append(f"model {id}: {own.differs}")
    found: dict[str, list[Any]] = {key: [value] for key, value in own.fixed.items()}
    every = {key: text for key, text in {**own.usual, **given}.items() if key != "ml-class"}
    found |= _options(id, every, notes) | _regularization(id, own.kind, every, notes)
    if any(key in every for key in SAMPLING):
        found["positives"] = _positives(every)
    known = {*options_of(catalog.find(own.kind)).known, *IDS_ONLY}
    for key in [key for key in found if key not in known]:
        if found.pop(key) and (said := _said(key, given)):
            notes.append(f"model {id}: {said} means nothing to {own.kind}")
    return {"kind": own.kind, "name": id, **{key: one_or_grid(v) for key, v in found.items()}}


def _options(id: str, given: Attributes, notes: Notes) -> dict[str, list[Any]]:
    """The values of every option but those of regularisation and sampling."""
    found: dict[str, list[Any]] = {}
    for name, text in given.items():
        values = [value_of(part) for part in listed(text)]
        if name in (*SAMPLING, *SHARES, "Regularization", "regular") or not values:
            continue
        if name in OPTIONS:
            found[OPTIONS[name]] = values
        elif name == "dim":
            found |= _sizes(id, [part.split("-") for part in listed(text)], notes)
        elif name == "task":
            found["task"] = [TASKS.get(text, text)]
        elif name == "save_model":
            notes.append(f"model {id}: save_model={text}: models are kept in the folder of the run")
        else:
            notes.append(f"model {id}: option {name}={text} has no equivalent")
    return found


def _sizes(id: str, triples: list[list[str]], notes: Notes) -> dict[str, list[Any]]:
    """libFM's dim: whether there is a global bias, whether linear terms are, how many factors."""
    found: dict[str, list[Any]] = {"factors": [value_of(one[-1]) for one in triples]}
    if any(len(one) == 3 and one[0] == "0" for one in triples):
        notes.append(f"model {id}: dim without a global bias: there always is one")
    linear = unique(str(len(one) < 3 or one[1] != "0") for one in triples)
    if linear != ["True"]:
        found["linear"] = [text == "True" for text in linear]
        notes.append(f"model {id}: dim without linear terms is learned by sgd only")
    return found


def _regularization(id: str, kind: str, given: Attributes, notes: Notes) -> dict[str, list[Any]]:
    """Every combination of what is said of users, items, negatives and biases."""
    parts = {SHARES[name]: listed(given[name]) for name in SHARES if name in given}
    if kind == "fm":
        parts.pop("negative", None)
    if "regular" in given:
        triples = [one.split("-") for one in listed(given["regular"])]
        if any(len(one) > 1 for one in triples):
            notes.append(f"model {id}: of regular={given['regular']} the first, of the bias of all")
        return {"regularization": [_triple(one) for one in triples]}
    alone = [value_of(text) for text in listed(given.get("Regularization", ""))]
    if not parts:
        return {"regularization": alone} if alone else {}
    rows = [dict(zip(parts, map(value_of, values))) for values in product(*parts.values())]
    both = [{"user": one, "item": one, **row} for one in alone for row in rows]
    return {"regularization": both or rows}


def _triple(parts: list[str]) -> Any:
    """libFM's regular: one number for all, or those of the bias, of linear terms, of vectors."""
    if len(parts) == 1:
        return value_of(parts[0])
    return {**{name: value_of(parts[-1]) for name in VECTORS}, "bias": value_of(parts[-2])}


def _positives(given: Attributes) -> list[str]:
    """How events are visited, from WrapRec's two switches, each perhaps a list."""
    by_user, again = (unique(listed(given.get(name, "false").lower())) for name in SAMPLING)
    kinds = [
        "user" if user == "true" else "bootstrap" if replaced == "true" else "permutation"
        for user, replaced in product(by_user, again)
    ]
    return unique(kinds)


def _said(option: str, given: Attributes) -> str:
    """What the file says of an option here, in its words; nothing where it is a default."""
    theirs = {**OPTIONS, **dict.fromkeys([*SHARES, "Regularization"], "regularization"),
              **dict.fromkeys(SAMPLING, "positives")}  # fmt: skip
    return ", ".join(f"{name}={given[name]}" for name in given if theirs.get(name) == option)


def one_or_grid(values: list[Any]) -> Any:
    """A value, or a sweep over several."""
    return values[0] if len(values) == 1 else {"grid": values}


def value_of(text: str) -> Any:
    """A number or truth value where the text is one."""
    try:
        found = json.loads(text.lower())
    except (ValueError, RecursionError):
        return text
    plain = isinstance(found, int) or (isinstance(found, float) and isfinite(found))
    return found if plain else text


def unique(things: Iterable[str]) -> list[str]:
    """Each once, in order of first appearance."""
    return list(dict.fromkeys(things))
