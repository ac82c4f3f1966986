"""Minibatches of queries and chosen items, in the order of an epoch.

The events of an epoch are visited in blocks of a random permutation. The permutation is computed,
not stored, so that the memory of an epoch depends on the block only. Events that do not fit on the
device stay in main memory; the next block is gathered and copied while the current one is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import torch

from fmpair.arrays import all_are
from fmpair.device_columns import stored
from fmpair.engine.contract import Problem
from fmpair.engine.torch.softmax import Chosen

# Rows of a minibatch are rounded up to a multiple, with a margin, so that all epochs have as many.
ROWS_STEP, SPARE = 64, 1.02
BLOCK = 1 << 25  # events shuffled and grouped at a time
BLOCK_ALONE = 1 << 23  # the same where each event has its own row, and blocks change nothing
BLOCK_EVENT = 200  # bytes of an event in a block, including those needed to sort it
ROUNDS = 6  # of the permutation
FIRST, SECOND, BITS = -7046029254386353131, -4658895280553007687, 0x7FFFFFFF  # of the hash


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


class Block(NamedTuple):
    """Events on the device, in their order. weight: float32 [events]; others: int64 [events]."""

    event: torch.Tensor
    user: torch.Tensor
    item: torch.Tensor
    situation: torch.Tensor
    weight: torch.Tensor

    def take(self, order: torch.Tensor) -> Block:
        return Block(*(column[order] for column in self))


def learned_events(problem: Problem) -> np.ndarray | None:
    """Return the numbers of the events to learn from, None for all."""
    return None if all_are(problem.known, False) else np.flatnonzero(~problem.known)


def event_bytes(problem: Problem) -> int:
    """Return the bytes of all events on the device, without those of a block."""
    columns = (problem.user, problem.item, problem.situation, problem.weight)
    each = sum(column.itemsize for column in columns if column.strides != (0,))
    return len(problem.user) * (each if all_are(problem.known, False) else each + 8)


class EpochEvents:
    """The events of a problem on a device, or in main memory if they are too many for it.

    run: how many events of the same query may share a row of scores in a minibatch; 1 if every
    event has its own query. together: the mean number of events per row. once: whether it is known
    that no row has an item twice. block: events prepared at a time.
    """

    def __init__(
        self,
        problem: Problem,
        positives: str,
        run: int,
        device: torch.device,
        in_main_memory: bool = False,
        block: int = BLOCK,
    ):
        home = torch.device("cpu") if in_main_memory else device
        self.device, self.home, self.in_main_memory = device, home, in_main_memory
        self.positives, self.run = positives, run if positives == "permutation" else 1
        columns = (problem.user, problem.item, problem.situation, problem.weight)
        self.columns = [stored(c[:1] if c.strides == (0,) else c, home) for c in columns]
        learned = learned_events(problem)
        self.learned = None if learned is None else stored(learned, home)
        self.count = len(problem.user) if learned is None else len(learned)
        self.contexts, self.items, self.block = problem.contexts.size, problem.items, block
        self.rows, self.together = 0, 1.0
        self.once = run == 1 or (self.run > 1 and self._inspect_first_block())

    def _inspect_first_block(self) -> bool:
        """Set `together`; return whether it has all events, and no query has an item twice."""
        if not self.count:
            return True
        block = self._block(self._shuffled(0, min(self.count, self.block), 0))
        query = self._queries(block)
        _, times = torch.unique(query, return_counts=True)
        self.together = len(query) / max(int((-(-times // self.run)).sum()), 1)
        pairs = torch.unique(query * self.items + block.item)
        return len(pairs) == self.count

    def batches(self, size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield all events of an epoch, `size` at a time; generator: on the device.

        All minibatches but the last have the same number of rows; some rows may be empty.
        """
        size = min(size, self.count)
        for block in self._blocks(size, generator):
            if self.run > 1:
                yield from self._of_runs(block, size, generator)
                continue
            row, start = (torch.arange(size + n, device=self.device) for n in (0, 1))
            for event, user, item, situation, weight in zip(*(c.split(size) for c in block)):
                count = len(event)
                chosen = Chosen(row[:count], item, weight, start[: count + 1], self.once)
                yield Minibatch(user, situation, event, chosen)

    def _of_runs(self, block: Block, size: int, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield the minibatches of a block in which events of one query share rows."""
        block, row, start = self._in_runs(block, size, generator)
        heads = block.take(start.clamp(max=len(row) - 1))
        for n, top in enumerate(row[::size].tolist()):
            events = slice(n * size, min((n + 1) * size, len(row)))
            height = self.rows if events.stop - events.start == size else int(row[-1]) - top + 1
            part = slice(top, top + height)
            starts = (
                start[part.start : part.stop + 1].clamp(events.start, events.stop) - events.start
            )
            chosen = Chosen(
                row[events] - top, block.item[events], block.weight[events], starts, self.once
            )
            yield Minibatch(heads.user[part], heads.situation[part], heads.event[part], chosen)

    def _in_runs(
        self, block: Block, size: int, generator: torch.Generator
    ) -> tuple[Block, torch.Tensor, torch.Tensor]:
        """Return events, their rows and the start of each row; set the rows of a minibatch.

        Events of the same query form runs, which are shuffled. Rows after the last are empty.
        """
        group, order = torch.sort(self._queries(block), stable=True)
        number_in_query = torch.arange(len(group), device=self.device) - torch.searchsorted(
            group, group
        )
        run = (number_in_query % self.run == 0).cumsum(0) - 1
        count = int(run[-1]) + 1
        row = torch.randperm(count, generator=generator, device=self.device)[run]
        row, again = torch.sort(row, stable=True)
        first = row[::size]
        last = torch.cat([row[size - 1 :: size], row[-1:]])[: len(first)]
        most = int((last - first).max()) + 1
        self.rows = min(max(self.rows, -(-int(most * SPARE) // ROWS_STEP) * ROWS_STEP), size)
        rows = torch.arange(count + self.rows + 1, device=self.device)
        return block.take(order[again]), row, torch.searchsorted(row, rows)

    def _queries(self, block: Block) -> torch.Tensor:
        return block.user * self.contexts + block.situation

    # Blocks.

    def _blocks(self, size: int, generator: torch.Generator) -> Iterator[Block]:
        """Yield the events of an epoch in blocks of whole minibatches."""
        if not self.count:
            return
        most = self.block if self.run > 1 else min(self.block, BLOCK_ALONE)
        each = -(-self.count // -(-self.count // most))
        each = -(-each // size) * size
        listed = self._listed(generator)
        spans = [(n, min(n + each, self.count)) for n in range(0, self.count, each)]
        if not self.in_main_memory:
            yield from (self._block(listed(*span)) for span in spans)
            return
        with ThreadPoolExecutor(1) as pool:
            stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
            ahead = pool.submit(self._sent, listed, spans[0], stream)
            for number in range(len(spans)):
                block = ahead.result()
                if number + 1 < len(spans):
                    ahead = pool.submit(self._sent, listed, spans[number + 1], stream)
                for column in block if stream is not None else ():
                    column.record_stream(torch.cuda.current_stream())
                yield block

    def _sent(
        self,
        listed: Callable[[int, int], torch.Tensor],
        span: tuple[int, int],
        stream: torch.cuda.Stream | None,
    ) -> Block:
        """Return a block that was gathered in main memory and copied on a stream of its own."""
        with nullcontext() if stream is None else torch.cuda.stream(stream):
            block = self._block(listed(*span))
        if stream is not None:
            stream.synchronize()
        return block

    def _block(self, event: torch.Tensor) -> Block:
        """Gather the columns of events, which are numbered on `home`."""
        columns = [event, *(self._gathered(column, event) for column in self.columns)]
        moved = [column.to(self.device, non_blocking=True) for column in columns]
        return Block(*(c if c.is_floating_point() else c.long() for c in moved))

    def _gathered(self, column: torch.Tensor, event: torch.Tensor) -> torch.Tensor:
        """Return the values of events; a column of one value is that of all events."""
        if len(column) < 2:
            return column.expand(len(event)).clone()
        if self.home == self.device or self.device.type != "cuda":
            return column[event]
        pinned = torch.empty(len(event), dtype=column.dtype, pin_memory=True)
        return torch.index_select(column, 0, event, out=pinned)

    # The order of an epoch.

    def _listed(self, generator: torch.Generator) -> Callable[[int, int], torch.Tensor]:
        """Return a function that returns the events from position `first` to before `last`."""
        if self.positives == "permutation":
            draw = torch.randint(1 << 62, (1,), generator=generator, device=self.device)
            key = int(draw)
            return lambda first, last: self._shuffled(first, last, key)
        events = self._drawn(generator)
        return lambda first, last: events[first:last]

    def _shuffled(self, first: int, last: int, key: int) -> torch.Tensor:
        position = torch.arange(first, last, device=self.device)
        event = permuted(position, self.count, key).to(self.home)
        return event if self.learned is None else self.learned[event]

    def _drawn(self, generator: torch.Generator) -> torch.Tensor:
        """Draw the events of an epoch with replacement: int64 [events]."""
        count, user = self.count, self.columns[0].to(self.device)
        learned = self.learned
        every = torch.arange(count) if learned is None else learned
        every = every.to(self.device)
        draws = torch.rand(2, count, generator=generator, device=self.device, dtype=torch.float64)
        if self.positives == "bootstrap":
            return every[(draws[0] * count).long().clamp(max=count - 1)].to(self.home)
        user = user[every].long()
        order = torch.argsort(user, stable=True)
        _, times = torch.unique_consecutive(user[order], return_counts=True)
        first = times.cumsum(0) - times
        user_number = (draws[0] * len(times)).long().clamp(max=len(times) - 1)
        entry = first[user_number] + (draws[1] * times[user_number]).long().clamp(
            max=times[user_number] - 1
        )
        return every[order[entry]].to(self.home)


def permuted(position: torch.Tensor, count: int, key: int) -> torch.Tensor:
    """Return the number at each position of a random permutation: int64 [positions].

    A Feistel network over a grid of about sqrt(count) rows and columns. A number of `count` or more
    is permuted again until it is below.
    """
    wide = max(int(np.ceil(np.sqrt(count))), 1)
    out = _crossed(position, -(-count // wide), wide, key)
    outside = torch.nonzero(out >= count)[:, 0]
    while len(outside):
        out[outside] = _crossed(out[outside], -(-count // wide), wide, key)
        outside = outside[out[outside] >= count]
    return out


def _crossed(position: torch.Tensor, high: int, wide: int, key: int) -> torch.Tensor:
    """Permute the cells of a grid: shift rows by a hash of the column, then columns, in turns."""
    row, column = torch.div(position, wide, rounding_mode="floor"), position % wide
    for turn in range(ROUNDS):
        salt = (key + turn * 0x5851F42D4C957F2D) % (1 << 63)
        if turn % 2:
            column = (column + _hash(row, salt)) % wide
        else:
            row = (row + _hash(column, salt)) % high
    return row * wide + column


def _hash(values: torch.Tensor, salt: int) -> torch.Tensor:
    """Return a hash of 31 bits: int64 like values."""
    mixed = (values + salt) * FIRST
    mixed ^= (mixed >> 32) & BITS
    mixed *= SECOND
    return (mixed >> 32) & BITS
