"""The experiment file as one document: what it extends, what the command line changes, lines."""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from itertools import count
from pathlib import Path
from typing import Any

from fmpair.data.formats.source import parse_errors, read_bytes
from fmpair.errors import ConfigError, DataError, listing

# The text of one file as plain values, with the line of every key: YAML, JSON, TOML.


KeyPath = tuple[str | int, ...]

MOST_CHARACTERS = 200_000  # of a file; an experiment takes some thousand
MOST_VALUES = 20_000  # in a file, those that aliases repeat counted each time
MOST_DEPTH = 40  # of mappings and lists in each other
LARGEST = 2**63 - 1  # whole number
TOO_MUCH = (
    f"more than {MOST_VALUES:,} values, those that aliases repeat counted each time: say less, or "
    "put long lists into files of their own"
)
TOO_DEEP = f"this is nested more than {MOST_DEPTH} deep"

MERGE = "tag:yaml.org,2002:merge"
TOML_TABLE = re.compile(r"\s*+(?P<open>\[\[?)(?P<keys>[^\[\]]++)\]")
TOML_KEY = re.compile(r"""\s*+(?P<keys>(?:[\w.\- \t]++|"[^"]*+"|'[^']*+')++)=""")
TOML_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


@dataclass(frozen=True)
class Parsed:
    """Plain values (dict with text keys, list, text, number, truth value, None) and their lines."""

    values: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)


def parse_yaml(text: str, name: str) -> Parsed:
    """YAML 1.2: `no` and `on` are text, 1e-3 is a number. name: of the file, for messages."""
    return _from_yaml(text, name)


def _from_yaml(text: str, name: str, scalars: bool = True) -> Parsed:
    """scalars: whether single values are wanted too, and not only the lines of all keys."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _check_size(text, name)
    reader = _yaml_reader()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about YAML 1.1, and names that are given again
            lines: dict[KeyPath, int] = {}
            build = _Builder(name, lines, reader.constructor.construct_object if scalars else None)
            root = reader.compose(text)
            return Parsed(None if root is None else build.value(root, ()), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refusal(name, mark.line + 1 if mark else 1, error.problem) from error
    except YAMLError as error:
        raise _refusal(name, 1, str(error).splitlines()[0]) from error


def _yaml_reader() -> Any:
    """A reader of plain values that refuses deep nesting before it gets lost in it."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer, ComposerError

    class Shallow(Composer):
        nesting = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.nesting > MOST_DEPTH:
                mark = self.parser.peek_event().start_mark
                raise ComposerError(None, None, TOO_DEEP, mark)
            self.nesting += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.nesting -= 1

    reader = YAML(typ="safe", pure=True)
    reader.Composer = Shallow
    return reader


def parse_json(text: str, name: str) -> Parsed:
    """JSON; since it is YAML too, that gives the lines."""
    _check_size(text, name)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refusal(name, error.lineno, error.msg) from error
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        raise _refusal(name, 1, TOO_DEEP if deep else str(error)) from error
    # Where JSON has a tab it is white space, but YAML wants none.
    found = _from_yaml(text.replace("\t", " "), name, scalars=False)
    return replace(found, values=_plain(values, _Refuser(name, found.lines)))


def parse_toml(text: str, name: str) -> Parsed:
    """TOML; the lines are found by a scan for headers and keys."""
    _check_size(text, name)
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise _refusal(name, 1, TOO_DEEP) from error
    except ValueError as error:  # TOMLDecodeError, and numbers and dates that are none
        what, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        raise _refusal(name, int(line[1]) if line else text.count("\n") + 1, what) from error
    lines = _toml_lines(text)
    return Parsed(_plain(values, _Refuser(name, lines)), lines)


# How a file is read, by its suffix.
SYNTAXES: dict[str, Callable[[str, str], Parsed]] = {
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
    ".toml": parse_toml,
}


@dataclass(frozen=True)
class _Builder:
    """Values and lines in one walk over the nodes of a YAML document."""

    name: str
    lines: dict[KeyPath, int]
    scalar: Callable[..., Any] | None
    number: Iterator[int] = field(default_factory=count)

    def value(self, node: Any, path: KeyPath, above: tuple[int, ...] = ()) -> Any:
        line = node.start_mark.line + 1
        if id(node) in above:
            raise _refusal(self.name, line, "an alias stands inside itself")
        if next(self.number) >= MOST_VALUES:
            raise _refusal(self.name, line, TOO_MUCH)
        if len(above) > MOST_DEPTH:
            raise _refusal(self.name, line, TOO_DEEP)
        self.lines.setdefault(path, line)
        above = (*above, id(node))
        if node.id == "mapping":
            return self._mapping(node, path, above)
        if node.id == "sequence":
            return [self.value(one, (*path, n), above) for n, one in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: Any, path: KeyPath) -> Any:
        from ruamel.yaml.error import YAMLError

        if self.scalar is None:
            return None
        try:
            found = self.scalar(node, deep=True)
        except YAMLError:
            raise
        except Exception as error:  # what a tag makes of a text that is nothing of the kind
            what = f"{node.value[:60]!r} is no {str(node.tag).rpartition(':')[2]}"
            raise _refusal(self.name, node.start_mark.line + 1, what) from error
        return _plain(found, _Refuser(self.name, self.lines), path)

    def _mapping(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise _refusal(self.name, line, "a key must be text")
            if key.tag == MERGE:
                for one in value.value if value.id == "sequence" else [value]:
                    if one.id != "mapping":
                        raise _refusal(self.name, line, "<< takes a mapping, or a list of some")
                    merged = {**self.value(one, path, above), **merged}
                continue
            if key.value in own:
                first = self.lines[(*path, key.value)]
                raise _refusal(
                    self.name, line, f"key {key.value!r} is there already, in line {first}"
                )
            self.lines[(*path, key.value)] = line
            own[key.value] = self.value(value, (*path, key.value), above)
        return {**merged, **own}


def _toml_lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {(): 1}
    counts: dict[KeyPath, int] = {}  # of tables in each array of tables so far
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := TOML_TABLE.match(line):
            table = ()
            for key in _toml_keys(header["keys"]):
                table = (*table, counts[table] - 1, key) if table in counts else (*table, key)
            if header["open"] == "[[":
                counts[table] = counts.get(table, 0) + 1
                lines.setdefault(table, number)
            table = (*table, counts[table] - 1) if table in counts else table
            lines.setdefault(table, number)
        elif found := TOML_KEY.match(line):
            path = table
            for key in _toml_keys(found["keys"]):
                path = (*path, key)
                lines.setdefault(path, number)
    return lines


def _toml_keys(text: str) -> Iterator[str]:
    for part in TOML_PART.finditer(text):
        yield next(group for group in part.groups() if group is not None)


@dataclass(frozen=True)
class _Refuser:
    """Says where in a file something stands that cannot be."""

    name: str
    lines: dict[KeyPath, int]

    def __call__(self, path: KeyPath, what: str) -> ConfigError:
        known = (self.lines.get(path[:length]) for length in range(len(path), -1, -1))
        return _refusal(self.name, next((line for line in known if line), 1), what)


def _plain(value: Any, refusal: _Refuser, path: KeyPath = ()) -> Any:
    """Dates and times as text, which JSON can hold; what nothing can hold is refused."""
    if len(path) > MOST_DEPTH:
        raise refusal(path, TOO_DEEP)
    if isinstance(value, dict):
        named = {_plain(key, refusal, path): one for key, one in value.items()}
        return {key: _plain(one, refusal, (*path, key)) for key, one in named.items()}
    if isinstance(value, list):
        return [_plain(one, refusal, (*path, n)) for n, one in enumerate(value)]
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise refusal(path, f"{value[:60]!r} holds a character that no file can hold")
        return value
    if isinstance(value, int) and abs(value) > LARGEST:
        raise refusal(path, f"a whole number must be at most {LARGEST:,}")
    if isinstance(value, date | time):
        return value.isoformat()
    if not isinstance(value, int | float | None):
        raise refusal(path, f"{type(value).__name__} is no kind of value that can stand here")
    return value


def _check_size(text: str, name: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise _refusal(name, 1, f"the file has {len(text):,} characters, and {MOST_CHARACTERS:,} "
                       "are the most: put long lists into files of their own")  # fmt: skip


def _refusal(name: str, line: int, what: str | None) -> ConfigError:
    return ConfigError([f"{name}:{line}: {what or 'this cannot be read'}"])


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
    with parse_errors(f"{path} as an experiment file", refused):
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
