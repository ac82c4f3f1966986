"""The ranks of the relevant items: all that a ranking metric needs to know of a list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np


class Blocks(NamedTuple):
    """Runs of equal scores that hold relevant items, by unit, the best first; int64 [blocks] each.

    above: how many stand higher; size: how many stand level; relevant: how many of these are
    relevant; before: how many of those higher are relevant.
    """

    unit: np.ndarray
    above: np.ndarray
    size: np.ndarray
    relevant: np.ndarray
    before: np.ndarray


@dataclass(frozen=True, eq=False)
class Placement:
    """The places of the relevant items; those of unit u are entries start[u]:start[u+1].

    start: int64 [units + 1]. above: int64 [entries], how many of the list score higher.
    level: int64 [entries], how many score the same, the item included; 0: it is not in the list.
    gain: float64 [entries], how relevant, 1 unless graded. listed: int64 [units], list lengths.
    """

    start: np.ndarray
    above: np.ndarray
    level: np.ndarray
    gain: np.ndarray
    listed: np.ndarray

    @property
    def units(self) -> int:
        return len(self.listed)

    @cached_property
    def owner(self) -> np.ndarray:
        """int64 [entries]: the unit of each relevant item."""
        return np.repeat(np.arange(self.units), self.relevant)

    @property
    def relevant(self) -> np.ndarray:
        """int64 [units]: the relevant items of each unit, in the list or not."""
        return np.diff(self.start)

    @cached_property
    def blocks(self) -> Blocks:
        entry = np.flatnonzero(self.level > 0)
        entry = entry[np.lexsort((self.above[entry], self.owner[entry]))]
        unit, above = self.owner[entry], self.above[entry]
        begins = (np.diff(unit, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
        first = np.flatnonzero(begins)
        relevant = np.diff(np.append(first, len(entry)))
        before = first - np.searchsorted(unit, unit[first])
        return Blocks(unit[first], above[first], self.level[entry[first]], relevant, before)

    def summed(self, value: np.ndarray) -> np.ndarray:
        """float64 [units]: a value per relevant item, added up by unit."""
        return np.bincount(self.owner, weights=value, minlength=self.units)
