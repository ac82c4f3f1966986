"""WrapRec's configuration turned into experiment files, and a list of what has no equivalent."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fmpair.config.model_section import MOST_MODELS
from fmpair.config.wraprec_config import (
    Attributes,
    Notes,
    WrapRec,
    class_name,
    data_of,
    listed,
    moved,
    note_lost,
    number,
    path_of,
    protocols_of,
    read_wraprec_config,
)
from fmpair.config.wraprec_models import FIELDS_OF_FM, model_of, unique
from fmpair.data.formats.source import parse_errors
from fmpair.errors import DataError, named, one_line

# Any text as the name of a file, which never leads out of its folder.


LONGEST = 100  # characters
OTHER = re.compile(r"[^\w+,.-]+", re.ASCII)  # what some system would not have in a name
RESERVED = {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)),
            *(f"lpt{n}" for n in range(10))}  # fmt: skip


def file_name(text: str, taken: Collection[str] = ()) -> str:
    """A name that any system allows, and that none of those taken has.

    Letters of ASCII, digits and `_+-.,` stay as they are, anything else becomes a dash.
    """
    plain = OTHER.sub("-", text).strip("-.")[:LONGEST]
    if not plain or plain.partition(".")[0].lower() in RESERVED:
        plain = f"experiment-{plain}".rstrip("-")
    lower = {name.lower() for name in taken}  # some systems do not tell cases apart
    names = (plain if number == 1 else f"{plain}-{number}" for number in count(1))
    return next(name for name in names if name.lower() not in lower)


MOST_EXPERIMENTS = 100  # that one configuration is multiplied out into
MOST_READERS = 100  # of one data container
SPLIT_FIELDS = {
    "feedbackAttributes": "context",
    "userAttributes": "user_fields",
    "itemAttributes": "item_fields",
}
DEFAULT_FOLDS = "5"
SETTINGS = {
    "subFolder": "a run resumes in its folder, so there is none per start",
    "separator": "results are Parquet and CSV files with commas",
    "verbosity": "`fmpair run` says how far it is",
    "jointResults": "`fmpair compare RUN RUN` puts runs side by side",
}


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
        lines = [f"# Migrated from a WrapRec configuration. Run it: fmpair run '{self.name}.yaml'"]
        lines += (
            ["# Settings of the WrapRec file that are not, or not exactly, kept:"]
            if self.notes
            else []
        )
        # A note quotes the old file, whose line breaks must not end the comment.
        notes = [f"#   {one_line(note)}" for note in self.notes]
        return "\n".join([*lines, *notes, "", buffer.getvalue()])


def migrate(
    path: str | Path, parameters: Mapping[str, str] | None = None, folder: str | Path = "."
) -> list[Migrated]:
    """One experiment file per experiment, split and training share of a WrapRec file.

    folder: where the files will lie, to which the paths in them are relative.
    """
    with parse_errors(f"{path} as a WrapRec configuration"):
        file = read_wraprec_config(path, parameters)
        found: dict[str, Migrated] = {}
        for experiment in file.experiments():
            for words, split in _planned(file, experiment):
                name = file_name("-".join(words), found)
                if len(found) >= MOST_EXPERIMENTS:
                    raise DataError(
                        f"{path} makes more than {MOST_EXPERIMENTS} experiments of splits and "
                        f"shares: choose some with {named('run', ...)}"
                    )
                found[name] = _migrated(file, experiment, split, name, Path(folder))
    if not found:
        raise DataError(f"{path} names no experiment with models and splits")
    return list(found.values())


def _planned(file: WrapRec, experiment: Attributes) -> Iterator[tuple[list[str], Attributes]]:
    """The words of the name, and the split, for every split and training share."""
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
    notes: Notes = [f"element <{tag}> is left out" for tag in file.strange()]
    values = _values(file, experiment, split, notes)
    values["data"] = moved(values["data"], file.path.parent, folder, notes)
    for protocol in values.get("protocols", {}).values():
        if "items" in protocol:
            protocol["items"] = path_of(protocol["items"], file.path.parent, folder, notes)
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
    named = listed(container.get("dataReaders", ""))
    if not 0 < len(named) <= MOST_READERS:
        raise DataError(f"dataContainer {container.get('id')} names {len(named)} readers: it must "
                        f"have 1 to {MOST_READERS}")  # fmt: skip
    readers = [file.attributes(file.find("reader", id)) for id in named]
    static = split.get("type", "").lower() == "static"
    values: dict[str, Any] = {"data": data_of(file, readers, static, notes)}
    if container.get("allowDuplicates") != "true" and readers[0].get("dataType") != "ratings":
        values["filter"] = ["merge_duplicates"]
    values["split"] = _split(split, notes)
    values["models"] = _models(file, experiment, split, notes)
    values |= _judging(file, experiment, notes)
    return values | _running(file, experiment, notes)


def _split(split: Attributes, notes: Notes) -> dict[str, Any]:
    kind = split.get("type", "").lower()
    if "class" in split and class_name(split["class"]) != "FeedbackSimpleSplit":
        notes.append(f"split {split.get('id')}: class {class_name(split['class'])} is left out")
    if kind == "static":
        return {"kind": "given"}
    if kind in ("crossvalidation", "cv"):
        return {"kind": "folds", "count": number("numFolds", split.get("numFolds", DEFAULT_FOLDS))}
    if kind != "dynamic":
        notes.append(
            f"split {split.get('id')}: type={kind} has no equivalent: a quarter is the test set"
        )
    return {"kind": "holdout", "test": round(1 - _share(split.get("trainRatios") or "0.75"), 6)}


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1:
        raise DataError(f"trainRatios must be shares between 0 and 1, not {text[:60]!r}")
    return found


def _models(
    file: WrapRec, experiment: Attributes, split: Attributes, notes: Notes
) -> list[dict[str, Any]]:
    fields = {ours: listed(split.get(theirs, "")) for theirs, ours in SPLIT_FIELDS.items()}
    made: list[dict[str, Any]] = []
    named = listed(experiment.get("models", ""))
    if len(named) > MOST_MODELS:
        raise DataError(f"experiment {experiment.get('id')} has {len(named):,} models, and "
                        f"{MOST_MODELS:,} are the most")  # fmt: skip
    for id in named:
        element = file.find("model", id)
        note_lost("model", file.attributes(element), notes)
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
    note_lost("evalContext", file.attributes(context), notes)
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
        run["curve"] = number("multiEval", experiment["multiEval"])
    for name, text in settings.items():
        if name in SETTINGS and text.lower() != "false":
            notes.append(f"{name}={text}: {SETTINGS[name]}")
        elif name not in (*SETTINGS, "run", "resultsFolder", "parallel"):
            notes.append(f"experiments: {name}={text} has no equivalent")
    folder = settings.get("resultsFolder", "")
    if _leads_out(folder):
        notes.append(f"resultsFolder={folder} is left out: results go to runs/NAME")
        folder = ""
    return ({"run": run} if run else {}) | ({"results": folder} if folder else {})


def _leads_out(folder: str) -> bool:
    """Whether a folder of results is anywhere but below the one in which the file is run."""
    return (
        folder.startswith(("/", "~"))
        or bool({"\\", ":"} & set(folder))
        or (".." in folder.split("/"))
    )
