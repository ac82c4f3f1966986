"""A value of an experiment file, with its position and the mistakes found so far."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fmpair.checks import unknown_option
from fmpair.config.document import COMMAND_LINE, Document, KeyPath
from fmpair.config.option_schema import Options, fits, words
from fmpair.errors import ConfigError, FmpairError, in_file, listing, spelled, unknown

Made = TypeVar("Made")
MAX_MISTAKES = 100  # reported together
SHOWN = 60  # characters of an override


@dataclass
class Mistakes:
    """The distinct mistakes of a document."""

    document: Document
    entries: dict[tuple[KeyPath, str], None] = field(default_factory=dict)

    def add(self, path: KeyPath, text: str) -> None:
        self.entries[path, spelled(text, in_file)] = None
        if len(self.entries) >= MAX_MISTAKES:
            raise ConfigError([*self.lines(), f"{MAX_MISTAKES} mistakes: reading stops here"])

    def lines(
        self, overrides: Sequence[str] = (), alone: Container[tuple[KeyPath, str]] = ()
    ) -> list[str]:
        """Return one line per mistake: this file's first, then extended files, then overrides.

        alone: the mistakes of the files without the overrides, which are to blame for all others.
        """
        rows = []
        for path, text in self.entries:
            origin = self.document.origin(path)
            file, place = str(origin.file or ""), str(origin)
            if file and overrides and (path, text) not in alone:
                file, place = "", f"{COMMAND_LINE}, {_nearest(overrides, path)}"
            key = f"{'.'.join(map(str, path))}: " if path else ""
            rows.append((file, origin.line, f"{place}: {key}{text}"))
        main = str(self.document.path)
        rows.sort(key=lambda row: (row[0] == "", row[0] != main, row[0], row[1]))
        return [line for _, _, line in rows]

    def check(self) -> None:
        """Raise ConfigError if there are any."""
        if self.entries:
            raise ConfigError(self.lines())


def _nearest(overrides: Sequence[str], path: KeyPath) -> str:
    """Return the overrides that share most keys with a path, as typed."""
    keys = [str(key) for key in path]

    def shared(override: str) -> int:
        theirs = override.partition("=")[0].split(".")
        return next((n for n, pair in enumerate(zip(keys, theirs)) if pair[0] != pair[1]),
                    min(len(keys), len(theirs)))  # fmt: skip

    most = max(map(shared, overrides))
    nearest = (override for override in overrides if shared(override) == most)
    return " ".join(each if len(each) <= SHOWN else f"{each[:SHOWN]} ..." for each in nearest)


@dataclass(frozen=True)
class Node:
    """A value of the document. A mistake is recorded and reading continues."""

    mistakes: Mistakes
    value: Any
    path: KeyPath = ()

    def at(self, key: str | int) -> Node:
        """Return the node of a key of a mapping (None if missing) or a position of a list."""
        value = self.value.get(key) if isinstance(self.value, dict) else self.value[key]
        return Node(self.mistakes, value, (*self.path, key))

    def holding(self, value: Any) -> Node:
        """Return a node at the same position with another value."""
        return replace(self, value=value)

    def wrong(self, text: str) -> None:
        """Record a mistake at this position."""
        self.mistakes.add(self.path, text)

    def is_a(self, hint: Any) -> bool:
        """Return whether the value has the type; record a mistake if not."""
        if fits(self.value, hint):
            return True
        self.wrong(f"must be {words(hint)}, not {shown(self.value)}")
        return False

    def is_in(self, what: str, known: Iterable[str]) -> bool:
        """Return whether the value is one of the known names; record a mistake if not."""
        names = list(known)
        if self.value in names:
            return True
        self.wrong(unknown(what, self.value, names))
        return False

    def passes(self, check: Callable[..., Any], *arguments: Any) -> bool:
        """Return whether check(*arguments) raises no error; record a mistake if it does."""
        try:
            check(*arguments)
        except FmpairError as error:
            self.wrong(one_line(error))
            return False
        return True

    def items(self) -> list[Node]:
        """Return the nodes of a list; record a mistake if the value is not a list."""
        if isinstance(self.value, str | int | float) and not isinstance(self.value, bool):
            self.wrong(f"must be a list, such as [{self.value}], not {shown(self.value)}")
            return []
        return [self.at(n) for n in range(len(self.value))] if self.is_a(list) else []

    def file(self) -> str | None:
        """Return the named file as an absolute path, relative to the file that names it."""
        return self.mistakes.document.resolve(self.path, self.value) if self.is_a(str) else None

    def options(self, options: Options, what: str = "option") -> dict[str, Any]:
        """Return the values that are known and of the right type; record mistakes of the others."""
        if not self.is_a(dict):
            return {}
        valid = {}
        for key, value in self.value.items():
            if key not in options.known and not options.open:
                self.at(key).wrong(unknown_option(key, options.known, what))
            elif key not in options.known or self.at(key).is_a(options.known[key].hint):
                valid[key] = value
        missing = [name for name in options.required if name not in self.value]
        if missing:
            self.wrong(f"{listing(missing)} must be given")
        return valid

    def attempt(
        self, make: Callable[..., Made], options: Options, values: Mapping[str, Any]
    ) -> Made | None:
        """Return make(**values); values it rejects are recorded as mistakes and left out.

        None where a required value is missing, or the values do not fit together.
        """
        left = dict(values)
        while set(options.required) <= set(left):
            try:
                return make(**left)
            except Exception as error:  # a user's own class may raise anything
                # Errors of other code may begin with the name of the option.
                option = error.option if isinstance(error, FmpairError) else None
                name = option or str(error).partition(" ")[0]
                culprit = name if name in left else None
                plain = isinstance(error, TypeError | ValueError | ImportError)
                text = one_line(error) if plain else line_of(error)
                (self if culprit is None else self.at(culprit)).wrong(text)
                if culprit is None:
                    return None
                del left[culprit]
        return None


def shown(value: Any) -> str:
    """Return a value as the file writes it."""
    plain = {True: "true", False: "false", None: "null"}
    return plain[value] if value is None or isinstance(value, bool) else repr(value)


def one_line(error: Exception) -> str:
    """Return the message of an error in one line, with options as an experiment file has them."""
    text = error.spelled(in_file) if isinstance(error, FmpairError) else str(error)
    return " ".join(text.split())


def line_of(error: Exception) -> str:
    """Return the message of an error in one line, with its type where it is not fmpair's."""
    text = one_line(error)
    return text if isinstance(error, FmpairError) else f"{type(error).__name__}: {text}"
