"""The text of one file as plain values, with the line of every key: YAML, JSON, TOML."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, time
from typing import Any

from fmpair.errors import ConfigError

KeyPath = tuple[str | int, ...]

MERGE = "tag:yaml.org,2002:merge"
TOML_TABLE = re.compile(r"\s*(?P<open>\[\[?)(?P<keys>[^\[\]]+)\]")
TOML_KEY = re.compile(r"""\s*(?P<keys>(?:[\w.\- ]|"[^"]*"|'[^']*')+?)\s*=""")
TOML_PART = re.compile(r""""([^"]*)"|'([^']*)'|([\w-]+)""")


@dataclass(frozen=True)
class Parsed:
    """Plain values (dict with text keys, list, text, number, truth value, None) and their lines."""

    values: Any
    lines: dict[KeyPath, int] = field(default_factory=dict)


def parse_yaml(text: str, name: str) -> Parsed:
    """YAML 1.2: `no` and `on` are text, 1e-3 is a number. name: of the file, for messages."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader = YAML(typ="safe", pure=True)
    try:
        lines: dict[KeyPath, int] = {}
        build = _Builder(name, lines, reader.constructor.construct_object)
        root = reader.compose(text)
        return Parsed(None if root is None else build.value(root, ()), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refusal(name, mark.line + 1 if mark else 1, error.problem) from error
    except YAMLError as error:
        raise _refusal(name, 1, str(error).splitlines()[0]) from error


def parse_json(text: str, name: str) -> Parsed:
    """JSON; since it is YAML too, that gives the lines."""
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise _refusal(name, error.lineno, error.msg) from error
    # Where JSON has a tab it is white space, but YAML wants none.
    return replace(parse_yaml(text.replace("\t", " "), name), values=values)


def parse_toml(text: str, name: str) -> Parsed:
    """TOML; the lines are found by a scan for headers and keys."""
    try:
        return Parsed(_plain(tomllib.loads(text)), _toml_lines(text))
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).partition(" (at ")
        line = re.search(r"line (\d+)", place)
        raise _refusal(name, int(line[1]) if line else text.count("\n") + 1, what) from error


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
    scalar: Callable[..., Any]

    def value(self, node: Any, path: KeyPath, above: tuple[int, ...] = ()) -> Any:
        if id(node) in above:
            raise _refusal(self.name, node.start_mark.line + 1, "an alias stands inside itself")
        self.lines.setdefault(path, node.start_mark.line + 1)
        above = (*above, id(node))
        if node.id == "mapping":
            return self._mapping(node, path, above)
        if node.id == "sequence":
            return [self.value(one, (*path, n), above) for n, one in enumerate(node.value)]
        return _plain(self.scalar(node, deep=True))

    def _mapping(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if key.id != "scalar":
                raise _refusal(self.name, line, "a key must be text")
            if key.tag == MERGE:
                for one in value.value if value.id == "sequence" else [value]:
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


def _plain(value: Any) -> Any:
    """Dates and times as text, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, date | time) else value


def _refusal(name: str, line: int, what: str | None) -> ConfigError:
    return ConfigError([f"{name}:{line}: {what or 'this cannot be read'}"])
