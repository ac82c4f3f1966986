"""A place in an experiment file: the value there, its line, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from fmpair.config.document import Document, KeyPath
from fmpair.config.option_schema import Options, fits, words
from fmpair.errors import ConfigError, FmpairError, in_file, listing, spelled, unknown
from fmpair.option_names import unknown_option

Made = TypeVar("Made")
MOST_MISTAKES = 100  # that are told together


@dataclass
class Problems:
    """What is wrong in a document, each once."""

    document: Document
    found: dict[tuple[KeyPath, str], None] = field(default_factory=dict)

    def add(self, path: KeyPath, text: str) -> None:
        self.found[path, spelled(text, in_file)] = None
        if len(self.found) >= MOST_MISTAKES:
            raise ConfigError([*self.lines(), f"{MOST_MISTAKES} mistakes: reading ends here"])

    def lines(self) -> list[str]:
        """One line each, in order of file and line."""
        shown = []
        for path, text in self.found:
            origin = self.document.origin(path)
            key = f"{'.'.join(map(str, path))}: " if path else ""
            shown.append((str(origin.file or ""), origin.line, f"{origin}: {key}{text}"))
        own = str(self.document.path)
        # The file itself first, then those it extends; the command line last.
        shown.sort(key=lambda one: (one[0] == "", one[0] != own, one[0], one[1]))
        return [line for _, _, line in shown]

    def check(self) -> None:
        """Raise if there are any."""
        if self.found:
            raise ConfigError(self.lines())


@dataclass(frozen=True)
class Node:
    """A value of the document; a mistake is noted and reading goes on."""

    mistakes: Problems
    value: Any
    path: KeyPath = ()

    def at(self, key: str | int) -> Node:
        """The value under a key of a mapping, None where there is none, or of a list."""
        value = self.value.get(key) if isinstance(self.value, dict) else self.value[key]
        return Node(self.mistakes, value, (*self.path, key))

    def holding(self, value: Any) -> Node:
        return replace(self, value=value)

    def wrong(self, text: str) -> None:
        self.mistakes.add(self.path, text)

    def is_a(self, hint: Any) -> bool:
        """Whether the value has the type; noted if not."""
        if fits(self.value, hint):
            return True
        self.wrong(f"must be {words(hint)}, not {shown(self.value)}")
        return False

    def is_in(self, what: str, known: Iterable[str]) -> bool:
        """Whether the value is one of the known names; noted if not."""
        names = list(known)
        if self.value in names:
            return True
        self.wrong(unknown(what, self.value, names))
        return False

    def items(self) -> list[Node]:
        """The places of a list; noted if there is none."""
        return [self.at(n) for n in range(len(self.value))] if self.is_a(list) else []

    def file(self) -> str | None:
        """The file the value names, as an absolute path; relative to the file that names it."""
        return self.mistakes.document.resolve(self.path, self.value) if self.is_a(str) else None

    def options(self, options: Options, what: str = "option") -> dict[str, Any]:
        """The options that are known and of the right type; what is wrong is noted."""
        if not self.is_a(dict):
            return {}
        good = {}
        for key, value in self.value.items():
            if key not in options.known and not options.open:
                self.at(key).wrong(unknown_option(key, options.known, what))
            elif key not in options.known or self.at(key).is_a(options.known[key].hint):
                good[key] = value
        missing = [name for name in options.required if name not in self.value]
        if missing:
            self.wrong(f"{listing(missing)} must be given")
        return good

    def attempt(
        self, make: Callable[..., Made], options: Options, given: Mapping[str, Any]
    ) -> Made | None:
        """What the options make; each that is refused is noted, and left out.

        None where a required one is missing, which `options` has noted, or all cannot go together.
        """
        left = dict(given)
        while set(options.required) <= set(left):
            try:
                return make(**left)
            except Exception as error:  # somebody's own class may raise anything
                culprit = option_of(error, left)
                telling = isinstance(error, TypeError | ValueError | ImportError)
                text = one_line(error) if telling else line_of(error)
                (self if culprit is None else self.at(culprit)).wrong(text)
                if culprit is None:
                    return None
                del left[culprit]
        return None


def option_of(error: Exception, options: Mapping[str, Any]) -> str | None:
    """Which of the options an error is about: ours say it, others may begin with its name."""
    said = error.option if isinstance(error, FmpairError) else None
    name = said or str(error).partition(" ")[0]
    return name if name in options else None


def shown(value: Any) -> str:
    """A value as the file writes it."""
    plain = {True: "true", False: "false", None: "null"}
    return plain[value] if value is None or isinstance(value, bool) else repr(value)


def one_line(error: Exception) -> str:
    """What an error says, its options as an experiment file has them."""
    said = error.spelled(in_file) if isinstance(error, FmpairError) else str(error)
    return " ".join(said.split())


def line_of(error: Exception) -> str:
    """What went wrong, in one line; where it is not ours the kind of error too."""
    text = one_line(error)
    return text if isinstance(error, FmpairError) else f"{type(error).__name__}: {text}"
