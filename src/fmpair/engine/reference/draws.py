"""The steps of a cell in order, with their negatives: the draws of the reference engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters, Problem, Settings
from fmpair.engine.item_side import vector_length
from fmpair.engine.reference.objective import Choice, item_side, loss, query_side
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata import sampling_tables
from fmpair.engine.strata.sampling_tables import PARTS, PER_DRAW, dropped_parts
from fmpair.rng import GOLDEN, MASK, mixed, stream

TRIES = 32


@dataclass(frozen=True)
class StrataCell:
    """The cell of a user block and an item block of a partition."""

    problem: Problem
    settings: Settings
    events: strata.EventsByUser
    partition: strata.Partition
    user_block: int
    item_block: int

    @property
    def number(self) -> int:
        return self.user_block * self.partition.blocks + self.item_block

    @property
    def runs(self) -> tuple[int, int]:
        first, last = self.partition.cell[self.number : self.number + 2]
        return int(first), int(last)

    @property
    def edges(self) -> tuple[int, int]:
        """The first position of the item block, and the one after its last."""
        edge, end = self.partition.item_edge[self.item_block : self.item_block + 2]
        return int(edge), int(end)

    @property
    def items(self) -> np.ndarray:
        return self.partition.item_at[slice(*self.edges)]

    @property
    def batch(self) -> np.ndarray:
        """The items of the cell's events, numbered in the block."""
        return strata.batch(self.partition, self.user_block, self.item_block)


def choices(
    cell: StrataCell, epoch: int, tables: Parameters, at_run: Callable[[bool], None] | None = None
) -> Iterator[Choice]:
    """Yield the steps of a cell in order, with their negatives; tables: the cell's own.

    at_run: called before every run, with whether its items are about to be sorted again.
    """
    partition, settings, problem = cell.partition, cell.settings, cell.problem
    (first, last), (edge, end) = cell.runs, cell.edges
    visits = strata.visits(settings.positives, problem, cell.events, settings.seed, epoch)
    if first == last or edge == end:
        return
    draws = Draws(cell, stream(settings.seed, epoch, cell.number))
    length = vector_length(tables.users.shape[1], problem.triples)
    impressions_by_run = _impressions(cell)
    offset = (draws.next() >> 32) * (last - first) >> 32
    events = int(partition.run_start[last] - partition.run_start[first])
    fresh = set(sampling_tables.pieces(last - first, events, end - edge)[:-1].tolist())
    for r in range(last - first):
        if at_run:
            at_run(r in fresh and settings.negative_sampler == "adaptive")
        if r in fresh:
            draws.order(tables)
        run = first + (r + offset) % (last - first)
        slots = range(int(partition.run_start[run]), int(partition.run_start[run + 1]))
        mine = list(dict.fromkeys(int(partition.item[e]) - edge for e in slots))
        impressions = [other - edge for other in impressions_by_run.get(run, ())]
        user = int(partition.user_at[partition.run_user[run]])
        for e in slots if len(mine) < end - edge else ():
            event = int(partition.event[e])
            for _ in range(int(visits[event]) if len(visits) else 1):
                item = int(partition.item_at[partition.item[e]])
                weight = float(problem.weight[event])
                choice = choice_of(problem, user, (item,), int(problem.situation[event]), weight)
                choice = with_history(choice, problem, event)
                choice = draws.dropped(draws.corrected(choice), length)
                yield draws.negatives(tables, choice, mine, impressions)


def choice_of(
    problem: Problem, user: int, items: tuple[int, ...], situation: int, weight: float
) -> Choice:
    """Return a step on the given items, the positive first."""
    profile, context = row(problem.user_rows, user), row(problem.contexts, situation)
    query = (np.append(profile[0], context[0]), np.append(profile[1], context[1]))
    return Choice(user, items, query, tuple(row(problem.item_rows, i) for i in items), weight)


def with_history(choice: Choice, problem: Problem, event: int) -> Choice:
    """Add the history of an event to its choice, if histories are used."""
    history = problem.history
    if history is None:
        return choice
    first = int(history.since[event]) if len(history.since) else int(history.start[choice.u])
    before = history.item[first : history.until[event]][::-1]
    total: dict[int, float] = {}
    for item, weight in zip(before, history.weight):
        for column, value in zip(*row(history.rows, int(item))):
            total[int(column)] = total.get(int(column), 0.0) + float(weight) * value
    column, value = choice.query
    query = (np.append(column, list(total)).astype(int), np.append(value, list(total.values())))
    return replace(choice, query=query)


def row(rows: Rows, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (columns, values) of one row."""
    entries = slice(rows.start[number], rows.start[number + 1])
    return rows.column[entries], rows.value[entries].astype(np.float64)


def _impressions(cell: StrataCell) -> dict[int, list[int]]:
    """Return, by run, the positions of items shown to its user and not chosen."""
    by_run: dict[int, list[int]] = {}
    rows = strata.impressions_by_run(cell.partition, cell.problem.impressions)
    for run, position in zip(rows.owner, rows.column) if len(rows.start) else ():
        by_run.setdefault(int(run), []).append(int(position))
    return by_run


class Draws:
    """The random stream of a cell and the candidates it draws; items: those of its block."""

    def __init__(self, cell: StrataCell, state: int):
        self.state, self.problem, self.settings = state, cell.problem, cell.settings
        self.items, self.times, self.batch = cell.items, cell.events.times, cell.batch
        weight = self.times[self.items] ** self.settings.popularity_power
        self.accept, self.other = sampling_tables.alias_table(weight)
        self.ordered = sampling_tables.Sampler()

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mixed(self.state)

    def dropped(self, choice: Choice, factors: int) -> Choice:
        """Apply dropout to the query of a choice."""
        parts = dropped_parts(self.settings.dropout)
        if not parts:
            return choice
        draws = [self.next() for _ in range(-(-factors // PER_DRAW))]
        bytes_drawn = [draw >> 8 * n & 0xFF for draw in draws for n in range(PER_DRAW)]
        kept = np.array(bytes_drawn[:factors]) >= parts
        return replace(choice, kept=np.where(kept, PARTS / (PARTS - parts), 0.0))

    def order(self, tables: Parameters) -> None:
        """Sort the items by every factor, for adaptive negatives."""
        triples = self.problem.triples
        sides = [item_side(tables, i, row(self.problem.item_rows, i), triples) for i in self.items]
        vectors, constants = np.array([p for p, _ in sides]), np.array([b for _, b in sides])
        self.ordered = sampling_tables.ordering(vectors, constants, self.settings)

    def negatives(
        self, tables: Parameters, choice: Choice, mine: list[int], impressions: list[int]
    ) -> Choice:
        """Add candidates to a choice: distinct and not taken, or for WARP the first violation.

        mine, impressions: the user's items, and items shown to the user; both are shuffled.
        """
        taken = set(mine)
        settings, triples = self.settings, self.problem.triples
        q = query_side(tables, choice, triples)
        if settings.loss != "warp":
            known = self.known(choice, mine, impressions)
            for j in known:
                choice = self.extended(choice, j)
            used, more = taken | set(known), settings.n_negatives - len(known)
            for _ in range(min(more, len(self.items) - len(used))):
                j = self.unseen(used, q)
                used.add(j)
                choice = self.extended(choice, j)
            return self.raised(choice, 1 + len(known))
        everything = self.everything
        for tries, draw in enumerate([self.next() for _ in range(settings.n_negatives)], 1):
            j = self.pick(draw, q)
            tried = self.extended(choice, j)
            if loss(tables, tried, settings, triples) > 0 and j not in taken:
                rank = (everything - 1) // tries
                return replace(tried, warp_weight=math.log1p(rank) / math.log1p(everything - 1))
        return choice

    def known(self, choice: Choice, mine: list[int], impressions: list[int]) -> list[int]:
        """Return candidates among the user's other items and impressions."""
        settings, most = self.settings, self.settings.n_negatives
        shares = settings.own_share + settings.impression_share
        if not shares:
            return []
        chance = (self.next() >> 32) / 2**32  # rounds both up or down
        n_own = int(most * settings.own_share + chance)
        n_shown = int(most * shares + chance) - n_own
        listed = self.some(mine, n_own) + self.some(impressions, n_shown)
        return [j for j in listed if self.items[j] != choice.i]

    def some(self, listed: list[int], wanted: int) -> list[int]:
        """Return `wanted` of the listed, or all; the list is shuffled."""
        for n in range(min(wanted, len(listed))):
            other = n + ((self.next() >> 32) * (len(listed) - n) >> 32)
            listed[n], listed[other] = listed[other], listed[n]
        return listed[:wanted]

    def extended(self, choice: Choice, j: int) -> Choice:
        item = int(self.items[j])
        side = row(self.problem.item_rows, item)
        longer = replace(choice, items=(*choice.items, item), sides=(*choice.sides, side))
        return self.corrected(longer)

    def corrected(self, choice: Choice) -> Choice:
        """Set the logQ correction of a choice."""
        if not self.settings.logq_correction or self.settings.negative_sampler == "uniform":
            return choice
        off = sampling_tables.log_chances(self.times[list(choice.items)], self.settings)
        return replace(choice, off=tuple(off.tolist()))

    def raised(self, choice: Choice, first_drawn: int) -> Choice:
        """Let each uniform negative, from first_drawn on, stand for its share of all items."""
        raised = sampling_tables.raised_by(self.settings, self.everything)
        if not raised:
            return choice
        n_drawn = len(choice.items) - first_drawn
        return replace(choice, off=(0.0,) * first_drawn + (-raised,) * n_drawn)

    @property
    def everything(self) -> int:
        """The number of items with events or that may be drawn."""
        return np.union1d(np.flatnonzero(self.problem.drawn), self.problem.item).size

    def unseen(self, taken: set[int], q: np.ndarray) -> int:
        """Return a number not taken: drawn at random, then the next free one."""
        for _ in range(TRIES):
            draw = self.next()
            halves = (draw, draw << 32) if self.settings.negative_sampler == "uniform" else (draw,)
            for half in halves:
                j = self.pick(half & MASK, q)
                if j not in taken:
                    return j
        while j in taken:
            j = (j + 1) % len(self.items)
        return j

    def pick(self, draw: int, q: np.ndarray) -> int:
        """Return an item of the block from a draw of 64 bits, taken or not."""
        upper, lower, count = draw >> 32, draw & 0xFFFFFFFF, len(self.items)
        slot = upper * count >> 32
        if self.settings.negative_sampler == "uniform":
            return slot
        if self.settings.negative_sampler == "batch":
            return int(self.batch[upper * len(self.batch) >> 32])
        if self.settings.negative_sampler == "popularity":
            return slot if lower <= self.accept[slot] else int(self.other[slot])
        assert self.ordered.order is not None
        chances = np.cumsum(np.abs(np.append(q, 1.0)) * self.ordered.spread)
        factor = min(int((chances <= upper / 2**32 * chances[-1]).sum()), len(q))
        mean, inside = self.ordered.depth
        rank = min(int(-mean * math.log(1 - lower / 2**32 * inside)), count - 1)
        liked = factor == len(q) or q[factor] > 0
        return int(self.ordered.order[factor][-1 - rank if liked else rank])
