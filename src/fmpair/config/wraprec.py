"""A WrapRec configuration: its XML elements by id, with `{parameter}` put in everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree
from xml.parsers import expat

from fmpair.errors import DataError, UnknownError, unknown

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
