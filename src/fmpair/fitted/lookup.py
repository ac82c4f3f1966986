"""Ids that somebody asks about, and what is said of those a model does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, UnknownError, listing, named, notice
from fmpair.errors import unknown as unknown_message

MOST_GUESSED = 50_000  # in larger catalogues the search for a similar id takes too long
SHOWN = 3  # ids of numbers or times, for an idea of what they look like


def ids_of(ids: Any) -> pl.Series:
    """One id, or any collection of ids, as a Series."""
    if hasattr(ids, "__array__") and not isinstance(ids, pl.Series):
        ids = np.atleast_1d(np.asarray(ids))  # of numpy, pandas or pyarrow
    if isinstance(ids, np.ndarray) and ids.dtype == object:
        ids = ids.tolist()
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        ids = [ids]
    try:
        return pl.Series(ids if isinstance(ids, np.ndarray | pl.Series) else list(ids))
    except TypeError:
        raise DataError("the ids are of several types: give all of one type") from None


def number_of(what: str, value: Any, known: Vocabulary) -> int:
    """The number of a user or item id; an unknown one is refused with the nearest known."""
    number = known.number(value)
    if number >= 0:
        return number
    raise unknown_id(what, value, known.ids)


def unknown_id(what: str, value: Any, ids: pl.Series, most: int = MOST_GUESSED) -> UnknownError:
    """The error of an unknown id, with the nearest known; most: ids to be searched for that."""
    if ids.dtype == pl.String and len(ids) <= most:
        return UnknownError(unknown_message(what, value, ids.to_list()))
    return UnknownError(
        f"unknown {what} {value!r}: the model knows {len(ids):,} {what}s of type {ids.dtype}, "
        f"such as {listing(ids.head(SHOWN))}"
    )


def numbers_of(what: str, values: pl.Series, known: Vocabulary) -> np.ndarray:
    """int32 [values]: the numbers of ids, all of which must be known."""
    numbers = known.numbers(values)
    if (numbers < 0).any():
        number_of(what, values[int(np.argmax(numbers < 0))], known)
    return numbers


def known_only(option: str, items: pl.Series, known: Vocabulary, strict: bool) -> np.ndarray:
    """int32 [items]: the numbers of items an option names, -1 for those passed over and counted.

    strict: an unknown item is refused.
    """
    if strict:
        return numbers_of("item", items, known)
    numbers = known.numbers(items)
    missing = int((numbers < 0).sum())
    if missing:
        first = items[int(np.argmax(numbers < 0))]
        notice(
            f"{named(option)}: {missing:,} of {len(items):,} items are unknown and passed over, "
            f"the first is {first!r}; {named('unknown', 'error')} refuses them"
        )
    return numbers
