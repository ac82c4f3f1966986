"""WrapRec's configuration turned into experiment files, and a list of what has no equivalent."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmpair.config.wraprec import (
    Attributes,
    WrapRec,
    class_name,
    listed,
    read_wraprec_config,
)
from fmpair.config.wraprec_names import FIELDS_OF_FM, Notes, model_of, protocols_of, unique
from fmpair.data.delimited import guess_separator
from fmpair.data.source import read_text
from fmpair.errors import DataError

TYPES = {"md": "multi-discrete", "r": "real", "b": "binary", "n": "ignored"}
TABLES = {"userattributes": "users", "itemattributes": "items"}
FEEDBACK = ("ratings", "posfeedback")
SPLIT_FIELDS = {
    "feedbackAttributes": "context",
    "userAttributes": "user_fields",
    "itemAttributes": "item_fields",
}
DEFAULT_FOLDS = 5


@dataclass(frozen=True)
class Migrated:
    """One experiment on one split: its file's name and values, and what could not be kept."""

    name: str
    values: Mapping[str, Any]
    notes: tuple[str, ...]

    def text(self) -> str:
        """The experiment file, with the notes on top."""
        from ruamel.yaml import YAML

        writer = YAML()
        writer.default_flow_style = None
        writer.width = 120
        buffer = io.StringIO()
        writer.dump(dict(self.values), buffer)
        lines = [f"# Migrated from a WrapRec configuration. Run it: fmpair run {self.name}.yaml"]
        lines += (
            ["# Settings of the WrapRec file that are not, or not exactly, kept:"]
            if self.notes
            else []
        )
        return "\n".join([*lines, *(f"#   {note}" for note in self.notes), "", buffer.getvalue()])


def migrate(
    path: str | Path, parameters: Mapping[str, str] | None = None, folder: str | Path = "."
) -> list[Migrated]:
    """One experiment file per experiment, split and training share of a WrapRec file.

    folder: where the files will lie, to which the paths in them are relative.
    """
    file = read_wraprec_config(path, parameters)
    found = [
        one
        for experiment in file.experiments()
        for one in _experiments(file, experiment, Path(folder))
    ]
    if not found:
        raise DataError(f"{path} names no experiment with models and splits")
    return found


def _experiments(file: WrapRec, experiment: Attributes, folder: Path) -> list[Migrated]:
    made = []
    splits = listed(experiment.get("splits", ""))
    for id in splits:
        split = file.attributes(file.find("split", id))
        shares = listed(split.get("trainRatios", "")) or [""]
        for share in shares:
            name = "-".join(
                [experiment.get("id", "experiment")]
                + ([id] if len(splits) > 1 else [])
                + ([share] if len(shares) > 1 else [])
            )
            notes: Notes = []
            values = _values(file, experiment, {**split, "trainRatios": share}, notes)
            values["data"] = _moved(values["data"], file.path.parent, folder, notes)
            made.append(Migrated(name, {"name": name, **values}, tuple(unique(notes))))
    return made


def _values(
    file: WrapRec, experiment: Attributes, split: Attributes, notes: Notes
) -> dict[str, Any]:
    container = file.attributes(file.find("dataContainer", split.get("dataContainer", "")))
    readers = [file.attributes(file.find("reader", r)) for r in listed(container["dataReaders"])]
    static = split.get("type", "").lower() == "static"
    values: dict[str, Any] = {"data": _data(file, readers, static, notes)}
    if container.get("allowDuplicates") != "true" and readers[0].get("dataType") != "ratings":
        values["filter"] = ["merge_duplicates"]
    values["split"] = _split(split, notes)
    values["models"] = _models(file, experiment, split, notes)
    values |= _judging(file, experiment, notes)
    return values | _running(file, experiment, notes)


def _data(file: WrapRec, readers: list[Attributes], static: bool, notes: Notes) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for reader in readers:
        kind = reader.get("dataType", "").lower()
        if kind in TABLES:
            data[TABLES[kind]] = _table(reader, TABLES[kind].removesuffix("s"))
            continue
        if kind not in FEEDBACK:
            notes.append(f"reader {reader.get('id')}: dataType={kind} has no equivalent")
            continue
        part = reader.get("sliceType", "other").lower() if static else "path"
        if part in data:
            notes.append(f"reader {reader.get('id')}: a second file for {part}: join the files")
            continue
        data[part] = reader.get("path", "")
        for name, value in _columns(file, reader, kind == "ratings").items():
            if data.setdefault(name, value) != value:
                notes.append(f"reader {reader.get('id')}: another {name} than the first file's")
    return data


def _moved(data: dict[str, Any], origin: Path, folder: Path, notes: Notes) -> dict[str, Any]:
    """Paths relative to the XML as paths relative to the folder of the new file."""

    def moved(text: str) -> str:
        if (origin / text).exists():
            return Path(os.path.relpath(origin / text, folder)).as_posix()
        notes.append(f"there is no file {text}: put the right path")
        return text

    out: dict[str, Any] = {
        name: moved(data[name]) for name in ("path", "train", "test") if name in data
    }
    for name in TABLES.values():
        if name in data:
            out[name] = {**data[name], "path": moved(data[name]["path"])}
    return {**out, **{name: value for name, value in data.items() if name not in out}}


def _columns(file: WrapRec, reader: Attributes, rated: bool) -> dict[str, Any]:
    """How a file of feedback is read: the first columns are user, item and perhaps rating."""
    parts = ["user", "item", "rating"] if rated else ["user", "item"]
    options = _layout(reader)
    names = options.get("columns") or _header(file.path.parent / reader.get("path", ""), reader)
    if names is None:  # no header anywhere: columns go by their number
        names = [f"column_{n}" for n in range(1, len(parts) + 1)]
    options |= dict(zip(parts, names))
    ignored = [n for n, kind in options.get("types", {}).items() if kind == "ignored"]
    options["context"] = [name for name in names[len(parts) :] if name not in ignored]
    return options


def _layout(reader: Attributes) -> dict[str, Any]:
    """Separator, names and types of a file."""
    headed = reader.get("hasHeader", "true").lower() != "false"
    options: dict[str, Any] = {"separator": reader.get("delimiter", ",").replace("\\t", "\t")}
    if not headed:
        options["header"] = False
    given = [part.partition(":") for part in listed(reader.get("header", ""))]
    types = {name: TYPES[kind] for name, _, kind in given if kind in TYPES}
    if given:
        options["columns"] = [name for name, _, _ in given]
    if types:
        options |= {"format": "wraprec", "types": types}
    return options


def _table(reader: Attributes, role: str) -> dict[str, Any]:
    """A file of attributes, whose first column is the id, whatever its name."""
    options = _layout(reader)
    if "columns" in options:
        options["columns"] = [role, *options["columns"][1:]]
    return {"path": reader.get("path", ""), **options}


def _header(path: Path, reader: Attributes) -> list[str] | None:
    """The names in the first line of a file that has them and is there."""
    if reader.get("hasHeader", "true").lower() == "false" or not path.is_file():
        return None
    first = read_text(path).split("\n", 1)[0].strip()
    return [name.strip() for name in first.split(guess_separator(first) or ",")]


def _split(split: Attributes, notes: Notes) -> dict[str, Any]:
    kind = split.get("type", "").lower()
    if "class" in split and class_name(split["class"]) != "FeedbackSimpleSplit":
        notes.append(f"split {split.get('id')}: class {class_name(split['class'])} is left out")
    if kind == "static":
        return {"kind": "given"}
    if kind in ("crossvalidation", "cv"):
        return {"kind": "folds", "count": int(split.get("numFolds", DEFAULT_FOLDS))}
    if kind != "dynamic":
        notes.append(
            f"split {split.get('id')}: type={kind} has no equivalent: a quarter is the test set"
        )
    return {"kind": "holdout", "test": round(1 - float(split.get("trainRatios") or 0.75), 6)}


def _models(
    file: WrapRec, experiment: Attributes, split: Attributes, notes: Notes
) -> list[dict[str, Any]]:
    fields = {ours: listed(split.get(theirs, "")) for theirs, ours in SPLIT_FIELDS.items()}
    made = []
    for id in listed(experiment.get("models", "")):
        element = file.find("model", id)
        inner = element.find("parameters")
        given = {} if inner is None else file.attributes(inner)
        entry = model_of(id, file.attributes(element).get("class", ""), given, notes)
        if entry and entry["kind"] in FIELDS_OF_FM:
            entry = {**entry, **fields, **entry}
        made += [entry] if entry else []
    if not made:
        raise DataError(f"experiment {experiment.get('id')}: none of its models has an equivalent")
    return made


def _judging(file: WrapRec, experiment: Attributes, notes: Notes) -> dict[str, Any]:
    protocols: dict[str, Any] = {}
    metrics: list[str] = []
    context = file.find("evalContext", experiment.get("evalContext", ""))
    for evaluator in context.iter("evaluator"):
        found, names = protocols_of(file.attributes(evaluator), notes)
        protocols |= found
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
        run["curve"] = int(experiment["multiEval"])
    if settings.get("subFolder", "").lower() == "true":
        notes.append("subFolder=true: a run resumes in its folder, so there is none per start")
    if "jointResults" in settings:
        notes.append("jointResults: `fmpair compare RUN RUN` puts runs side by side")
    folder = settings.get("resultsFolder")
    output = {"output": {"folder": f"{folder}/{experiment.get('id')}"}} if folder else {}
    return ({"run": run} if run else {}) | output
