"""Events in pieces: what an engine of many machines learns from. Arrays only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

NO_NUMBERS, NO_WEIGHT = np.zeros(0, np.int32), np.zeros(0, np.float32)


class Shard(NamedTuple):
    """Some events, in their order. user, item: int32 [events], by the problem's numbers.

    All others are empty where nothing goes by them. number: int32, of each among all events.
    weight, situation: as in Problem. until, since: as in History, but counted from the first place
    of the user's own time line.
    """

    user: np.ndarray
    item: np.ndarray
    number: np.ndarray = NO_NUMBERS
    weight: np.ndarray = NO_WEIGHT
    situation: np.ndarray = NO_NUMBERS
    until: np.ndarray = NO_NUMBERS
    since: np.ndarray = NO_NUMBERS


# Makes shards of the events of these users, given their numbers: each user's in their order.
Maker = Callable[[np.ndarray], Iterator[Shard]]


@dataclass(frozen=True)
class Source:
    """Where workers find their events, which no process need ever have all of.

    activity: int64 [users], times: int64 [items]: how many events each has. shards: refs of shards
    in the object store, in the order of their events; made: what makes events where they are
    learned from.
    """

    activity: np.ndarray
    times: np.ndarray
    shards: Sequence[Any] = ()
    made: Sequence[Maker] = ()
