"""The reference engine: plain NumPy, one step at a time. It is the definition; `cpu` follows.

Same plan, same draws, same updates as the fast engine, in original numbering and without a thought
for speed. What a step makes small, and its gradients, stand in `objective.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine import plan, sampling
from fmpair.engine.decay import centre, decay, item_pace, query_pace
from fmpair.engine.draws import GOLDEN, MASK, mixed, stream
from fmpair.engine.objective import Choice, item_side, loss, query_side
from fmpair.engine.pace import Sums, first_sums
from fmpair.engine.problem import Parameters, Problem, Settings
from fmpair.engine.reference_step import take_step

TRIES = 32


@dataclass
class State:
    """Training under way, by original numbers."""

    problem: Problem
    settings: Settings
    events: plan.Events
    parameters: Parameters
    deal: plan.Deal | None = None
    sums: Sums | None = None


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> State:
    """Training that starts from the given parameters."""
    copy = Parameters(*(np.array(table, np.float64) for table in parameters))
    events = plan.by_user(problem, numbered=True)
    state = State(plan.with_unchosen(problem), settings, events, copy)
    if settings.optimizer == "adagrad":
        state.sums = first_sums(copy, settings, np.float64)
    return state


def epoch(state: State, number: int, rate: float) -> float:
    """One epoch (counted from 1) at a learning rate; the mean loss of its steps."""
    settings, blocks = state.settings, state.settings.blocks
    if state.deal is None or (number - 1) % settings.deal_every == 0:
        state.deal = plan.deal(state.events, blocks, settings.seed, number)
    losses: list[float] = []
    settings, problem = _with_decays(state), state.problem
    paces = {
        "query": query_pace(problem.query_groups, problem.contexts, problem.user_rows),
        "features": item_pace(problem.item_groups, problem.item_rows),
    }
    for turn in range(blocks):
        copies, sums, moves = [], [], []
        for t in range(blocks):
            own, own_sums = _own_copy(state.parameters), state.sums and _own_copy(state.sums)
            moved = (np.zeros(len(own.query)), np.zeros(len(own.features)))
            for choice in _choices(state, t, (t + turn) % blocks, number, own):
                losses.append(choice.urgency * loss(own, choice, settings))
                if len(choice.items) == 1:  # WARP found nothing to mend
                    continue
                take_step(own, choice, settings, rate, paces, own_sums)
                moved[0][choice.query[0]] += 1
                moved[1][np.unique(np.concatenate([side[0] for side in choice.sides]))] += 1
            copies.append(own)
            sums.append(own_sums)
            moves.append(moved)
        _merge(state.parameters, copies, moves)
        if state.sums:
            _merge(state.sums, sums, moves)
    if state.problem.has_query_features:
        centre(state.parameters.query, state.problem.query_groups)
    return float(np.mean(losses)) if losses else 0.0


def _with_decays(state: State) -> Settings:
    """The settings with the regularisation of adaptive fields settled for an epoch."""
    own, tables, problem = state.settings, state.parameters, state.problem
    most = own.strongest
    return own._replace(
        query=decay(own.query, own.query_threshold, tables.query, problem.query_groups, most),
        features=decay(
            own.features, own.feature_threshold, tables.features, problem.item_groups, most
        ),
    )


def snapshot(state: State) -> Parameters:
    """The parameters as they are now."""
    return Parameters(*(table.astype(np.float32) for table in state.parameters))


def _choices(
    state: State, block: int, item_block: int, number: int, tables: Parameters | None = None
) -> Iterator[Choice]:
    """The steps of one cell in order, with their candidates drawn; tables: the cell's own."""
    deal, settings, problem = state.deal, state.settings, state.problem
    assert deal is not None
    tables = tables or state.parameters
    cell = block * settings.blocks + item_block
    first, last = int(deal.cell[cell]), int(deal.cell[cell + 1])
    edge, end = int(deal.item_edge[item_block]), int(deal.item_edge[item_block + 1])
    visits = plan.visits(settings.positives, problem, state.events, settings.seed, number)
    if first == last or edge == end:
        return
    draws = Draws(stream(settings.seed, number, cell), problem, deal.item_at[edge:end], settings)
    draws.count(state.events.times, plan.batch(deal, block, item_block))
    shown_by_run = _shown(state)
    offset = (draws.next() >> 32) * (last - first) >> 32
    events = int(deal.run_start[last] - deal.run_start[first])
    fresh = set(sampling.pieces(last - first, events, end - edge)[:-1].tolist())
    for r in range(last - first):
        if r in fresh:
            draws.order(tables)
        run = first + (r + offset) % (last - first)
        slots = range(int(deal.run_start[run]), int(deal.run_start[run + 1]))
        mine = list(dict.fromkeys(int(deal.item[e]) - edge for e in slots))
        shown = [place - edge for place in shown_by_run.get(run, ())]
        user = int(deal.user_at[deal.run_user[run]])
        for e in slots if len(mine) < end - edge else ():
            event = int(deal.event[e])
            for _ in range(int(visits[event]) if len(visits) else 1):
                item = int(deal.item_at[deal.item[e]])
                choice = draws.corrected(_choice(problem, user, item, event))
                yield draws.candidates(tables, choice, mine, shown)


def _shown(state: State) -> dict[int, list[int]]:
    """By run the positions of items that its user was shown and did not choose."""
    assert state.deal is not None
    found: dict[int, list[int]] = {}
    rows = plan.shown_by_run(state.deal, state.problem.shown)
    for run, place in zip(rows.owner, rows.column) if len(rows.start) else ():
        found.setdefault(int(run), []).append(int(place))
    return found


def _choice(problem: Problem, user: int, item: int, event: int) -> Choice:
    """A step without candidates yet."""
    profile = _row(problem.user_rows, user)
    situation = _row(problem.contexts, int(problem.situation[event]))
    query = (np.append(profile[0], situation[0]), np.append(profile[1], situation[1]))
    side = _row(problem.item_rows, item)
    return Choice(user, (item,), query, (side,), float(problem.weight[event]))


def _row(rows: Rows, number: int) -> tuple[np.ndarray, np.ndarray]:
    entries = slice(rows.start[number], rows.start[number + 1])
    return rows.column[entries], rows.value[entries].astype(np.float64)


class Draws:
    """A cell's stream of random numbers, and the candidates it draws; items: those of its block."""

    def __init__(self, state: int, problem: Problem, items: np.ndarray, settings: Settings):
        self.state, self.problem, self.items, self.settings = state, problem, items, settings

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mixed(self.state)

    def count(self, times: np.ndarray, batch: np.ndarray) -> None:
        """times: of every item; batch: the items of the cell's events, by number in the block."""
        self.times, self.batch = times, batch
        self.accept, self.other = sampling.alias_table(times[self.items] ** self.settings.power)

    def order(self, tables: Parameters) -> None:
        """Adaptive: order the items anew by every factor."""
        sides = [item_side(tables, i, _row(self.problem.item_rows, i)) for i in self.items]
        vectors, constants = np.array([p for p, _ in sides]), np.array([b for _, b in sides])
        self.ordered = sampling.ordering(vectors, constants, self.settings)

    def candidates(
        self, tables: Parameters, choice: Choice, mine: list[int], shown: list[int]
    ) -> Choice:
        """The choice with its candidates: distinct and unseen, or for WARP the first too good.

        mine, shown: the user's items, and those shown to the user; this shuffles both.
        """
        taken = set(mine)
        settings, q = self.settings, query_side(tables, choice)
        if settings.loss != "warp":
            known = self.known(choice, mine, shown)
            for j in known:
                choice = self.extended(choice, j)
            used, more = taken | set(known), settings.candidates - len(known)
            for _ in range(min(more, len(self.items) - len(used))):
                j = self.unseen(used, q)
                used.add(j)
                choice = self.extended(choice, j)
            return choice
        everything = np.union1d(np.flatnonzero(self.problem.drawn), self.problem.item).size
        for tries, draw in enumerate([self.next() for _ in range(settings.candidates)], 1):
            j = self.pick(draw, q)
            tried = self.extended(choice, j)
            if loss(tables, tried, settings) > 0 and j not in taken:
                rank = (everything - 1) // tries
                return replace(tried, urgency=math.log1p(rank) / math.log1p(everything - 1))
        return choice

    def known(self, choice: Choice, mine: list[int], shown: list[int]) -> list[int]:
        """Candidates among the user's other items and those shown, where the settings ask so."""
        settings, most = self.settings, self.settings.candidates
        shares = settings.own_share + settings.shown_share
        if not shares:
            return []
        chance = (self.next() >> 32) / 2**32  # rounds both up or down
        own = int(most * settings.own_share + chance)
        found = self.some(mine, own) + self.some(shown, int(most * shares + chance) - own)
        return [j for j in found if self.items[j] != choice.i]

    def some(self, listed: list[int], wanted: int) -> list[int]:
        """So many of the listed, or all; the list is shuffled."""
        for n in range(min(wanted, len(listed))):
            place = n + ((self.next() >> 32) * (len(listed) - n) >> 32)
            listed[n], listed[place] = listed[place], listed[n]
        return listed[:wanted]

    def extended(self, choice: Choice, j: int) -> Choice:
        item = int(self.items[j])
        side = _row(self.problem.item_rows, item)
        longer = replace(choice, items=(*choice.items, item), sides=(*choice.sides, side))
        return self.corrected(longer)

    def corrected(self, choice: Choice) -> Choice:
        """The choice with what is taken off the scores, where the settings ask so."""
        if not self.settings.correction:
            return choice
        off = sampling.log_chances(self.times[list(choice.items)], self.settings)
        return replace(choice, off=tuple(off.tolist()))

    def unseen(self, taken: set[int], q: np.ndarray) -> int:
        """A number not taken: tried at random, then the next free one."""
        for _ in range(TRIES):
            draw = self.next()
            halves = (draw, draw << 32) if self.settings.negatives == "uniform" else (draw,)
            for half in halves:
                j = self.pick(half & MASK, q)
                if j not in taken:
                    return j
        while j in taken:
            j = (j + 1) % len(self.items)
        return j

    def pick(self, draw: int, q: np.ndarray) -> int:
        """One item of the block from a draw of 64 bits, seen or not."""
        upper, lower, count = draw >> 32, draw & 0xFFFFFFFF, len(self.items)
        slot = upper * count >> 32
        if self.settings.negatives == "uniform":
            return slot
        if self.settings.negatives == "batch":
            return int(self.batch[upper * len(self.batch) >> 32])
        if self.settings.negatives == "popularity":
            return slot if lower <= self.accept[slot] else int(self.other[slot])
        assert self.ordered.order is not None
        chances = np.cumsum(np.abs(np.append(q, 1.0)) * self.ordered.spread)
        factor = min(int((chances <= upper / 2**32 * chances[-1]).sum()), len(q))
        mean, inside = self.ordered.depth
        rank = min(int(-mean * math.log(1 - lower / 2**32 * inside)), count - 1)
        liked = factor == len(q) or q[factor] > 0
        return int(self.ordered.order[factor][-1 - rank if liked else rank])


def _own_copy(tables: Any) -> Any:
    """Parameters or sums with copies of the shared tables, for one cell."""
    shared = {"query", "features", "feature_bias"} & set(tables._fields)
    return tables._replace(**{name: getattr(tables, name).copy() for name in shared})


def _merge(tables: Any, copies: list, moves: list[tuple]) -> None:
    """Shared rows become the mean of the cells' copies, weighted by how often each moved them.

    tables, copies: Parameters, or the sums of their rows.
    """
    for names, side in ((("query",), 0), (("features", "feature_bias"), 1)):
        times = np.stack([moved[side] for moved in moves])
        touched = times.any(axis=0)
        share = times[:, touched] / times[:, touched].sum(axis=0)
        for name in set(names) & set(tables._fields):
            stack = np.stack([getattr(copy, name)[touched] for copy in copies])
            weight = share.reshape(share.shape + (1,) * (stack.ndim - 2))
            getattr(tables, name)[touched] = (weight * stack).sum(axis=0)
