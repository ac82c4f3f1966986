"""The events to learn from, in the order of an epoch: minibatches of queries and chosen items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from fmpair.engine.contract import Problem
from fmpair.engine.torch.softmax import Chosen

PLACES = torch.int64


class Batch(NamedTuple):
    """Queries, one a row, and what was chosen by them. user, situation, event: int64 [rows]."""

    user: torch.Tensor
    situation: torch.Tensor
    event: torch.Tensor
    chosen: Chosen

    @property
    def size(self) -> int:
        """How many events there are."""
        return len(self.chosen.row)


class Events:
    """The events of a problem, on the device or, where there are too many, beside it.

    run: events of one query that a minibatch takes together, since one row of scores serves them
    all; 1 where every event has a query of its own.
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
        self.group, self.once = self._groups(problem)

    def _groups(self, problem: Problem) -> tuple[torch.Tensor | None, bool]:
        """(by event the number of its query, whether none chose an item twice)."""
        if self.run == 1 or self.positives != "permutation":
            return None, self.run == 1
        query = self.user.long() * problem.contexts.size + self.situation
        pairs = torch.unique(query[self.learned] * problem.items + self.item[self.learned])
        return query, len(pairs) == len(self.learned)

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Batch]:
        """All events of an epoch, about `size` at a time; generator: of the events' home."""
        listed = self._listed(generator)
        if self.group is None:
            for event in listed.split(size):
                count = torch.arange(len(event) + 1, device=self.device)
                yield self._batch(event, event, count[:-1], count)
            return
        event, row, start = self._in_runs(listed, generator)
        rows = max(round(size * (len(start) - 1) / len(event)), 1)
        edges = [*range(0, len(start) - 1, rows), len(start) - 1]
        places = start[edges].tolist()
        for n, (top, end) in enumerate(zip(edges[:-1], edges[1:])):
            own = slice(places[n], places[n + 1])
            heads = event[start[top:end]]
            starts = start[top : end + 1] - places[n]
            yield self._batch(event[own], heads, (row[own] - top).to(self.device), starts)

    def _batch(
        self, event: torch.Tensor, head: torch.Tensor, row: torch.Tensor, start: torch.Tensor
    ) -> Batch:
        def moved(values: torch.Tensor) -> torch.Tensor:
            return values.to(self.device, non_blocking=True)

        item, weight = moved(self.item[event]).long(), moved(self.weight[event])
        user, situation = moved(self.user[head]).long(), moved(self.situation[head]).long()
        return Batch(user, situation, moved(head), Chosen(row, item, weight, moved(start), self.once))

    def _listed(self, generator: torch.Generator) -> torch.Tensor:
        """int64 [events]: which events an epoch learns from, in its order."""
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
        self, listed: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(events, the row of each, where each row starts): events of a query in runs, shuffled."""
        assert self.group is not None
        group = self.group[listed]
        order = torch.argsort(group, stable=True)
        event, group = listed[order], group[order]
        place = torch.arange(len(event), device=self.home)
        fresh = torch.ones_like(place, dtype=torch.bool)
        fresh[1:] = group[1:] != group[:-1]
        place = place - torch.where(fresh, place, 0).cummax(0).values
        run = (place % self.run == 0).cumsum(0) - 1
        count = int(run[-1]) + 1
        row = torch.randperm(count, generator=generator, device=self.home)[run]
        row, order = torch.sort(row, stable=True)
        start = torch.searchsorted(row, torch.arange(count + 1, device=self.home))
        return event[order], row, start
