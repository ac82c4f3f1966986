"""Time lines: every user's events, oldest first, and what came strictly before each of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import starts, tally


class Timelines(NamedTuple):
    """The events of each user, oldest first; those of one moment in the order they were given.

    start: int64 [users + 1]; item: int32 [events]; moment: int64 [events].
    event: int32 [events], the number of each in the data it comes from.
    """

    start: np.ndarray
    item: np.ndarray
    moment: np.ndarray
    event: np.ndarray

    @property
    def users(self) -> int:
        return len(self.start) - 1

    @property
    def place(self) -> np.ndarray:
        """int32 [events]: where each event of the data stands."""
        place = np.empty(len(self.event), np.int32)
        place[self.event] = np.arange(len(self.event), dtype=np.int32)
        return place


def timelines(user: np.ndarray, item: np.ndarray, users: int, moment: np.ndarray) -> Timelines:
    """The time lines of events: user, item int32 [events] and moment int64 [events]."""
    order = np.lexsort((moment, user)).astype(np.int32)
    return Timelines(starts(tally(user, users)), item[order], moment[order], order)


def strictly_before(lines: Timelines) -> np.ndarray:
    """int32 [events]: of the event at each place, where those strictly before it end.

    That is the first place of its user and moment: what happens at one moment is not known before.
    """
    count = len(lines.item)
    first = np.zeros(count, bool)
    first[lines.start[:-1][np.diff(lines.start) > 0]] = True
    first[1:] |= lines.moment[1:] != lines.moment[:-1]
    return np.maximum.accumulate(np.where(first, np.arange(count, dtype=np.int32), 0))
