"""What can go wrong on a user's side, and the one line that says how to mend it."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

# Inside a message an option stands between these two, as JSON: a name, and maybe a value.
MARKED = re.compile("\ue000(.*?)\ue001", re.DOTALL)
Spell = Callable[..., str]  # (name) or (name, value); a value of None is any value

LONGEST = 2000  # characters of a message; names and values in it may come from any file


class FmpairError(Exception):
    """Base of every error this package raises for something the caller can mend.

    Options that a message speaks of are written by `named`, and spelled for those who read it.
    """

    def __str__(self) -> str:
        return self.told(in_python)

    @property
    def option(self) -> str | None:
        """The option that the message begins with, if any: the one that is to blame."""
        found = MARKED.match(super().__str__())
        try:
            return str(json.loads(found[1])[0]) if found else None
        except (IndexError, TypeError, ValueError):  # a name that only looks like ours
            return None

    @property
    def names_options(self) -> bool:
        """Whether the message speaks of an option."""
        return MARKED.search(super().__str__()) is not None

    def told(self, spell: Spell) -> str:
        """The message in one line, with its options as one reader knows them."""
        return one_line(spelled(super().__str__(), spell))


def spelled(text: str, spell: Spell) -> str:
    """A text with its options as one reader knows them."""

    def one(found: re.Match[str]) -> str:
        try:
            return spell(*json.loads(found[1]))
        except (TypeError, ValueError):  # a name that only looks like ours
            return found[0]

    return MARKED.sub(one, text)


def named(name: str, *value: Any) -> str:
    """An option inside a message: alone, with a value, or with any value (...)."""
    return (
        f"\ue000{json.dumps([name, *(None if v is ... else v for v in value)], default=str)}\ue001"
    )


def in_python(name: str, *value: Any) -> str:
    """`item`, `item='...'`, `ignore=['a']`, as an argument."""
    shown = repr("..." if value == (None,) else value[0]) if value else ""
    return f"{name}={shown}" if value else name


def in_file(name: str, *value: Any) -> str:
    """`item`, `item: ...`, `ignore: ["a"]`, `unit: user`, as an experiment file has it."""
    if not value:
        return name
    word = isinstance(value[0], str) and value[0].replace("-", "").isalnum()
    shown = value[0] if word else json.dumps(value[0], ensure_ascii=False)
    return f"{name}: {'...' if value[0] is None else shown}"


class Notice(UserWarning):
    """What was passed over and how often: nothing is refused, and nothing goes unsaid."""

    def __str__(self) -> str:
        return self.told(in_python)

    def told(self, spell: Spell) -> str:
        """The text in one line, with its options as one reader knows them."""
        return one_line(spelled(super().__str__(), spell))


def notice(text: str) -> None:
    """Tell the caller, as a warning at the caller's own line that can be filtered by its class."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(Notice(text), stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


class DataError(FmpairError):
    """A file, frame or table that cannot be used as it is."""


class OptionError(FmpairError, ValueError):
    """An option outside what the thing that reads it allows."""


class UnknownError(FmpairError, LookupError):
    """A name, id or value that is not there."""


class TrainingError(FmpairError):
    """Training that could not go on, such as a divergence."""


class MachineError(FmpairError):
    """Work the machine did not let finish: memory, disk, network, or a process that was killed.

    It says nothing of the work itself, which may go well another time.
    """


class ProcessError(FmpairError):
    """A process in which fmpair cannot work, such as a fork of one in which it did."""


class ModelFileError(FmpairError):
    """A model file that is damaged, foreign or of another version."""


class ConfigError(FmpairError):
    """The mistakes of an experiment file, all of them together: one line each."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__(mistakes)
        self.mistakes = tuple(one_line(mistake) for mistake in mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


def one_line(text: str) -> str:
    """The text without line breaks, with all else that does not print escaped, and not too long.

    Names and values of a file may hold anything, also what would move a terminal's cursor.
    """
    line = " ".join(text.splitlines())
    if not line.isprintable():
        line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    if len(line) <= LONGEST:
        return line
    return f"{line[: LONGEST // 2]} ... {line[-LONGEST // 2 :]}"  # what to do stands at the end


def listing(names: Iterable[object], most: int = 12) -> str:
    """Names in one line: ``a, b, c, ... (40 in all)``."""
    known = [str(name) for name in names]
    shown = ", ".join(known[:most])
    return shown if len(known) <= most else f"{shown}, ... ({len(known)} in all)"


def nearest(name: object, known: Iterable[object], alike: float = 0.6) -> str | None:
    """The known name most like `name`, or None; alike: how much, from 0 to 1."""
    by_lower = {str(k).lower(): str(k) for k in known}
    found = get_close_matches(str(name).lower(), list(by_lower), n=1, cutoff=alike)
    return by_lower[found[0]] if found else None


def unknown(what: str, name: object, known: Iterable[object]) -> str:
    """``unknown context 'tiem'. Did you mean 'time'? Known: time, device``."""
    names = [str(k) for k in known]
    guess = nearest(name, names)
    hint = f" Did you mean {guess!r}?" if guess else ""
    return f"unknown {what} {str(name)!r}.{hint} Known: {listing(names) or 'none'}"
