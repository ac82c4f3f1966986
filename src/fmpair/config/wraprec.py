"""A WrapRec configuration: its XML elements by id, with `{parameter}` put in everywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from fmpair.errors import DataError, UnknownError, unknown

Attributes = dict[str, str]


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
        """The only element of that tag and id."""
        every = list(self.root.iter(tag))
        for element in every:
            if self.attributes(element).get("id") == id:
                return element
        known = [self.attributes(element).get("id", "?") for element in every]
        raise UnknownError(f"{self.path.name}: {unknown(tag, id, known)}")

    def settings(self) -> Attributes:
        """What all experiments share: the attributes of <experiments>."""
        found = self.root.find("experiments")
        return {} if found is None else self.attributes(found)

    def experiments(self) -> list[Attributes]:
        """The experiments to be run, or all where the file does not choose."""
        every = [self.attributes(element) for element in self.root.iter("experiment")]
        chosen = listed(self.settings().get("run", ""))
        for id in chosen:
            if id not in (e.get("id") for e in every):
                known = [e.get("id", "?") for e in every]
                raise UnknownError(f"{self.path.name}: {unknown('experiment', id, known)}")
        return [e for e in every if not chosen or e.get("id") in chosen]

    def _filled(self, text: str) -> str:
        """The text with parameters put in, also those of parameters; an unknown one is refused."""

        def value(found: re.Match[str]) -> str:
            if found[1] not in self.parameters:
                what = unknown("parameter", found[1], self.parameters)
                raise UnknownError(f"{self.path.name}: {what}")
            return self.parameters[found[1]]

        for _ in range(len(self.parameters) + 1):
            filled = re.sub(r"\{([\w.-]+)\}", value, text)
            if filled == text:
                return text
            text = filled
        raise DataError(f"{self.path.name}: the parameters in {text!r} name each other in a circle")


def read_wraprec_config(path: str | Path, parameters: Mapping[str, str] | None = None) -> WrapRec:
    """The file; parameters given here go over those of the file, which must have them."""
    path = Path(path)
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except ElementTree.ParseError as error:
        raise DataError(f"{path} is not XML: {error}") from None
    if root.tag != "wraprec":
        raise DataError(f"{path} is not a WrapRec configuration: it begins with <{root.tag}>")
    own = {p.attrib["name"]: p.attrib.get("value", "") for p in root.iter("param")}
    for name in parameters or {}:
        if name not in own:
            raise UnknownError(f"{path.name}: {unknown('parameter', name, own)}")
    return WrapRec(root, {**own, **(parameters or {})}, path)


def listed(text: str) -> list[str]:
    """`a, b` as [a, b]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def class_name(text: str) -> str:
    """The last part of `Some.dll:Name.Space.Class`."""
    return text.rpartition(":")[2].rpartition(".")[2]
