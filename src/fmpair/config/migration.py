"""Migrate a WrapRec configuration to experiment files, with notes on what has no equivalent."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, product
from math import isfinite
from pathlib import Path
from typing import Any

from fmpair.config import wraprec_config as wraprec
from fmpair.config.model_section import MAX_MODELS
from fmpair.config.option_schema import options_of
from fmpair.config.wraprec_config import Attributes, Notes, WrapRec, class_name, listed, note_lost
from fmpair.data.formats.source import parse_errors
from fmpair.errors import DataError, named, one_line
from fmpair.models import catalog

MAX_EXPERIMENTS = 100  # per configuration
MAX_READERS = 100  # per data container
SPLIT_FIELDS = {
    "feedbackAttributes": "context",
    "userAttributes": "user_fields",
    "itemAttributes": "item_fields",
}
DEFAULT_FOLDS = "5"
SETTINGS = {
    "subFolder": "a run resumes in its folder, so there is no folder per start",
    "separator": "results are Parquet files and CSV files with commas",
    "verbosity": "`fmpair run` shows its progress",
    "jointResults": "`fmpair compare RUN RUN` compares runs",
}


@dataclass(frozen=True)
class Migrated:
    """One experiment on one split: the name and values of its file, and notes on lost settings."""

    name: str
    values: Mapping[str, Any]
    notes: tuple[str, ...]

    def text(self) -> str:
        """Return the text of the experiment file, with the notes on top."""
        from ruamel.yaml import YAML

        writer = YAML()
        writer.default_flow_style = None
        writer.width = 120
        buffer = io.StringIO()
        writer.dump(dict(self.values), buffer)
        lines = [f"# Migrated from a WrapRec configuration. Run it: fmpair run '{self.name}.yaml'"]
        if self.notes:
            lines.append("# Settings of the WrapRec file without an exact equivalent:")
        # A note quotes the old file, whose line breaks must not end the comment.
        lines += [f"#   {one_line(note)}" for note in self.notes]
        return "\n".join([*lines, "", buffer.getvalue()])


def migrate(
    path: str | Path, parameters: Mapping[str, str] | None = None, folder: str | Path = "."
) -> list[Migrated]:
    """Return one experiment file per experiment, split and training share of a WrapRec file.

    parameters: override those of the file. folder: of the new files; paths are relative to it.
    """
    with parse_errors(f"{path} as a WrapRec configuration"):
        file = wraprec.read_wraprec_config(path, parameters)
        files: dict[str, Migrated] = {}
        for experiment in file.experiments():
            for words, split in _planned(file, experiment):
                name = file_name("-".join(words), files)
                if len(files) >= MAX_EXPERIMENTS:
                    raise DataError(
                        f"{path} makes more than {MAX_EXPERIMENTS} experiments of splits and "
                        f"shares: choose some with {named('run', ...)}"
                    )
                files[name] = _migrated(file, experiment, split, name, Path(folder))
    if not files:
        raise DataError(f"{path} has no experiment with models and splits")
    return list(files.values())


def _planned(file: WrapRec, experiment: Attributes) -> Iterator[tuple[list[str], Attributes]]:
    """Yield the words of the name, and the split, for every split and training share."""
    splits = listed(experiment.get("splits", ""))
    for id in splits:
        split = file.attributes(file.find("split", id))
        shares = listed(split.get("trainRatios", "")) or [""]
        for share in shares:
            words = [experiment.get("id", "experiment"), *([id] if len(splits) > 1 else [])]
            yield [*words, *([share] if len(shares) > 1 else [])], {**split, "trainRatios": share}


def _migrated(
    file: WrapRec, experiment: Attributes, split: Attributes, name: str, folder: Path
) -> Migrated:
    notes: Notes = [f"element <{tag}> is left out" for tag in file.unknown_tags()]
    values = _values(file, experiment, split, notes)
    values["data"] = wraprec.with_relative_paths(values["data"], file.path.parent, folder, notes)
    for protocol in values.get("protocols", {}).values():
        if "items" in protocol:
            protocol["items"] = wraprec.path_of(protocol["items"], file.path.parent, folder, notes)
    note_lost("experiment", experiment, notes)
    results = values.pop("results", "")
    output: dict[str, Any] = {"folder": f"{results}/{name}"} if results else {}
    output |= {"models": True} if any("save_model" in note for note in notes) else {}
    values |= {"output": output} if output else {}
    return Migrated(name, {"name": name, **values}, tuple(unique(notes)))


def _values(
    file: WrapRec, experiment: Attributes, split: Attributes, notes: Notes
) -> dict[str, Any]:
    container = file.attributes(file.find("dataContainer", split.get("dataContainer", "")))
    note_lost("dataContainer", container, notes)
    note_lost("split", split, notes)
    ids = listed(container.get("dataReaders", ""))
    if not 0 < len(ids) <= MAX_READERS:
        raise DataError(f"dataContainer {container.get('id')} has {len(ids)} readers: it must have "
                        f"1 to {MAX_READERS}")  # fmt: skip
    readers = [file.attributes(file.find("reader", id)) for id in ids]
    static = split.get("type", "").lower() == "static"
    values: dict[str, Any] = {"data": wraprec.data_of(file, readers, static, notes)}
    if container.get("allowDuplicates") != "true" and readers[0].get("dataType") != "ratings":
        values["filter"] = ["merge_duplicates"]
    values["split"] = _split(split, notes)
    values["models"] = _models(file, experiment, split, notes)
    values |= _evaluation(file, experiment, notes)
    return values | _running(file, experiment, notes)


def _split(split: Attributes, notes: Notes) -> dict[str, Any]:
    kind = split.get("type", "").lower()
    if "class" in split and class_name(split["class"]) != "FeedbackSimpleSplit":
        notes.append(f"split {split.get('id')}: class {class_name(split['class'])} is left out")
    if kind == "static":
        return {"kind": "given"}
    if kind in ("crossvalidation", "cv"):
        folds = split.get("numFolds", DEFAULT_FOLDS)
        return {"kind": "folds", "count": wraprec.number("numFolds", folds)}
    if kind != "dynamic":
        text = f"type={kind} has no equivalent: a quarter is the test set"
        notes.append(f"split {split.get('id')}: {text}")
    share, ratios = 0.0, split.get("trainRatios") or "0.75"
    with suppress(ValueError):
        share = float(ratios)
    if not 0 < share < 1:
        raise DataError(f"trainRatios must be shares between 0 and 1, not {ratios[:60]!r}")
    return {"kind": "holdout", "test": round(1 - share, 6)}


def _models(
    file: WrapRec, experiment: Attributes, split: Attributes, notes: Notes
) -> list[dict[str, Any]]:
    fields = {ours: listed(split.get(theirs, "")) for theirs, ours in SPLIT_FIELDS.items()}
    entries: list[dict[str, Any]] = []
    ids = listed(experiment.get("models", ""))
    if len(ids) > MAX_MODELS:
        raise DataError(f"experiment {experiment.get('id')} has {len(ids):,} models, the limit is "
                        f"{MAX_MODELS:,}")  # fmt: skip
    for id in ids:
        element = file.find("model", id)
        note_lost("model", file.attributes(element), notes)
        inner = element.find("parameters")
        parameters = {} if inner is None else file.attributes(inner)
        entry = model_of(id, file.attributes(element).get("class", ""), parameters, notes)
        if entry and entry["kind"] in FIELDS_OF_FM:
            entry = {**entry, **fields, **entry}
        entries += [entry] if entry else []
    if not entries:
        raise DataError(f"experiment {experiment.get('id')}: none of its models has an equivalent")
    return entries


def _evaluation(file: WrapRec, experiment: Attributes, notes: Notes) -> dict[str, Any]:
    protocols: dict[str, Any] = {}
    metrics: list[str] = []
    context = file.find("evalContext", experiment.get("evalContext", ""))
    note_lost("evalContext", file.attributes(context), notes)
    for evaluator in context.iter("evaluator"):
        more, names = wraprec.protocols_of(file.attributes(evaluator), notes)
        protocols |= more
        metrics += names
    rated = any(name in ("rmse", "mae") for name in metrics)
    if rated and all(p["unit"] != "interaction" for p in protocols.values()):
        protocols["ratings"] = {"unit": "interaction", "seen": "none"}
    return ({"protocols": protocols} if protocols else {}) | {"metrics": unique(metrics)}


def _running(file: WrapRec, experiment: Attributes, notes: Notes) -> dict[str, Any]:
    settings = file.settings()
    run: dict[str, Any] = {}
    if settings.get("parallel", "").lower() == "true":
        run["workers"] = 2
    if "multiEval" in experiment:
        run["curve"] = wraprec.number("multiEval", experiment["multiEval"])
    for name, text in settings.items():
        if name in SETTINGS and text.lower() != "false":
            notes.append(f"{name}={text}: {SETTINGS[name]}")
        elif name not in (*SETTINGS, "run", "resultsFolder", "parallel"):
            notes.append(f"experiments: {name}={text} has no equivalent")
    folder = settings.get("resultsFolder", "")
    outside = folder.startswith(("/", "~")) or ".." in folder.split("/")
    if outside or {"\\", ":"} & set(folder):  # not below the current folder
        notes.append(f"resultsFolder={folder} is left out: results go to runs/NAME")
        folder = ""
    return ({"run": run} if run else {}) | ({"results": folder} if folder else {})


# File names.

LONGEST = 100  # characters
OTHER = re.compile(r"[^\w+,.-]+", re.ASCII)  # characters that some systems do not allow
RESERVED = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)),
            *(f"lpt{n}" for n in range(10))}  # fmt: skip


def file_name(text: str, taken: Collection[str] = ()) -> str:
    """Return a file name that every system allows and that is not taken.

    ASCII letters, digits and `_+-.,` are kept; other characters become a dash.
    """
    plain = OTHER.sub("-", text).strip("-.")[:LONGEST]
    if not plain or plain.partition(".")[0].lower() in RESERVED:
        plain = f"experiment-{plain}".rstrip("-")
    lower = {name.lower() for name in taken}  # some systems ignore case
    names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
    return next(name for name in names if name.lower() not in lower)


# The models of WrapRec, MyMediaLite and libFM, and their equivalents here.


@dataclass(frozen=True)
class Equivalent:
    """A model of fmpair, with the options that make it equal to the WrapRec model.

    defaults: those of the other library, by its option names; differs: the remaining difference.
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
    """Return an option as the WrapRec file writes it, empty if the file does not set it."""
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
