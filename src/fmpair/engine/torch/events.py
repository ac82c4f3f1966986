"""Minibatches of queries and chosen items, in the order of an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from fmpair.engine.contract import Problem
from fmpair.engine.torch.softmax import Chosen

# Rows of a minibatch are rounded up to a multiple, with a margin, so that all epochs have as many.
ROWS_STEP, SPARE = 64, 1.02


class Minibatch(NamedTuple):
    """One query per row and the items chosen by it. user, situation, event: int64 [rows]."""

    user: torch.Tensor
    situation: torch.Tensor
    event: torch.Tensor
    chosen: Chosen

    @property
    def size(self) -> int:
        """The number of events."""
        return len(self.chosen.row)


class EpochEvents:
    """The events of a problem, stored on `home`: the device, or main memory if they are too many.

    run: how many events of the same query may share a row of scores in a minibatch; 1 if every
    event has its own query. together: the mean number of events per row.
    """

    def __init__(
        self, problem: Problem, positives: str, run: int, home: torch.device, device: torch.device
    ):
        def moved(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.array(array)).to(home)

        self.positives, self.run, self.home, self.device = positives, run, home, device
        self.user, self.item = moved(problem.user), moved(problem.item)
        self.situation, self.weight = moved(problem.situation), moved(problem.weight)
        self.learned = moved(np.flatnonzero(~problem.known))
        self.rows, self.together = 0, 1.0
        self.group, self.once = self._groups(problem)

    def _groups(self, problem: Problem) -> tuple[torch.Tensor | None, bool]:
        """Return the query number of each event, and whether no query chose an item twice."""
        if self.run == 1 or self.positives != "permutation":
            return None, self.run == 1
        query = self.user.long() * problem.contexts.size + self.situation
        pairs = torch.unique(query[self.learned] * problem.items + self.item[self.learned])
        _, times = torch.unique(query[self.learned], return_counts=True)
        self.together = len(self.learned) / max(int((-(-times // self.run)).sum()), 1)
        return query, len(pairs) == len(self.learned)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield all events of an epoch, `size` at a time; generator: on the device `home`.

        All minibatches but the last have the same number of rows; some rows may be empty.
        """
        event = self._listed(generator)
        if not len(event):
            return
        size = min(size, len(event))
        if self.group is None:
            row = torch.arange(len(event), device=self.home)
            start, rows = torch.arange(len(event) + size + 1, device=self.home), size
        else:
            event, row, start, rows = self._in_runs(event, size, generator)
        tops = row[::size].tolist()
        columns = None
        if self.home == self.device:
            columns = self._columns(event, event[start.clamp(max=len(event) - 1)])
        for n, top in enumerate(tops):
            own = slice(n * size, min((n + 1) * size, len(event)))
            height = rows if own.stop - own.start == size else int(row[-1]) - top + 1
            part = slice(top, top + height)
            if columns is None:
                head = event[start[part].clamp(max=len(event) - 1)]
                item, weight, user, situation, head = self._columns(event[own], head)
            else:
                item, weight = columns[0][own], columns[1][own]
                user, situation, head = (column[part] for column in columns[2:])
            starts = start[part.start : part.stop + 1].clamp(own.start, own.stop) - own.start
            rows_of = self._moved(row[own] - top)
            chosen = Chosen(rows_of, item, weight, self._moved(starts), self.once)
            yield Minibatch(user, situation, head, chosen)

    def _columns(self, event: torch.Tensor, head: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return item and weight of events, and user, situation and event of each row's first."""
        item, weight = self.item[event], self.weight[event]
        user, situation = self.user[head], self.situation[head]
        moved = [self._moved(values) for values in (item, weight, user, situation, head)]
        return tuple(m if m.is_floating_point() else m.long() for m in moved)

    def _moved(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self.device, non_blocking=True)

    def _listed(self, generator: torch.Generator) -> torch.Tensor:
        """Return the events of an epoch in their order: int64 [events]."""
        learned, count = self.learned, len(self.learned)
        if self.positives == "permutation":
            return learned[torch.randperm(count, generator=generator, device=self.home)]
        draws = torch.rand(2, count, generator=generator, device=self.home, dtype=torch.float64)
        if self.positives == "bootstrap":
            return learned[(draws[0] * count).long().clamp(max=count - 1)]
        user = self.user[learned].long()
        order = torch.argsort(user, stable=True)
        _, times = torch.unique_consecutive(user[order], return_counts=True)
        first = times.cumsum(0) - times
        drawn = (draws[0] * len(times)).long().clamp(max=len(times) - 1)
        place = first[drawn] + (draws[1] * times[drawn]).long().clamp(max=times[drawn] - 1)
        return learned[order[place]]

    def _in_runs(
        self, listed: torch.Tensor, size: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
        """Return events, their rows, the start of each row, and the rows of a minibatch.

        Events of the same query form runs, which are shuffled. Rows after the last are empty.
        """
        assert self.group is not None
        group = self.group[listed]
        order = torch.argsort(group, stable=True)
        event, group = listed[order], group[order]
        place = torch.arange(len(event), device=self.home) - torch.searchsorted(group, group)
        run = (place % self.run == 0).cumsum(0) - 1
        count = int(run[-1]) + 1
        row = torch.randperm(count, generator=generator, device=self.home)[run]
        row, order = torch.sort(row, stable=True)
        first = row[::size]
        last = torch.cat([row[size - 1 :: size], row[-1:]])[: len(first)]
        most = int((last - first).max()) + 1
        self.rows = min(max(self.rows, -(-int(most * SPARE) // ROWS_STEP) * ROWS_STEP), size)
        start = torch.searchsorted(row, torch.arange(count + self.rows + 1, device=self.home))
        return event[order], row, start, self.rows
