"""The models of WrapRec, MyMediaLite and libFM, and their equivalents here."""

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
    """A kind here, with the options that make it the same model.

    defaults: of the other library, by its names; differs: in what the models are not the same.
    """

    kind: str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Attributes = field(default_factory=dict)
    differs: str = ""


IDS_ONLY: dict[str, list[str]] = {"context": [], "user_fields": [], "item_fields": []}
DECAY = "the learning rate decays to a tenth, MyMediaLite keeps it constant"
FACTORS = {"NumFactors": "10", "NumIter": "30", "InitStdDev": "0.1"}
RATINGS = {**FACTORS, "LearnRate": "0.01", "Regularization": "0.015"}
PAIRS = {
    **FACTORS, "LearnRate": "0.05", "RegU": "0.0025", "RegI": "0.0025", "RegJ": "0.00025",
    "BiasReg": "0", "UniformUserSampling": "true",
}  # fmt: skip
PLAIN_PAIRS = {"loss": "bpr", "final_rate_share": 1.0, "weights": "none"}
FM_MAP = Equivalent("fm-map", {"learner": "sgd"}, differs=DECAY)
BPR_MF = Equivalent("bpr-mf", {"item_bias": True, "weights": "none"}, PAIRS, DECAY)
LEVELS = Equivalent("fm-pair-levels", PLAIN_PAIRS, PAIRS)
WRMF = Equivalent(
    "implicit-als",
    {"frequency": 0},  # the same regularization for all vectors
    {"NumFactors": "10", "NumIter": "15", "Alpha": "1", "Regularization": "0.015"},
)

# By class, without its namespace.
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
    "ItemKNN": Equivalent("item-knn", defaults={"K": "80"}),
    "UserKNN": Equivalent("user-knn", defaults={"K": "80"}),
    "FM": FM_MAP,
    "WFM": FM_MAP,
    "MatrixFactorization": Equivalent(
        "fm", {"learner": "sgd", "linear": False, **IDS_ONLY}, RATINGS, DECAY
    ),
    "BiasedMatrixFactorization": Equivalent(
        "fm",
        {"learner": "sgd", **IDS_ONLY},
        {**RATINGS, "BiasReg": "0.01"},
        f"{DECAY}; ratings are predicted directly, MyMediaLite uses a sigmoid",
    ),
    "LibFmWrapper": Equivalent("fm", defaults={"dim": "1-1-8", "iter": "100", "method": "mcmc"}),
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
TRIPLES = ("dim", "regular")  # of libFM: global bias, linear terms, vectors


def model_of(id: str, outer: str, attributes: Attributes, notes: Notes) -> dict[str, Any] | None:
    """Return a model element as an entry of `models`; None where there is no equivalent."""
    name = class_name(attributes.get("ml-class", outer))
    if name not in MODELS:
        notes.append(f"model {id}: {name} has no equivalent and is left out")
        return None
    equivalent = MODELS[name]
    kind = equivalent.kind
    if equivalent.differs:
        notes.append(f"model {id}: {equivalent.differs}")
    options: dict[str, list[Any]] = {key: [value] for key, value in equivalent.fixed.items()}
    every = {
        key: text
        for key, text in {**equivalent.defaults, **attributes}.items()
        if key != "ml-class"
    }
    options |= _options(id, every, notes) | _regularization(id, kind, every, notes)
    if any(key in every for key in SAMPLING):
        options["positives"] = _positives(every)
    known = {*options_of(catalog.find(kind)).known, *IDS_ONLY}
    for key in [key for key in options if key not in known]:
        if options.pop(key) and (text := _in_file(key, attributes)):
            notes.append(f"model {id}: {kind} has no option for {text}")
    grids = {key: v[0] if len(v) == 1 else {"grid": v} for key, v in options.items()}
    return {"kind": kind, "name": id, **grids}


def _options(id: str, attributes: Attributes, notes: Notes) -> dict[str, list[Any]]:
    """Return the values of every option except regularization and sampling."""
    options: dict[str, list[Any]] = {}
    for name, text in attributes.items():
        values = [value_of(part) for part in listed(text)]
        if name in (*SAMPLING, *SHARES, "Regularization", "regular") or not values:
            continue
        if name in OPTIONS:
            options[OPTIONS[name]] = values
        elif name == "dim":
            options |= _sizes(id, [part.split("-") for part in listed(text)], notes)
        elif name == "task":
            options["task"] = [TASKS.get(text, text)]
        elif name == "save_model":
            notes.append(f"model {id}: save_model={text}: models are kept in the folder of the run")
        else:
            notes.append(f"model {id}: option {name}={text} has no equivalent")
    return options


def _sizes(id: str, triples: list[list[str]], notes: Notes) -> dict[str, list[Any]]:
    """Return the options of libFM's dim: global bias (0 or 1), linear terms (0 or 1), factors."""
    options: dict[str, list[Any]] = {"factors": [value_of(triple[-1]) for triple in triples]}
    if any(len(triple) == 3 and triple[0] == "0" for triple in triples):
        notes.append(f"model {id}: dim without a global bias: there always is one")
    linear = unique(str(len(triple) < 3 or triple[1] != "0") for triple in triples)
    if linear != ["True"]:
        options["linear"] = [text == "True" for text in linear]
        notes.append(f"model {id}: dim without linear terms needs learner: sgd")
    return options


def _regularization(
    id: str, kind: str, attributes: Attributes, notes: Notes
) -> dict[str, list[Any]]:
    """Return every combination of the regularization of users, items, negatives and biases."""
    parts = {SHARES[name]: listed(attributes[name]) for name in SHARES if name in attributes}
    if kind == "fm":
        parts.pop("negative", None)
    if "regular" in attributes:
        triples = [triple.split("-") for triple in listed(attributes["regular"])]
        if any(len(triple) > 1 for triple in triples):
            text = "its first number, of the global bias, is left out"
            notes.append(f"model {id}: regular={attributes['regular']}: {text}")
        return {"regularization": [_triple(triple) for triple in triples]}
    shared = [value_of(text) for text in listed(attributes.get("Regularization", ""))]
    if not parts:
        return {"regularization": shared} if shared else {}
    rows = [dict(zip(parts, map(value_of, values))) for values in product(*parts.values())]
    both = [{"user": value, "item": value, **row} for value in shared for row in rows]
    return {"regularization": both or rows}


def _triple(parts: list[str]) -> Any:
    """Return libFM's regular: one number, or those of global bias, linear terms and vectors."""
    if len(parts) == 1:
        return value_of(parts[0])
    return {**{name: value_of(parts[-1]) for name in VECTORS}, "bias": value_of(parts[-2])}


def _positives(attributes: Attributes) -> list[str]:
    """Return the order of events, from WrapRec's two switches, each maybe a list."""
    by_user, again = (unique(listed(attributes.get(name, "false").lower())) for name in SAMPLING)
    kinds = [
        "user" if user == "true" else "bootstrap" if replaced == "true" else "permutation"
        for user, replaced in product(by_user, again)
    ]
    return unique(kinds)


def _in_file(option: str, attributes: Attributes) -> str:
    """Return an option as the WrapRec file writes it, empty where it is a default."""
    theirs = {**OPTIONS, **dict.fromkeys([*SHARES, "Regularization"], "regularization"),
              **dict.fromkeys(SAMPLING, "positives")}  # fmt: skip
    return ", ".join(
        f"{name}={attributes[name]}" for name in attributes if theirs.get(name) == option
    )


def value_of(text: str) -> Any:
    """Return the number or truth value of a text, else the text."""
    try:
        value = json.loads(text.lower())
    except (ValueError, RecursionError):
        return text
    plain = isinstance(value, int) or (isinstance(value, float) and isfinite(value))
    return value if plain else text


def unique(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts, in order of first appearance."""
    return list(dict.fromkeys(texts))
