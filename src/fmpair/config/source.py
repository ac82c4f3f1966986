"""The section `data` of an experiment file: where events come from and how they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fmpair.config.experiment import Source
from fmpair.config.hint import parts_of
from fmpair.config.node import Node, one_line
from fmpair.config.option_schema import Options, generating, reading, sources
from fmpair.data import catalog
from fmpair.data.read import FORMATS, guess_format
from fmpair.data.source import find_file
from fmpair.errors import DataError, FmpairError, listing

FILES = ("path", "train", "validation", "test")
TABLES = ("users", "items", "impressions")
WAYS = ("path", "set", "generate", "train and test")


def read_source(place: Node) -> Source | None:
    """The source, None where it is not even clear which it is."""
    if not place.is_a(dict):
        return None
    ways = [way for way in ("path", "set", "generate") if way in place.value]
    parts = [part for part in ("train", "validation", "test") if part in place.value]
    if len(ways) + bool(parts) != 1:
        place.wrong(f"must have exactly one of {listing(WAYS)}")
        return None
    if parts and not {"train", "test"} <= set(parts):
        place.wrong("train and test go together: give both files")
        return None
    if "generate" in ways:
        return _generated(place)
    return _public(place) if "set" in ways else _files(place)


def _generated(place: Node) -> Source:
    place.holding({**place.value, "generate": {}}).options(
        Options({"generate": sources()["generate"]})
    )
    return Source(generate=place.at("generate").options(generating()))


def _public(place: Node) -> Source | None:
    name = place.at("set")
    if not (name.is_a(str) and name.is_in("data set", catalog.names())):
        return None
    options = _options(place, catalog.find(name.value).format, ("set",))
    return Source(set=name.value, options=options)


def _files(place: Node) -> Source:
    named = [name for name in FILES if name in place.value]
    files: dict[str, Any] = {name: _existing(place.at(name)) for name in named}
    first = files[named[0]]
    format = place.value.get("format")
    if format is None and first is not None:
        format = guess_format(first)
    if format is not None and format not in FORMATS:
        place.at("format").is_in("format", FORMATS)
        format = None
    return Source(**files, options=_options(place, format, FILES))


def _options(place: Node, format: str | None, skip: tuple[str, ...]) -> dict[str, Any]:
    """Those of the reader and of `Dataset.from_frame`, with the paths among them resolved."""
    known = reading(format)
    rest = {key: value for key, value in place.value.items() if key not in skip}
    good = place.holding(rest).options(known)
    for key in good:
        if key in TABLES:
            good[key] = _table(place.at(key))
        elif Path in parts_of(known.known[key].hint) and good[key] is not None:
            good[key] = _existing(place.at(key))
    return good


def _table(place: Node) -> Any:
    """A file of attributes, or a mapping of a path and the options of its reader."""
    if not isinstance(place.value, dict):
        return _existing(place)
    if "path" not in place.value:
        place.wrong("a table needs a path")
        return None
    return {**place.value, "path": _existing(place.at("path"))}


def _existing(place: Node) -> str | None:
    """The path of a file or folder that is there."""
    path = place.file()
    if path is None:
        return None
    try:
        return path if Path(path).is_dir() else str(find_file(Path(path)) and path)
    except DataError as error:
        place.wrong(one_line(error))
        return path


def has_own_parts(source: Source) -> bool:
    """Whether the data come with a training and a test set."""
    if source.set is None:
        return source.train is not None
    try:
        return catalog.find(source.set).test is not None
    except FmpairError:
        return False
