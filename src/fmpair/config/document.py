"""The experiment file as one document: what it extends, what the command line changes, lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmpair.config.syntax import MOST_DEPTH, SYNTAXES, TOO_DEEP, KeyPath, parse_yaml
from fmpair.data.border import parsing
from fmpair.data.source import read_bytes
from fmpair.errors import ConfigError, DataError, listing

COMMAND_LINE = "command line"
MOST_BASES = 20  # files that a file may extend, one through the other


@dataclass(frozen=True)
class Origin:
    """Where a value stands; file None: on the command line."""

    file: Path | None
    line: int = 0

    def __str__(self) -> str:
        return COMMAND_LINE if self.file is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Document:
    """values: all files merged, as plain values; origins: where each key path, as text, stands."""

    path: Path
    values: Any
    origins: Mapping[tuple[str, ...], Origin]

    def origin(self, path: KeyPath) -> Origin:
        """Where the value stands, else the nearest thing around it."""
        keys = tuple(str(key) for key in path)
        for length in range(len(keys), -1, -1):
            if keys[:length] in self.origins:
                return self.origins[keys[:length]]
        return Origin(self.path, 1)

    def line(self, path: KeyPath) -> int:
        """The line of a key path such as ("models", 0, "factors"); 0 for the command line."""
        return self.origin(path).line

    def resolve(self, path: KeyPath, text: str) -> str:
        """A file named by the value, as an absolute path; relative to the file that names it."""
        file = self.origin(path).file
        return str((Path() if file is None else file.parent).absolute() / text)


def read(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """The file over those it extends, with `key=value` overrides put in.

    An override's key is a dotted path, `models.0.factors=8`; its value is YAML.
    """
    with parsing(f"{path} as an experiment file", refused):
        document = _with_bases(Path(path), ())
    mistakes: list[str] = []
    for text in overrides:
        try:
            document = _overridden(document, text)
        except ConfigError as error:
            mistakes += error.mistakes
    if mistakes:
        raise ConfigError(mistakes)
    return document


def refused(line: str) -> ConfigError:
    """What is wrong as the only mistake there is."""
    return ConfigError([line])


def _text(path: Path) -> str:
    try:
        return read_bytes(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise refused(
            f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8 text"
        ) from None


def _with_bases(path: Path, above: tuple[Path, ...]) -> Document:
    """above: the files that led here, to refuse a circle."""
    if path.suffix.lower() not in SYNTAXES:
        raise DataError(f"{path} is no experiment file: its name must end in {listing(SYNTAXES)}")
    if len(above) > MOST_BASES:
        raise ConfigError([f"{path}: more than {MOST_BASES} files extend each other"])
    parsed = SYNTAXES[path.suffix.lower()](_text(path), str(path))
    origins = {
        tuple(str(key) for key in keys): Origin(path, line) for keys, line in parsed.lines.items()
    }
    own = Document(path, parsed.values, origins)
    if not isinstance(own.values, dict) or "extends" not in own.values:
        return own
    base = own.values["extends"]
    here = own.origin(("extends",))
    if not isinstance(base, str):
        raise ConfigError([f"{here}: extends: must be the name of a file, not {base!r}"])
    target = path.parent / base
    chain = (*above, path)
    if target.resolve() in [file.resolve() for file in chain]:
        circle = " -> ".join(str(file) for file in (*chain, target))
        raise ConfigError([f"{here}: extends: files extend each other in a circle: {circle}"])
    try:
        return _merged(_with_bases(target, chain), own)
    except DataError as error:
        raise ConfigError([f"{here}: extends: {error}"]) from error


def _merged(base: Document, own: Document) -> Document:
    """Mappings merge, anything else of `own` takes the place of what `base` has.

    So does a mapping of another kind, whose options are others.
    """
    replaced: set[tuple[str, ...]] = set()

    def over(low: Any, high: Any, path: tuple[str, ...]) -> Any:
        both = isinstance(low, dict) and isinstance(high, dict)
        if both and high.get("kind", low.get("kind")) == low.get("kind"):
            joint = {key: over(low.get(key), one, (*path, key)) for key, one in high.items()}
            return {**low, **joint}
        replaced.add(path)
        return high

    kept = {key: value for key, value in own.values.items() if key != "extends"}
    values = over(base.values, kept, ())
    origins = {
        keys: origin
        for keys, origin in base.origins.items()
        if not any(keys[:length] in replaced for length in range(len(keys) + 1))
    }
    return Document(own.path, values, {**origins, **own.origins})


def _overridden(document: Document, text: str) -> Document:
    dotted, sign, value = text.partition("=")
    if not (dotted and sign):
        raise ConfigError([f"{COMMAND_LINE}: an override is key=value, not {text!r}"])
    path = tuple(dotted.split("."))
    if len(path) > MOST_DEPTH:
        raise ConfigError([f"{COMMAND_LINE}: {dotted[:60]} ...: {TOO_DEEP}"])
    try:
        parsed = parse_yaml(value, COMMAND_LINE)
    except ConfigError as error:
        raise ConfigError([f"{COMMAND_LINE}: {dotted}: {value!r} is no YAML value"]) from error
    origins = dict(document.origins)
    values = _put(document.values, path, parsed.values, dotted)
    _forget(origins, path)
    return Document(document.path, values, {**origins, path: Origin(None)})


def _put(container: Any, path: tuple[str, ...], value: Any, dotted: str) -> Any:
    """The container with the value at the path; containers on the way are copied."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(container, list):
        if key not in map(str, range(len(container))):
            wanted = f"a number from 0 to {len(container) - 1} must stand in place of '{key}'"
            raise ConfigError([f"{COMMAND_LINE}: {dotted}: {wanted}"])
        changed = list(container)
        changed[int(key)] = _put(container[int(key)], rest, value, dotted)
        return changed
    if isinstance(container, str):  # a model, split or protocol in short is its kind
        container = {"kind": container}
    if not isinstance(container, dict | None):
        raise ConfigError([f"{COMMAND_LINE}: {dotted}: {container!r} has no '{key}' in it"])
    old = container or {}
    return {**old, key: _put(old.get(key), rest, value, dotted)}


def _forget(origins: dict[tuple[str, ...], Origin], path: tuple[str, ...]) -> None:
    """Drop where a value and all within it stood."""
    for key in [key for key in origins if key[: len(path)] == path]:
        del origins[key]
