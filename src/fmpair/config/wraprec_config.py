"""A WrapRec configuration: its XML elements; its readers and evaluators as sections of our file.

Attributes that have no equivalent are collected as notes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from fmpair.data.formats.delimited import guess_separator
from fmpair.data.formats.source import read_bytes, read_text
from fmpair.errors import DataError, UnknownError, unknown

Attributes = dict[str, str]
Notes = list[str]

MAX_BYTES = 200_000  # size of a configuration
LONGEST = 10_000  # characters of an attribute with all parameters substituted
DEEPEST = 20  # nesting of parameters
TAGS = (
    "wraprec", "parameters", "param", "models", "model", "data", "dataReaders", "reader",
    "dataContainers", "dataContainer", "splits", "split", "evalContexts", "evalContext",
    "evaluator", "experiments", "experiment",
)  # fmt: skip
FIELDS = ("feedbackAttributes", "userAttributes", "itemAttributes")
# The attributes that are read; the others are noted.
KNOWN = {
    "reader": ("id", "path", "sliceType", "dataType", "class", "hasHeader", "delimiter", "header"),
    "dataContainer": ("id", "dataReaders", "allowDuplicates"),
    "split": ("id", "type", "dataContainer", "trainRatios", "numFolds", "class", *FIELDS),
    "model": ("id", "class"),
    "experiment": ("id", "models", "splits", "evalContext", "multiEval"),
    "evalContext": ("id",),
}


@dataclass(frozen=True, eq=False)
class WrapRec:
    """The elements of the file; parameters: the values of `{name}` in attributes."""

    root: ElementTree.Element
    parameters: Mapping[str, str]
    path: Path

    def attributes(self, element: ElementTree.Element) -> Attributes:
        """Return the attributes of an element, with parameters substituted."""
        return {name: self._filled(text) for name, text in element.attrib.items()}

    def find(self, tag: str, id: str) -> ElementTree.Element:
        """Return the first element of a tag and id."""
        if (tag, id) not in self._by_id:
            raise self._unknown(tag, id, [name for kind, name in self._by_id if kind == tag])
        return self._by_id[tag, id]

    @cached_property
    def _by_id(self) -> dict[tuple[str, str], ElementTree.Element]:
        elements: dict[tuple[str, str], ElementTree.Element] = {}
        for element in self.root.iter():
            if "id" in element.attrib:
                elements.setdefault((element.tag, self._filled(element.attrib["id"])), element)
        return elements

    def settings(self) -> Attributes:
        """Return the attributes of <experiments>, which all experiments share."""
        element = self.root.find("experiments")
        return {} if element is None else self.attributes(element)

    def unknown_tags(self) -> list[str]:
        """Return the tags that are unknown in a WrapRec configuration."""
        return list(dict.fromkeys(e.tag for e in self.root.iter() if e.tag not in TAGS))

    def experiments(self) -> list[Attributes]:
        """Return the experiments that the attribute `run` selects, by default all."""
        every = [self.attributes(element) for element in self.root.iter("experiment")]
        chosen = listed(self.settings().get("run", ""))
        known = dict.fromkeys(e.get("id", "?") for e in every)
        for id in chosen:
            if id not in known:
                raise self._unknown("experiment", id, known)
        return [e for e in every if not chosen or e.get("id") in chosen]

    def _filled(self, text: str) -> str:
        """Return the text with parameters substituted, also inside parameters."""
        length = 0

        def value(name: re.Match[str]) -> str:
            nonlocal length
            if name[1] not in self.parameters:
                raise self._unknown("parameter", name[1], self.parameters)
            length += len(self.parameters[name[1]])
            self._check_length(text, length)
            return self.parameters[name[1]]

        for _ in range(min(len(self.parameters) + 1, DEEPEST)):
            length = len(text)
            self._check_length(text, length)
            filled = re.sub(r"\{([\w.-]+)\}", value, text)
            if filled == text:
                return text
            text = filled
        raise DataError(
            f"{self.path.name}: the parameters in {text[:60]!r} are circular or nested more than "
            f"{DEEPEST} levels deep"
        )

    def _check_length(self, text: str, length: int) -> None:
        if length > LONGEST:
            raise DataError(
                f"{self.path.name}: {text[:60]!r} ... has more than {LONGEST:,} characters with "
                "all parameters substituted: shorten the attribute"
            )

    def _unknown(self, what: str, name: str, known: Any) -> UnknownError:
        return UnknownError(f"{self.path.name}: {unknown(what, name, known)}")


def read_wraprec_config(path: str | Path, parameters: Mapping[str, str] | None = None) -> WrapRec:
    """Read the file; parameters: replace those of the file, which must have them."""
    path, parameters = Path(path), parameters or {}
    root = _root(path)
    if root.tag != "wraprec":
        raise DataError(f"{path} is not a WrapRec configuration: it begins with <{root.tag}>")
    defaults = {p.attrib.get("name", ""): p.attrib.get("value", "") for p in root.iter("param")}
    for name in parameters:
        if name not in defaults:
            raise UnknownError(f"{path.name}: {unknown('parameter', name, defaults)}")
    return WrapRec(root, {**defaults, **parameters}, path)


def _root(path: Path) -> ElementTree.Element:
    def refuse(*_: object) -> None:  # entities may expand a few lines to gigabytes
        raise DataError(f"{path} has a document type: delete it, WrapRec does not need one")

    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} is not a WrapRec configuration: more than {MAX_BYTES:,} bytes")
    try:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = refuse
        parser.Parse(content, True)
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, expat.ExpatError, LookupError) as error:
        raise DataError(f"{path} is not XML: {error}") from None


def note_lost(tag: str, attributes: Attributes, notes: Notes) -> None:
    """Note the attributes of an element that are not read."""
    for name, text in attributes.items():
        if name not in KNOWN[tag]:
            notes.append(f"{tag} {attributes.get('id', '?')}: {name}={text} has no equivalent")


def listed(text: str) -> list[str]:
    """Return the items of `a, b`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def class_name(text: str) -> str:
    """Return the last part of `Some.dll:Name.Space.Class`."""
    return text.rpartition(":")[2].rpartition(".")[2]


def number(name: str, text: str) -> int:
    """Return the whole number of an attribute."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{name} must be a whole number, not {text[:60]!r}") from None


# The data readers as the section `data`.

TYPES = {"md": "multi-discrete", "r": "real", "b": "binary", "n": "ignored"}
TABLES = {"userattributes": "users", "itemattributes": "items"}
FEEDBACK = ("ratings", "posfeedback")
OTHER_ENCODING = "latin-1"  # for files that are not UTF-8; it decodes any byte


def data_of(file: WrapRec, readers: list[Attributes], static: bool, notes: Notes) -> dict[str, Any]:
    """Return the section `data` of all readers; static: the data are split already."""
    data: dict[str, Any] = {}
    for reader in readers:
        note_lost("reader", reader, notes)
        name, kind = f"reader {reader.get('id')}", reader.get("dataType", "").lower()
        if class_name(reader.get("class", "CsvReader")) != "CsvReader":
            notes.append(f"{name}: class {class_name(reader['class'])} is read as a delimited file")
        if kind in TABLES:
            data[TABLES[kind]] = _table(file, reader, TABLES[kind].removesuffix("s"))
            continue
        if kind not in FEEDBACK:
            notes.append(f"{name}: dataType={kind} has no equivalent")
            continue
        part = reader.get("sliceType", "other").lower() if static else "path"
        if part in data:
            notes.append(f"{name}: second file for {part}: join the files")
            continue
        data[part] = reader.get("path", "")
        for option, value in _columns(file, reader, kind == "ratings").items():
            if data.setdefault(option, value) != value:
                notes.append(f"{name}: {option} differs from the first file's")
    return data


def with_relative_paths(
    data: dict[str, Any], origin: Path, folder: Path, notes: Notes
) -> dict[str, Any]:
    """Return the section with paths relative to the folder of the new file, not to the XML."""
    paths: dict[str, Any] = {}
    for name in ("path", "train", "test"):
        if name in data:
            paths[name] = path_of(data[name], origin, folder, notes)
    for name in TABLES.values():
        if name in data:
            path = path_of(data[name]["path"], origin, folder, notes)
            paths[name] = {**data[name], "path": path}
    return {**paths, **{name: value for name, value in data.items() if name not in paths}}


def path_of(text: str, origin: Path, folder: Path, notes: Notes) -> str:
    """Return a path of the XML relative to the folder; note a file that does not exist."""
    with suppress(OSError):  # the name may be too long
        if (origin / text).exists():
            return Path(os.path.relpath(origin / text, folder)).as_posix()
    notes.append(f"file {text} does not exist: correct the path")
    return text


def _columns(file: WrapRec, reader: Attributes, rated: bool) -> dict[str, Any]:
    """Return the options of a feedback file: its first columns are user, item, maybe rating."""
    parts = ["user", "item", "rating"] if rated else ["user", "item"]
    options = _layout(file, reader)
    names = options.get("columns") or _header(file.path.parent / reader.get("path", ""), options)
    if names is None:  # without any header columns are numbered
        names = [f"column_{n}" for n in range(1, len(parts) + 1)]
    options |= dict(zip(parts, names))
    ignored = [n for n, kind in options.get("types", {}).items() if kind == "ignored"]
    options["context"] = [name for name in names[len(parts) :] if name not in ignored]
    return options


def _layout(file: WrapRec, reader: Attributes) -> dict[str, Any]:
    """Return separator, encoding, names and types of a file."""
    options: dict[str, Any] = {"separator": reader.get("delimiter", ",").replace("\\t", "\t")}
    if reader.get("hasHeader", "true").lower() == "false":
        options["header"] = False
    path = file.path.parent / reader.get("path", "")
    if _exists(path):
        try:
            read_bytes(path).decode()
        except UnicodeDecodeError:
            options["encoding"] = OTHER_ENCODING
    columns = [part.partition(":") for part in listed(reader.get("header", ""))]
    types = {name: TYPES[kind] for name, _, kind in columns if kind in TYPES}
    if columns:
        options["columns"] = [name for name, _, _ in columns]
    if types:
        options |= {"format": "wraprec", "types": types}
    return options


def _table(file: WrapRec, reader: Attributes, role: str) -> dict[str, Any]:
    """Return the options of a file of attributes; its first column is the id."""
    options = _layout(file, reader)
    if "columns" in options:
        options["columns"] = [role, *options["columns"][1:]]
    return {"path": reader.get("path", ""), **options}


def _exists(path: Path) -> bool:
    with suppress(OSError):  # the name may be too long
        return path.is_file()
    return False


def _header(path: Path, options: dict[str, Any]) -> list[str] | None:
    """Return the names in the first line of a file, None if it has none or does not exist."""
    if not options.get("header", True) or not _exists(path):
        return None
    first = read_text(path, options.get("encoding", "utf-8")).split("\n", 1)[0].strip()
    return [name.strip() for name in first.split(guess_separator(first) or ",")]


# The evaluators as protocols and metrics.

MEASURES = ("precision", "recall", "map", "mrr", "ndcg")
SINGLE = ("recall", "mrr", "ndcg")  # for a single relevant item
EVALUATOR_ATTRIBUTES = ("class", "cutOffs", "numCandidates", "candidateItemsMode", "relevantItems")
EVALUATORS = {
    "RankingEvaluators": "user",
    "RankingEvaluatorsOpr": "interaction",
    "RankingEvaluatorsContextAware": "user-context",
    "RatingBasedRankingEvaluators": "user",
    "RatingBasedRankingEvaluatorsOpr": "interaction",
}


def protocols_of(attributes: Attributes, notes: Notes) -> tuple[dict[str, Any], list[str]]:
    """Return the protocols of an evaluator by label, and its metrics."""
    name = class_name(attributes.get("class", ""))
    _note_lost_of_evaluator(name, attributes, notes)
    if name in ("RMSE", "MAE"):
        return {}, [name.lower()]
    if name not in EVALUATORS:
        notes.append(f"evaluator {name} has no equivalent and is left out")
        return {}, []
    unit = EVALUATORS[name]
    label = {"user": "per user", "interaction": "one-plus-random"}.get(unit, "per user in context")
    protocols: dict[str, Any] = {}
    for count in listed(attributes.get("numCandidates", "max")):
        protocol = {"unit": unit, **_candidates(attributes, count, notes), "seen": "train+test"}
        if unit == "interaction":
            protocol["relevant"] = "distinct"
        protocols[f"{label} ({count} candidates)"] = protocol
    if attributes.get("relevantItems", "").lower() == "all":
        text = "relevantItems=all has no equivalent: test items are relevant"
        notes.append(f"evaluator {name}: {text}")
    measures = SINGLE if unit == "interaction" else MEASURES
    return protocols, [
        f"{m}@{cut}" for cut in listed(attributes.get("cutOffs", "10")) for m in measures
    ]


def _candidates(attributes: Attributes, count: str, notes: Notes) -> dict[str, Any]:
    mode = attributes.get("candidateItemsMode", "training").lower()
    if mode == "explicit":
        return {"candidates": "file", "items": attributes.get("candidateItemsFile", "")}
    if mode not in ("training", "union"):
        notes.append(f"candidateItemsMode={mode} has no equivalent: training items are ranked")
    if count != "max":
        notes.append(
            f"numCandidates={count}: WrapRec takes the first {count} training items, and so does "
            "candidates: first; candidates: uniform samples them"
        )
        return {"candidates": "first", "n": number("numCandidates", count)}
    return {"candidates": "all" if mode == "union" else "train"}


def _note_lost_of_evaluator(name: str, attributes: Attributes, notes: Notes) -> None:
    explicit = attributes.get("candidateItemsMode", "").lower() == "explicit"
    for key, text in attributes.items():
        if key == "candidateItemsFile" and not explicit:
            reason = "is left out: candidateItemsMode is not explicit"
            notes.append(f"evaluator {name}: {key}={text} {reason}")
        elif key not in (*EVALUATOR_ATTRIBUTES, "candidateItemsFile"):
            notes.append(f"evaluator {name}: {key}={text} has no equivalent")
