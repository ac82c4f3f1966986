"""Where files are read: what a parser throws at something that is not its format, in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from polars.exceptions import PanicException

from fmpair.errors import DataError, FmpairError, Notice

# What these say is about code: a KeyError gives no more than the key.
UNCLEAR = (LookupError, TypeError, AttributeError, PanicException)


@contextmanager
def parsing(what: str, refuse: Callable[[str], FmpairError] = DataError) -> Iterator[None]:
    """A block that reads `what`, such as `clicks.csv as libfm`; nothing but our errors leaves it.

    Readers say themselves what is wrong where they can tell. This is for the rest: bytes may be
    wrong in more ways than anyone foresees, and the libraries below have errors of their own.
    """
    try:
        yield
    except (FmpairError, Notice):  # a notice where somebody made errors of warnings
        raise
    except (Exception, PanicException) as error:  # a panic of polars is no Exception
        raise refuse(f"cannot read {what}: {reason(error)}") from error


def reason(error: BaseException) -> str:
    """What an error says, in its first line; with its type where that alone tells little."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    said = next(iter(str(error).splitlines()), "")
    if " " in said and not isinstance(error, UNCLEAR):
        return said
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
