"""Exceptions and warnings of fmpair, and helpers to write their one-line messages.

A message that mentions an option marks it with `named`, in visible text: :option:`item="a"`.
Errors and notices parse these marks and show each option the way their reader writes it: as a
Python argument (`in_python`, used by `str`), a key of an experiment file (`in_file`) or a flag of
the command line (see `fmpair.cli.flags`).
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

Spell = Callable[..., str]  # (name) or (name, value); the value None stands for any value

MAX_LENGTH = 2000  # characters of a message; names and values in it may come from any file
OPTION = re.compile(r":option:`([^`=]+)(?:=([^`]*))?`")


class FmpairError(Exception):
    """Base of every error that the caller can fix."""

    def __str__(self) -> str:
        return self.spelled(in_python)

    @property
    def option(self) -> str | None:
        """The option at the start of the message, which caused the error, if any."""
        match = OPTION.match(super().__str__())
        return match[1] if match else None

    @property
    def names_options(self) -> bool:
        """Whether the message mentions an option."""
        return OPTION.search(super().__str__()) is not None

    def spelled(self, spell: Spell) -> str:
        """Return the message in one line, with its options written by `spell`."""
        return one_line(spelled(super().__str__(), spell))


class DataError(FmpairError):
    """A file, frame or table that cannot be used."""


class OptionError(FmpairError, ValueError):
    """An option with an invalid value."""


class UnknownError(FmpairError, LookupError):
    """A name, id or value that does not exist."""


class TrainingError(FmpairError):
    """Training that failed, such as a divergence."""


class MachineError(FmpairError):
    """Work that failed for lack of memory, disk or network, or because a process was killed.

    The same work may succeed another time.
    """


class ProcessError(FmpairError):
    """A process in which fmpair cannot run, such as a fork of one that used it."""


class ModelFileError(FmpairError):
    """A model file that is damaged, foreign or of another version."""


class ConfigError(FmpairError):
    """All mistakes of an experiment file, one line each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__(mistakes)
        self.mistakes = tuple(one_line(mistake) for mistake in mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class Notice(UserWarning):
    """A warning about input that was skipped or changed, with counts."""

    def __str__(self) -> str:
        return self.spelled(in_python)

    def spelled(self, spell: Spell) -> str:
        """Return the text in one line, with its options written by `spell`."""
        return one_line(spelled(super().__str__(), spell))


def notice(text: str) -> None:
    """Warn with a `Notice` that points to the line outside fmpair that made the call."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] != package:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(Notice(text), stacklevel=level)


def named(name: str, *value: Any) -> str:
    """Return an option marked for a message: alone, with a value, or with any value (`...`)."""
    if "`" in name or "=" in name:  # not an option of ours
        return in_python(name, *value)
    if not value:
        return f":option:`{name}`"
    text = json.dumps(None if value[0] is ... else value[0], default=str)
    return f":option:`{name}={text.replace('`', chr(92) + 'u0060')}`"


def spelled(text: str, spell: Spell) -> str:
    """Return a text with its marked options written by `spell`."""

    def write(match: re.Match[str]) -> str:
        try:
            return spell(match[1], *([] if match[2] is None else [json.loads(match[2])]))
        except ValueError:  # text from the data that only looks like a mark
            return match[0]

    return OPTION.sub(write, text)


def in_python(name: str, *value: Any) -> str:
    """Write an option as an argument: `item`, `item='...'`, `ignore=['a']`."""
    if not value:
        return name
    return f"{name}={('...' if value[0] is None else value[0])!r}"


def in_file(name: str, *value: Any) -> str:
    """Write an option as in an experiment file: `item`, `item: ...`, `ignore: ["a"]`."""
    if not value:
        return name
    word = isinstance(value[0], str) and value[0].replace("-", "").isalnum()
    shown = value[0] if word else json.dumps(value[0], ensure_ascii=False)
    return f"{name}: {'...' if value[0] is None else shown}"


def one_line(text: str) -> str:
    """Return the text without line breaks, shortened, and with unprintable characters escaped.

    Names and values of a file may hold anything, even terminal control sequences.
    """
    line = " ".join(text.splitlines())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if len(line) <= MAX_LENGTH:
        return line
    half = MAX_LENGTH // 2
    return f"{line[:half]} ... {line[-half:]}"  # the remedy is at the end


def listing(names: Iterable[object], most: int = 12) -> str:
    """Return names in one line: ``a, b, c, ... (40 in all)``."""
    texts = [str(name) for name in names]
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown}, ... ({len(texts)} in all)"


def nearest(name: object, known: Iterable[object], alike: float = 0.6) -> str | None:
    """Return the known name most similar to `name`, or None below the similarity `alike`."""
    by_lower = {str(k).lower(): str(k) for k in known}
    matches = get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=alike)
    return by_lower[matches[0]] if matches else None


def _related(name: str, known: Sequence[str]) -> str | None:
    """Return the only known name of the same letters (ngcd), or of which `name` is a part (als)."""
    letters, word = sorted(name.lower()), name.lower()
    same = [k for k in known if sorted(k.lower()) == letters]
    found = same or [k for k in known if word in re.split(r"[-_ ]", k.lower())]
    return found[0] if len(found) == 1 else None


def unknown(what: str, name: object, known: Iterable[object]) -> str:
    """Return ``unknown context 'tiem'. Did you mean 'time'? Known: time, device``."""
    names = [str(k) for k in known]
    guess = nearest(name, names) or _related(str(name), names)
    hint = f" Did you mean {guess!r}?" if guess else ""
    return f"unknown {what} {str(name)!r}.{hint} Known: {listing(names) or 'none'}"
