"""What WrapRec's evaluators are called here, and their options."""

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

# A WrapRec configuration: its XML elements by id, with `{parameter}` put in everywhere.


Attributes = dict[str, str]
Notes = list[str]

MOST_BYTES = 200_000  # of a configuration
LONGEST = 10_000  # characters of an attribute with all parameters put in
DEEPEST = 20  # parameters in parameters
TAGS = (
    "wraprec", "parameters", "param", "models", "model", "data", "dataReaders", "reader",
    "dataContainers", "dataContainer", "splits", "split", "evalContexts", "evalContext",
    "evaluator", "experiments", "experiment",
)  # fmt: skip
FIELDS = ("feedbackAttributes", "userAttributes", "itemAttributes")
# The attributes that are read; all others are named as lost.
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
    """The elements of the file; parameters: what stands for `{name}`."""

    root: ElementTree.Element
    parameters: Mapping[str, str]
    path: Path

    def attributes(self, element: ElementTree.Element) -> Attributes:
        """What an element says, names as they are written."""
        return {name: self._filled(text) for name, text in element.attrib.items()}

    def find(self, tag: str, id: str) -> ElementTree.Element:
        """The first element of that tag and id."""
        if (tag, id) not in self._by_id:
            known = [one for kind, one in self._by_id if kind == tag]
            raise UnknownError(f"{self.path.name}: {unknown(tag, id, known)}")
        return self._by_id[tag, id]

    @cached_property
    def _by_id(self) -> dict[tuple[str, str], ElementTree.Element]:
        found: dict[tuple[str, str], ElementTree.Element] = {}
        for element in self.root.iter():
            if "id" in element.attrib:
                found.setdefault((element.tag, self._filled(element.attrib["id"])), element)
        return found

    def settings(self) -> Attributes:
        """What all experiments share: the attributes of <experiments>."""
        found = self.root.find("experiments")
        return {} if found is None else self.attributes(found)

    def strange(self) -> list[str]:
        """The tags of elements that mean nothing in a WrapRec configuration."""
        return list(dict.fromkeys(e.tag for e in self.root.iter() if e.tag not in TAGS))

    def experiments(self) -> list[Attributes]:
        """The experiments to be run, or all where the file does not choose."""
        every = [self.attributes(element) for element in self.root.iter("experiment")]
        chosen = listed(self.settings().get("run", ""))
        known = dict.fromkeys(e.get("id", "?") for e in every)
        for id in chosen:
            if id not in known:
                raise UnknownError(f"{self.path.name}: {unknown('experiment', id, known)}")
        return [e for e in every if not chosen or e.get("id") in chosen]

    def _filled(self, text: str) -> str:
        """The text with parameters put in, also those of parameters; an unknown one is refused."""
        length = 0

        def value(found: re.Match[str]) -> str:
            nonlocal length
            if found[1] not in self.parameters:
                what = unknown("parameter", found[1], self.parameters)
                raise UnknownError(f"{self.path.name}: {what}")
            length += len(self.parameters[found[1]])
            self._check_length(text, length)
            return self.parameters[found[1]]

        for _ in range(min(len(self.parameters) + 1, DEEPEST)):
            length = len(text)
            self._check_length(text, length)
            filled = re.sub(r"\{([\w.-]+)\}", value, text)
            if filled == text:
                return text
            text = filled
        raise DataError(
            f"{self.path.name}: the parameters in {text[:60]!r} name each other in a circle, or "
            f"more than {DEEPEST} deep"
        )

    def _check_length(self, text: str, length: int) -> None:
        if length > LONGEST:
            raise DataError(
                f"{self.path.name}: {text[:60]!r} ... has more than {LONGEST:,} characters with "
                "all parameters put in: say less in one attribute"
            )


def read_wraprec_config(path: str | Path, parameters: Mapping[str, str] | None = None) -> WrapRec:
    """The file; parameters given here go over those of the file, which must have them."""
    path = Path(path)
    root = _root(path)
    if root.tag != "wraprec":
        raise DataError(f"{path} is not a WrapRec configuration: it begins with <{root.tag}>")
    own = {p.attrib.get("name", ""): p.attrib.get("value", "") for p in root.iter("param")}
    for name in parameters or {}:
        if name not in own:
            raise UnknownError(f"{path.name}: {unknown('parameter', name, own)}")
    return WrapRec(root, {**own, **(parameters or {})}, path)


def _root(path: Path) -> ElementTree.Element:
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > MOST_BYTES:
        raise DataError(f"{path} has more than {MOST_BYTES:,} bytes, which no configuration has")
    try:
        _refuse_entities(content, path)
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, expat.ExpatError, LookupError) as error:
        raise DataError(f"{path} is not XML: {error}") from None


def _refuse_entities(content: bytes, path: Path) -> None:
    """A document type may define entities that a few lines blow up to gigabytes."""

    def refuse(*_: object) -> None:
        raise DataError(f"{path} has a document type, which no configuration needs: delete it")

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(content, True)


def note_lost(tag: str, given: Attributes, notes: Notes) -> None:
    """Name what an element says and nobody reads."""
    for name, text in given.items():
        if name not in KNOWN[tag]:
            notes.append(f"{tag} {given.get('id', '?')}: {name}={text} has no equivalent")


def listed(text: str) -> list[str]:
    """`a, b` as [a, b]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def class_name(text: str) -> str:
    """The last part of `Some.dll:Name.Space.Class`."""
    return text.rpartition(":")[2].rpartition(".")[2]


# WrapRec's data readers as the section `data` of an experiment file.


TYPES = {"md": "multi-discrete", "r": "real", "b": "binary", "n": "ignored"}
TABLES = {"userattributes": "users", "itemattributes": "items"}
FEEDBACK = ("ratings", "posfeedback")
OTHER_ENCODING = "latin-1"  # of files that are not UTF-8; any byte is a character of it


def data_of(file: WrapRec, readers: list[Attributes], static: bool, notes: Notes) -> dict[str, Any]:
    """The section `data` of all readers of a container; static: its parts are given."""
    data: dict[str, Any] = {}
    for reader in readers:
        note_lost("reader", reader, notes)
        if class_name(reader.get("class", "CsvReader")) != "CsvReader":
            notes.append(f"reader {reader.get('id')}: class {class_name(reader['class'])} is read "
                         "as any delimited file")  # fmt: skip
        kind = reader.get("dataType", "").lower()
        if kind in TABLES:
            data[TABLES[kind]] = _table(file, reader, TABLES[kind].removesuffix("s"))
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


def moved(data: dict[str, Any], origin: Path, folder: Path, notes: Notes) -> dict[str, Any]:
    """Paths relative to the XML as paths relative to the folder of the new file."""
    out: dict[str, Any] = {
        name: path_of(data[name], origin, folder, notes)
        for name in ("path", "train", "test")
        if name in data
    }
    for name in TABLES.values():
        if name in data:
            path = path_of(data[name]["path"], origin, folder, notes)
            out[name] = {**data[name], "path": path}
    return {**out, **{name: value for name, value in data.items() if name not in out}}


def path_of(text: str, origin: Path, folder: Path, notes: Notes) -> str:
    """A path of the XML as one from the folder; a file that is not there is noted."""
    with suppress(OSError):  # such as a name that is too long
        if (origin / text).exists():
            return Path(os.path.relpath(origin / text, folder)).as_posix()
    notes.append(f"there is no file {text}: put the right path")
    return text


def _columns(file: WrapRec, reader: Attributes, rated: bool) -> dict[str, Any]:
    """How a file of feedback is read: the first columns are user, item and perhaps rating."""
    parts = ["user", "item", "rating"] if rated else ["user", "item"]
    options = _layout(file, reader)
    names = options.get("columns") or _header(file.path.parent / reader.get("path", ""), options)
    if names is None:  # no header anywhere: columns go by their number
        names = [f"column_{n}" for n in range(1, len(parts) + 1)]
    options |= dict(zip(parts, names))
    ignored = [n for n, kind in options.get("types", {}).items() if kind == "ignored"]
    options["context"] = [name for name in names[len(parts) :] if name not in ignored]
    return options


def _layout(file: WrapRec, reader: Attributes) -> dict[str, Any]:
    """Separator, encoding, names and types of a file."""
    headed = reader.get("hasHeader", "true").lower() != "false"
    options: dict[str, Any] = {"separator": reader.get("delimiter", ",").replace("\\t", "\t")}
    if not headed:
        options["header"] = False
    if not _is_utf8(file.path.parent / reader.get("path", "")):
        options["encoding"] = OTHER_ENCODING
    given = [part.partition(":") for part in listed(reader.get("header", ""))]
    types = {name: TYPES[kind] for name, _, kind in given if kind in TYPES}
    if given:
        options["columns"] = [name for name, _, _ in given]
    if types:
        options |= {"format": "wraprec", "types": types}
    return options


def _table(file: WrapRec, reader: Attributes, role: str) -> dict[str, Any]:
    """A file of attributes, whose first column is the id, whatever its name."""
    options = _layout(file, reader)
    if "columns" in options:
        options["columns"] = [role, *options["columns"][1:]]
    return {"path": reader.get("path", ""), **options}


def _is_utf8(path: Path) -> bool:
    """Whether a file is UTF-8 text, as it is taken to be where it is not there."""
    if not _is_there(path):
        return True
    try:
        read_bytes(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_there(path: Path) -> bool:
    with suppress(OSError):  # such as a name that is too long
        return path.is_file()
    return False


def _header(path: Path, options: dict[str, Any]) -> list[str] | None:
    """The names in the first line of a file that has them and is there."""
    if not options.get("header", True) or not _is_there(path):
        return None
    first = read_text(path, options.get("encoding", "utf-8")).split("\n", 1)[0].strip()
    return [name.strip() for name in first.split(guess_separator(first) or ",")]


MEASURES = ("precision", "recall", "map", "mrr", "ndcg")
ALONE = ("recall", "mrr", "ndcg")  # of one relevant item
EVALUATOR_ATTRIBUTES = ("class", "cutOffs", "numCandidates", "candidateItemsMode", "relevantItems")
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
        elif key not in (*EVALUATOR_ATTRIBUTES, "candidateItemsFile"):
            notes.append(f"evaluator {name}: {key}={text} has no equivalent")


def number(name: str, text: str) -> int:
    """The whole number that an attribute of that name says."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{name} must be a whole number, not {text[:60]!r}") from None
