"""Which fields meet in pairs, as parts of the terms of order three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fmpair.errors import OptionError, named, unknown
from fmpair.features.encoder import Encoder

USER, ITEM = "user", "item"  # the ids, among the fields of their sides
Names = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Pairing:
    """What a model of order three has beside one of order two.

    factors: length of its own vectors. pairs: the fields that meet, None for all of a side.
    items: whether fields of the item side may.
    """

    factors: int
    pairs: Names | None = None
    items: bool = True


def pairs_from(given: Any) -> Names | None:
    """The option `pairs`: None, or a list of two names each."""
    if given is None:
        return None
    entries = [] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    if not entries or not all(map(_is_two_names, entries)):
        raise OptionError(
            f"{named('pairs')} must be a list of two fields each, such as "
            f"[['user', 'daytime']], not {given!r}"
        )
    return tuple((str(one), str(other)) for one, other in entries)


def _is_two_names(entry: Any) -> bool:
    two = isinstance(entry, Sequence) and not isinstance(entry, str) and len(entry) == 2
    return two and all(isinstance(name, str) for name in entry)


def check_pairs(pairs: Names | None, query: Sequence[Encoder], item: Sequence[Encoder]) -> None:
    """Raise OptionError where a pair names no field, or fields of both sides."""
    sides = [_names(USER, query), _names(ITEM, item)]
    known = [name for side in sides for field in side for name in field[:1]]
    for pair in pairs or ():
        for name in pair:
            if not any(name in field for side in sides for field in side):
                raise OptionError(unknown("field of pairs", name, known))
        if not any(all(any(name in field for field in side) for name in pair) for side in sides):
            raise OptionError(
                f"{named('pairs')}: {pair[0]!r} and {pair[1]!r} are of the query and of the item, "
                "which meet anyhow; name two fields of one side"
            )


def meeting_fields(
    own: str, encoders: Sequence[Encoder], pairing: Pairing
) -> tuple[np.ndarray, np.ndarray]:
    """(groups of the id and of every field, int8 [fields + 1]; which groups meet, float32).

    own: what the id is called. Fields that meet the same others are of one group.
    """
    names = _names(own, encoders)
    meets = np.ones((len(names), len(names)), np.float32)
    if own == ITEM and not (pairing.items and encoders):
        meets[:] = 0
    elif pairing.pairs is not None:
        meets[:] = 0
        for one, other in pairing.pairs:
            both = [np.array([name in field for field in names]) for name in (one, other)]
            meets[np.ix_(*both)] = meets[np.ix_(*both[::-1])] = 1
    rows, group = np.unique(meets, axis=0, return_inverse=True)
    group = group.reshape(-1)
    first = [int(np.flatnonzero(group == number)[0]) for number in range(len(rows))]
    return group.astype(np.int8), meets[np.ix_(first, first)]


def _names(own: str, encoders: Sequence[Encoder]) -> list[tuple[str, ...]]:
    """What the id and every field may be called, the usual name first."""
    return [(own,), *((e.name, f"{e.role}.{e.name}", e.source) for e in encoders)]
