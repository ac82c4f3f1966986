"""The shared tables between two rounds: what the workers' cells made of them, brought together.

The driver writes what each cell moved into that cell's copy and merges the copies as the CPU engine
does: the same numbers in the same order.
"""

from __future__ import annotations

import numpy as np

from fmpair.engine.cpu.history import Piece
from fmpair.engine.cpu.layout import Layout, laid_out
from fmpair.engine.cpu.operands import Copies, Shared
from fmpair.engine.cpu.training import CPUTraining
from fmpair.engine.ray.messages import Done, Moved, Start, Turn, writable
from fmpair.engine.shard import NO_NUMBERS, NO_WEIGHT
from fmpair.engine.strata.accumulators import Accumulators
from fmpair.engine.strata.partition import Events, Partition


class Merging:
    """The shared tables of a training, and what workers are still to be told of them."""

    def __init__(self, whole: CPUTraining) -> None:
        self.whole = whole
        self.query: Moved | None = None
        self.features: Moved | None = None

    @property
    def needed(self) -> bool:
        """Whether there are any such tables."""
        return bool(self.whole.query or self.whole.features)

    @property
    def lends(self) -> bool:
        """Whether histories have the items' vectors."""
        history = self.whole.problem.history
        return history is not None and history.shared

    @property
    def sums(self) -> Accumulators | None:
        """The accumulators of users and items, by the problem's numbers."""
        sums = self.whole.accumulators
        return None if sums.users is None else sums

    def lend(self) -> None:
        self.whole._lend_items()

    def start(self, number: int, rate: float, visits: np.ndarray) -> Start:
        """What workers must know to begin, or to go on with, an epoch."""
        whole, sums = self.whole, self.sums
        self.query = self.features = None  # all of it is said here
        if sums is not None:
            own = {"query": sums.query[0], "features": sums.features[0]}
            sums = sums._replace(users=NO_WEIGHT, items=NO_WEIGHT, **own)
        query = whole.query.of(0) if whole.query else None
        features = whole.features.of(0) if whole.features else None
        return Start(
            number, rate, whole.factors, whole.length, query, features, sums, visits,
            whole.triple_shrink,
        )  # fmt: skip

    def turn(self, number: int, keep: bool) -> Turn:
        return Turn(number, self.query, self.features, keep)

    def bring_together(self, found: list[Done]) -> None:
        """The copies of a round, of all workers in their order, merged."""
        query = [writable(moved) for done in found for moved in done.query]
        features = [writable(moved) for done in found for moved in done.features]
        whole, sums = self.whole, self.whole.accumulators
        if whole.problem.history is not None:
            whole.pieces[:] = [_piece(moved, self.sums is not None) for moved in query]
        elif whole.query is not None:
            _write(whole.query, sums.query, query)
        if whole.features is not None:
            _write(whole.features, sums.features, features)
        whole._merge()
        self.query = _together(whole.query, sums.query, query)
        self.features = _together(whole.features, sums.features, features)

    def plain_layout(self) -> Layout:
        """The layout in which users and items stand by their numbers, without events."""
        problem, settings = self.whole.problem, self.whole.settings
        users, items = (np.arange(n, dtype=np.int32) for n in (problem.users, problem.items))
        edge, none = np.array([0, len(items)]), np.zeros(1, np.int32)
        cell = np.zeros(2, np.int64)
        partition = Partition(users, items, edge, cell, NO_NUMBERS, none, NO_NUMBERS, NO_NUMBERS)
        times = np.ones(len(items), np.int64)
        start = np.zeros(len(users) + 1, np.int64)
        events = Events(start, NO_NUMBERS, NO_NUMBERS, times, problem.drawn)
        return laid_out(problem._replace(impressions=None), settings, events, partition)


def _piece(moved: Moved, has_sums: bool) -> Piece:
    shared = Shared(moved.rows, NO_WEIGHT, moved.moves, NO_WEIGHT, NO_WEIGHT)
    return Piece(moved.feature, shared, moved.sums if has_sums else None)


def _write(copies: Copies, sums: np.ndarray | None, moved: list[Moved]) -> None:
    """What each cell moved, in its copy."""
    for number, own in enumerate(moved):
        copy = copies.of(number)
        copy.table[own.feature], copy.moves[own.feature] = own.rows, own.moves
        if len(copy.bias):
            copy.bias[own.feature] = own.bias
        if sums is not None:
            sums[number][own.feature] = own.sums


def _together(copies: Copies | None, sums: np.ndarray | None, moved: list[Moved]) -> Moved | None:
    """What the rows that any cell moved are now."""
    if copies is None:
        return None
    feature = np.unique(np.concatenate([own.feature for own in moved]))
    copy = copies.of(0)
    bias = copy.bias[feature] if len(copy.bias) else NO_WEIGHT
    return Moved(
        feature, copy.table[feature], bias, NO_WEIGHT if sums is None else sums[0][feature]
    )
