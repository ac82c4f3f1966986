"""Migrate a WrapRec configuration to experiment files, with notes on what has no equivalent."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fmpair.config import wraprec_config as wraprec
from fmpair.config.model_section import MOST_MODELS
from fmpair.config.wraprec_config import Attributes, Notes, WrapRec, class_name, listed, note_lost
from fmpair.config.wraprec_models import FIELDS_OF_FM, model_of, unique
from fmpair.data.formats.source import parse_errors
from fmpair.errors import DataError, named, one_line

MOST_EXPERIMENTS = 100  # of one configuration
MOST_READERS = 100  # of one data container
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
                if len(files) >= MOST_EXPERIMENTS:
                    raise DataError(
                        f"{path} makes more than {MOST_EXPERIMENTS} experiments of splits and "
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
    values["data"] = wraprec.moved(values["data"], file.path.parent, folder, notes)
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
    if not 0 < len(ids) <= MOST_READERS:
        raise DataError(f"dataContainer {container.get('id')} has {len(ids)} readers: it must have "
                        f"1 to {MOST_READERS}")  # fmt: skip
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
    if len(ids) > MOST_MODELS:
        raise DataError(f"experiment {experiment.get('id')} has {len(ids):,} models, the limit is "
                        f"{MOST_MODELS:,}")  # fmt: skip
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
