"""An experiment file as one document: files it extends merged, overrides applied, lines known.

The text of a file is YAML, JSON or TOML; every key keeps the number of its line.
"""

from __future__ import annotations

import json
import re
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from itertools import count
from pathlib import Path
from typing import Any

from fmpair.data.formats.source import parse_errors, read_bytes
from fmpair.errors import ConfigError, DataError, listing

KeyPath = tuple[str | int, ...]  # such as ("models", 0, "factors")

COMMAND_LINE = "command line"
MAX_BASES = 20  # files that extend each other
MAX_CHARACTERS = 200_000  # per file; a real one has some thousand
MAX_VALUES = 20_000  # per file; a value that aliases repeat counts each time
MAX_DEPTH = 40  # nesting of mappings and lists
LARGEST = 2**63 - 1  # whole number
TOO_MUCH = (
    f"more than {MAX_VALUES:,} values, counting those that aliases repeat: put long lists into "
    "files of their own"
)
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


@dataclass(frozen=True)
class Origin:
    """The position of a value; file None: on the command line."""

    file: Path | None
    line: int = 0

    def __str__(self) -> str:
        return COMMAND_LINE if self.file is None else f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Document:
    """values: all files merged, as plain values; origins: the position of each key path."""

    path: Path
    values: Any
    origins: Mapping[tuple[str, ...], Origin]

    def origin(self, path: KeyPath) -> Origin:
        """Return the position of a value, or of the nearest one around it."""
        keys = tuple(str(key) for key in path)
        for length in range(len(keys), -1, -1):
            if keys[:length] in self.origins:
                return self.origins[keys[:length]]
        return Origin(self.path, 1)

    def resolve(self, path: KeyPath, text: str) -> str:
        """Return a file name as an absolute path, relative to the file that the value is in."""
        file = self.origin(path).file
        return str((Path() if file is None else file.parent).absolute() / text)


def read(path: str | Path, overrides: Sequence[str] = ()) -> Document:
    """Read a file and those it extends, and apply `key=value` overrides.

    The key of an override is a dotted path, as in `models.0.factors=8`; its value is YAML.
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
    """Return an error with one mistake."""
    return ConfigError([line])


def _with_bases(path: Path, above: tuple[Path, ...]) -> Document:
    """Read a file and those it extends; above: the files that led here, to find a circle."""
    if path.suffix.lower() not in SYNTAXES:
        raise DataError(
            f"{path} is not an experiment file: its name must end in {listing(SYNTAXES)} (fmpair "
            "init writes one for a file of events)"
        )
    if len(above) > MAX_BASES:
        raise refused(f"{path}: more than {MAX_BASES} files extend each other")
    try:
        text = read_bytes(path).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = f"{path}: byte {error.start} is not UTF-8: save the file as UTF-8 text"
        raise refused(line) from None
    parsed = SYNTAXES[path.suffix.lower()](text, str(path))
    origins = {
        tuple(str(key) for key in keys): Origin(path, line) for keys, line in parsed.lines.items()
    }
    document = Document(path, parsed.values, origins)
    if not isinstance(document.values, dict) or "extends" not in document.values:
        return document
    base, here = document.values["extends"], document.origin(("extends",))
    if not isinstance(base, str):
        raise refused(f"{here}: extends: must be the name of a file, not {base!r}")
    target, chain = path.parent / base, (*above, path)
    if target.resolve() in [file.resolve() for file in chain]:
        circle = " -> ".join(str(file) for file in (*chain, target))
        raise refused(f"{here}: extends: files extend each other in a circle: {circle}")
    try:
        return _merged(_with_bases(target, chain), document)
    except DataError as error:
        raise refused(f"{here}: extends: {error}") from error


def _merged(base: Document, child: Document) -> Document:
    """Merge the mappings of two files; any other value of `child` replaces that of `base`.

    A mapping of another `kind` is replaced as a whole, since its options differ.
    """
    replaced: set[tuple[str, ...]] = set()

    def over(low: Any, high: Any, path: tuple[str, ...]) -> Any:
        both = isinstance(low, dict) and isinstance(high, dict)
        if both and high.get("kind", low.get("kind")) == low.get("kind"):
            joint = {key: over(low.get(key), value, (*path, key)) for key, value in high.items()}
            return {**low, **joint}
        replaced.add(path)
        return high

    child_values = {key: value for key, value in child.values.items() if key != "extends"}
    values = over(base.values, child_values, ())
    origins = {
        keys: origin
        for keys, origin in base.origins.items()
        if not any(keys[:length] in replaced for length in range(len(keys) + 1))
    }
    return Document(child.path, values, {**origins, **child.origins})


def _overridden(document: Document, text: str) -> Document:
    dotted, sign, value = text.partition("=")
    if not (dotted and sign):
        raise refused(f"{COMMAND_LINE}: an override is key=value, not {text!r}")
    path = tuple(dotted.split("."))
    if path[0] == "extends":  # the files are merged before anything is overridden
        raise refused(f"{COMMAND_LINE}: extends: must be in the file itself")
    if len(path) > MAX_DEPTH:
        raise refused(f"{COMMAND_LINE}: {dotted[:60]} ...: {TOO_DEEP}")
    try:
        parsed = parse_yaml(value, COMMAND_LINE)
    except ConfigError as error:
        raise refused(f"{COMMAND_LINE}: {dotted}: {value!r} is not a YAML value") from error
    values = _put(document.values, path, parsed.values, dotted)
    origins = {k: origin for k, origin in document.origins.items() if k[: len(path)] != path}
    return Document(document.path, values, {**origins, path: Origin(None)})


def _put(container: Any, path: tuple[str, ...], value: Any, dotted: str) -> Any:
    """Return a copy of the container with the value at the path."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(container, list):
        if key not in map(str, range(len(container))):
            last = len(container) - 1
            raise refused(f"{COMMAND_LINE}: {dotted}: '{key}' must be a number from 0 to {last}")
        changed = list(container)
        changed[int(key)] = _put(container[int(key)], rest, value, dotted)
        return changed
    if isinstance(container, str):  # the short form of a model, split or protocol is its kind
        container = {"kind": container}
    if not isinstance(container, dict | None):
        raise refused(f"{COMMAND_LINE}: {dotted}: {container!r} has no key '{key}'")
    old = container or {}
    return {**old, key: _put(old.get(key), rest, value, dotted)}


# The syntaxes: YAML, JSON, TOML.


@dataclass(frozen=True)
class Parsed:
    """Plain values (dict with text keys, list, text, number, bool, None) and their lines."""

    values: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)


UNALIGNED = "the indentation of this line differs from that of the lines above: align it with them"
YAML_MISTAKES = {  # part of the parser's message -> what is wrong in plain words
    "but found '<block": UNALIGNED,
    "expected '<document start>'": UNALIGNED,
    "but found '-'": "a list item among keys: indent it below its key, or remove the '-'",
    "but found '<scalar>'": "text after a value in quotes: put all of it in quotes",
    "mapping values are not allowed": "a key inside a value: align this line with the one above, "
    "or put a value with ': ' in quotes",
    r"found character '\t'": "a tab at the start: indent with spaces",
}


def parse_yaml(text: str, name: str, scalars: bool = True) -> Parsed:
    """Parse YAML 1.2: `no` and `on` are text, 1e-3 is a number. name: of the file, for messages.

    scalars: whether single values are wanted, and not only the lines of all keys.
    """
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    _check_size(text, name)
    reader = _yaml_reader()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about YAML 1.1, and repeated anchors
            lines: dict[KeyPath, int] = {}
            build = _Builder(name, lines, reader.constructor.construct_object if scalars else None)
            root = reader.compose(text)
            return Parsed(None if root is None else build.value(root, ()), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        known = (words for part, words in YAML_MISTAKES.items() if part in str(error.problem))
        raise _refusal(name, line, next(known, error.problem)) from error
    except YAMLError as error:
        raise _refusal(name, 1, str(error).splitlines()[0]) from error


def parse_json(text: str, name: str) -> Parsed:
    """Parse JSON; it is YAML too, which gives the lines."""
    _check_size(text, name)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refusal(name, error.lineno, error.msg) from error
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        raise _refusal(name, 1, TOO_DEEP if deep else str(error)) from error
    # A tab is white space in JSON, but not in YAML.
    lines = parse_yaml(text.replace("\t", " "), name, scalars=False).lines
    return Parsed(_plain(values, name, lines), lines)


def parse_toml(text: str, name: str) -> Parsed:
    """Parse TOML; a scan for headers and keys gives the lines."""
    _check_size(text, name)
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise _refusal(name, 1, TOO_DEEP) from error
    except ValueError as error:  # also of invalid numbers and dates
        what, _, position = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", position)
        raise _refusal(name, int(line[1]) if line else text.count("\n") + 1, what) from error
    lines = _toml_lines(text)
    return Parsed(_plain(values, name, lines), lines)


SYNTAXES: dict[str, Callable[[str, str], Parsed]] = {  # by suffix
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".json": parse_json,
    ".toml": parse_toml,
}


def _yaml_reader() -> Any:
    """Return a reader of plain values that stops at deep nesting."""
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import Composer, ComposerError

    class Shallow(Composer):
        nesting = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.nesting > MAX_DEPTH:
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


MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class _Builder:
    """Builds values and lines in one walk over the nodes of a YAML document."""

    name: str
    lines: dict[KeyPath, int]
    scalar: Callable[..., Any] | None
    number: Iterator[int] = field(default_factory=count)

    def value(self, node: Any, path: KeyPath, above: tuple[int, ...] = ()) -> Any:
        line = node.start_mark.line + 1
        if id(node) in above:
            raise _refusal(self.name, line, "an alias refers to a value that contains it")
        if next(self.number) >= MAX_VALUES:
            raise _refusal(self.name, line, TOO_MUCH)
        if len(above) > MAX_DEPTH:
            raise _refusal(self.name, line, TOO_DEEP)
        self.lines.setdefault(path, line)
        above = (*above, id(node))
        if node.id == "mapping":
            return self._mapping(node, path, above)
        if node.id == "sequence":
            return [self.value(item, (*path, n), above) for n, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _scalar(self, node: Any, path: KeyPath) -> Any:
        from ruamel.yaml.error import YAMLError

        if self.scalar is None:
            return None
        try:
            value = self.scalar(node, deep=True)
        except YAMLError:
            raise
        except Exception as error:  # the text does not fit its tag
            what = f"{node.value[:60]!r} is not a valid {str(node.tag).rpartition(':')[2]}"
            raise _refusal(self.name, node.start_mark.line + 1, what) from error
        return _plain(value, self.name, self.lines, path)

    def _mapping(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise _refusal(self.name, line, "a key must be text")
            if key.tag == MERGE:
                for part in value.value if value.id == "sequence" else [value]:
                    if part.id != "mapping":
                        raise _refusal(self.name, line, "<< takes a mapping or a list of mappings")
                    merged = {**self.value(part, path, above), **merged}
                continue
            if key.value in values:
                first = self.lines[(*path, key.value)]
                raise _refusal(
                    self.name, line, f"duplicate key {key.value!r}, first in line {first}"
                )
            self.lines[(*path, key.value)] = line
            values[key.value] = self.value(value, (*path, key.value), above)
        return {**merged, **values}


TOML_TABLE = re.compile(r"\s*+(?P<open>\[\[?)(?P<keys>[^\[\]]++)\]")
TOML_KEY = re.compile(r"""\s*+(?P<keys>(?:[\w.\- \t]++|"[^"]*+"|'[^']*+')++)=""")
TOML_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


def _toml_lines(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {(): 1}
    counts: dict[KeyPath, int] = {}  # number of tables so far in each array of tables
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
        elif entry := TOML_KEY.match(line):
            path = table
            for key in _toml_keys(entry["keys"]):
                path = (*path, key)
                lines.setdefault(path, number)
    return lines


def _toml_keys(text: str) -> Iterator[str]:
    for part in TOML_PART.finditer(text):
        yield next(group for group in part.groups() if group is not None)


def _plain(value: Any, name: str, lines: Mapping[KeyPath, int], path: KeyPath = ()) -> Any:
    """Return the value with dates as text; refuse values that JSON cannot represent."""
    wrong = ""
    if len(path) > MAX_DEPTH:
        wrong = TOO_DEEP
    elif isinstance(value, dict):
        keys = {_plain(key, name, lines, path): inner for key, inner in value.items()}
        return {key: _plain(inner, name, lines, (*path, key)) for key, inner in keys.items()}
    elif isinstance(value, list):
        return [_plain(inner, name, lines, (*path, n)) for n, inner in enumerate(value)]
    elif isinstance(value, str):
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            wrong = f"{value[:60]!r} contains an invalid character"
    elif isinstance(value, int) and abs(value) > LARGEST:
        wrong = f"a whole number must be at most {LARGEST:,}"
    elif isinstance(value, date | time):
        return value.isoformat()
    elif not isinstance(value, int | float | None):
        wrong = f"values of type {type(value).__name__} are not allowed"
    if wrong:
        known = (lines.get(path[:length]) for length in range(len(path), -1, -1))
        raise _refusal(name, next((line for line in known if line), 1), wrong)
    return value


def _check_size(text: str, name: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise _refusal(name, 1, f"the file has {len(text):,} characters, the limit is "
                       f"{MAX_CHARACTERS:,}: put long lists into files of their own")  # fmt: skip


def _refusal(name: str, line: int, what: str | None) -> ConfigError:
    return refused(f"{name}:{line}: {what or 'cannot be read'}")
