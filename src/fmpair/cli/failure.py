"""What went wrong, as an exit code and one line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any

import typer

from fmpair.errors import ConfigError, FmpairError, Spell, nearest
from fmpair.renamed import now
from fmpair.text import harmless

USER_MISTAKE, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

# The base of the parser's errors: typer names it in some versions only, but always its child.
UsageError: Any = typer.BadParameter.__mro__[1]
ParserError: Any = UsageError.__mro__[1]


def described(error: BaseException, spell: Spell) -> tuple[int, str]:
    """(exit code, line or lines, or ""); an error nobody foresaw is raised again, as it is.

    spell: how the options in a message are written.
    """
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED, _one_line(error) or "interrupted"
    if isinstance(error, BrokenPipeError):
        _close_output()
        return BROKEN_PIPE, ""
    if isinstance(error, ConfigError):
        return USER_MISTAKE, "\n".join(f"error: {_one_line(line)}" for line in error.mistakes)
    if isinstance(error, FmpairError):
        return USER_MISTAKE, f"error: {_one_line(error.told(spell))}"
    if isinstance(error, ParserError):
        return WRONG_USAGE, f"error: {_usage(error)}"
    if isinstance(error, MemoryError):
        return USER_MISTAKE, f"error: there is not enough memory. {_one_line(error)}".rstrip(" .")
    if isinstance(error, OSError) and error.strerror:
        place = f" {error.filename}:" if error.filename else ""
        return USER_MISTAKE, f"error:{place} {error.strerror}"
    raise error


def _usage(error: Any) -> str:
    """What the parser says, the nearest name of a wrong option, and where to read on."""
    context = getattr(error, "ctx", None)
    wrong = getattr(error, "option_name", None)
    text = _one_line(error.format_message()).removesuffix(".")
    text = text[:1].lower() + text[1:]
    if context is None:
        return text
    known = [name for option in context.command.get_params(context) for name in option.opts]
    if wrong and wrong not in known:
        flags = {_python_name(name): name for name in known if name.startswith("--")}
        guess, new = nearest(wrong, flags.values()), now(_python_name(wrong), flags)
        text = f"unknown option {wrong!r}" + (f". Did you mean {guess!r}?" if guess else "")
        text = text if new is None else f"{wrong} is now {flags[new]}"
    return f"{text}{' See' if text.endswith('?') else '; see'} {context.command_path} --help"


def _python_name(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _one_line(message: object) -> str:
    return harmless(" ".join(str(message).split()))


def _close_output() -> None:
    """Let the interpreter's last flush go nowhere: the reader of the pipe has left."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
