"""Where foreign code runs: few threads, and what goes wrong in one line."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from threadpoolctl import threadpool_limits

from fmpair.errors import FmpairError, OptionError, TrainingError


def made(what: str, make: Callable[..., Any], options: Mapping[str, Any], **usual: Any) -> Any:
    """make(**options), and of the usual ones those that are not among the options.

    what: whose options they are, such as `implicit's als`.
    """
    try:
        return make(**{**usual, **options})
    except Exception as error:
        raise OptionError(f"{what} refuses its options: {one_line(error)}") from error


@contextmanager
def foreign(what: str, threads: int | None = 1) -> Iterator[None]:
    """A block of foreign code: quiet, linear algebra on so many threads, errors as TrainingError.

    Libraries with threads of their own get one thread of linear algebra: pools inside pools make
    training slower by orders of magnitude.
    """
    try:
        said = io.StringIO()  # progress bars and greetings
        with (
            threadpool_limits(threads),
            redirect_stdout(said),
            redirect_stderr(said),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")  # a library's word about itself is not for our callers
            yield
    except FmpairError:
        raise
    except Exception as error:
        raise TrainingError(f"{what} failed: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """What an error says, without line breaks; its type where it says nothing."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
