"""An epoch: all rounds on all threads, each by one call of compiled code.

What that cannot do by itself, making histories and ordering items for adaptive negatives, is done
cell by cell from here instead, and after each round all threads wait for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from fmpair.engine.cpu.layout import Dealer, State
from fmpair.engine.cpu.operands import Attributes, Query
from fmpair.engine.cpu.rounds import Part, Plan, run_list_rounds, run_pair_epochs
from fmpair.engine.cpu.simd import width_of
from fmpair.engine.cpu.synchronization import LEFT, LINE, Flow, call, finished, flow_for
from fmpair.engine.cpu.worker import (
    Result,
    list_room,
    list_step_of,
    rule_of,
    scratch_for,
    step_of,
    taken_for,
    triples_of,
    worker,
    workers,
)
from fmpair.rng import streams

WAIT = 1.0  # seconds; some systems deliver an interrupt only when such a wait is over


def in_compiled_rounds(state: State) -> bool:
    """Whether compiled code can do an epoch by itself."""
    return state.problem.history is None and state.settings.negative_sampler != "adaptive"


def run_compiled(
    state: State, epoch: int, rate: float, pool: ThreadPoolExecutor
) -> tuple[float, int]:
    """An epoch of lists by compiled code: (sum of losses, steps); of pairs see `Crew`."""
    flow, plan = flow_for(state.settings.blocks), plan_for(state, epoch)
    threads, part = workers(state.settings), _list_rounds(state, plan, flow, rate)
    parts = [part(Part(n, threads)) for n in range(threads)]
    _finish([pool.submit(run_part, part, flow.stopped) for part in parts], flow.stopped)
    return fsum(plan.loss), int(plan.steps.sum())  # to the bit, in whichever order


def compiled_part(
    state: State, epoch: int, rate: float, part: Part
) -> Callable[[int], list[Result]]:
    """A part of a round by the same code, as a function of the round; nothing is merged.

    (user block, loss, steps) of each cell. For who has but a part of the users.
    """
    blocks = state.settings.blocks
    flow, plan = flow_for(blocks, part.threads), plan_for(state, epoch)
    plan.turns[2] = 0
    rounds: Callable[[], None]
    if state.settings.in_plain_pairs:
        rates = np.array(step_of(state.settings, rate))
        rounds = partial(pair_epochs(state, plan, flow, rates)(part), 1)
    else:
        rounds = _list_rounds(state, plan, flow, rate)(part)
    rows = range(*(blocks * n // part.threads for n in (part.number, part.number + 1)))

    def run(turn: int) -> list[Result]:
        flow.done[::LINE], plan.turns[:2] = turn, (turn, turn + 1)
        rounds()
        cells = [(row, row * blocks + (row + turn) % blocks) for row in rows]
        return [(row, float(plan.loss[at]), int(plan.steps[at])) for row, at in cells]

    return run


def plan_for(state: State, epoch: int) -> Plan:
    """All rounds of an epoch."""
    blocks, partition = state.settings.blocks, state.layout.partition
    cells = blocks**2
    return Plan(
        partition.cell, partition.item_edge, streams(cells, state.settings.seed, epoch),
        np.zeros(cells), np.zeros(cells, np.int64), np.array((0, blocks, 1)),
    )


def run_cells(
    state: State, epoch: int, rate: float, pool: ThreadPoolExecutor,
    before: Callable[[], None], after: Callable[[], None],
) -> tuple[float, int]:
    """The same cell by cell; before, after: what is done before and after every round."""
    stopped = flow_for(1).stopped
    parts = [worker(state, n, epoch, rate, stopped) for n in range(workers(state.settings))]
    results = []
    for turn in range(state.settings.blocks):
        before()
        done = _finish([pool.submit(part, turn) for part in parts], stopped)
        results += sorted(result for some in done for result in some)
        after()
    return fsum(r[1] for r in results), sum(r[2] for r in results)


def _finish(parts: list[Future[Any]], stopped: np.ndarray) -> list[Any]:
    """What the threads' parts give; an interrupt, which comes here, ends them all first."""
    try:
        while wait(parts, timeout=WAIT).not_done:
            pass
    except BaseException:
        stopped[0] = 1
        wait(parts)
        raise
    return [part.result() for part in parts]


def run_part(part: Callable[[], None], stopped: np.ndarray) -> None:
    """A thread's part; where it fails, the others end too instead of waiting for it."""
    try:
        part()
    except BaseException:
        stopped[0] = 1
        raise


def pair_epochs(
    state: State, plan: Plan, flow: Flow, rates: np.ndarray
) -> Callable[[Part], Callable[[int], None]]:
    """A thread's part of plain pairs, as a function of the epoch from which on it is called."""
    layout, sides = state.layout, _sides(state)
    given = (plan, flow, state.dealing, layout.work, state.tables, *sides, rates)

    def of(part: Part) -> Callable[[int], None]:
        own = (taken_for(layout), scratch_for(state), width_of(state.factors))
        return lambda epoch: run_pair_epochs(part, epoch, *given, *own)

    return of


def _list_rounds(
    state: State, plan: Plan, flow: Flow, rate: float
) -> Callable[[Part], Callable[[], None]]:
    """A thread's part of lists."""
    layout, sides = state.layout, _sides(state)

    def of(part: Part) -> Callable[[], None]:
        taken = taken_for(layout)
        room = list_room(state, len(taken), flow.stopped)
        step, folding = list_step_of(state, rate, len(taken))
        return partial(
            run_list_rounds, part, plan, flow, layout.work, state.tables, *sides, folding,
            layout.sampler, step, layout.l2_scale, state.accumulators,
            rule_of(state), *triples_of(state, rate), taken, room, width_of(state.length),
        )

    return of


def _sides(state: State) -> tuple[Query | None, Attributes | None]:
    """Both sides' features with all copies of their tables."""
    layout, problem = state.layout, state.problem
    query, attributes = None, None
    if state.query is not None:
        query = Query(
            state.query, layout.situation, np.int64(0), layout.contexts,
            layout.partition.user_at, problem.user_rows,
        )
    if state.features is not None:
        bias_share = np.float32(state.settings.has_bias)
        attributes = Attributes(
            state.features, layout.partition.item_at, problem.item_rows, bias_share
        )
    return query, attributes


# Threads that stay in compiled code from one epoch of plain pairs to the next.
#
# An epoch of a small set takes a few milliseconds; to start sixteen threads from the interpreter
# takes one or two of them, since each needs the interpreter's lock in turn.


LEAST_PAUSE, MOST_PAUSE = 5e-5, 0.05  # seconds between two looks whether an epoch is done
SHARE = 0.01  # of the time that it has taken so far: who looks more often takes time from threads
SURE = 0.9  # of the time that the quickest epoch so far took: not done sooner


class Crew:
    """The threads of one layout, whose arrays all epochs change in place.

    epochs: how many they were called to; took: the seconds of the quickest. parts: each one's work
    from an epoch on, as a function of that epoch. ahead: the next epoch, and its streams.
    """

    def __init__(self, state: State, pool: ThreadPoolExecutor):
        self.layout, self.settings, self.pool = state.layout, state.settings, pool
        self.epochs, self.took, self.running = 0, 0.0, set[Future[None]]()
        self.plan, self.rates = plan_for(state, 0), np.array(step_of(state.settings, 0))
        threads = workers(state.settings)
        self.flow = flow_for(state.settings.blocks, threads, LEFT)
        self.missing = np.zeros(threads, np.uint8)
        self.ahead = (0, self.plan.state)
        part = pair_epochs(state, self.plan, self.flow, self.rates)
        self.parts = [part(Part(n, threads)) for n in range(threads)]

    def epoch(self, number: int, rate: float, dealer: Dealer | None) -> tuple[float, int]:
        """One epoch: (sum of losses, steps). dealer: who looks ahead while threads work."""
        self.plan.state[:] = self._streams(number)
        self.rates[:] = step_of(self.settings, rate)
        self.epochs += 1
        call(self.flow, self.epochs, self.missing)
        if self.missing.any():
            self._start(np.flatnonzero(self.missing))
        try:
            self.ahead = (number + 1, self._streams(number + 1))
            if dealer is not None:
                dealer.look_ahead(number)
            self._await()
        except BaseException:
            self.dismiss()
            raise
        return fsum(self.plan.loss.tolist()), int(self.plan.steps.sum())

    def _streams(self, number: int) -> np.ndarray:
        """Of an epoch's cells, which are made while the threads are at the one before."""
        if self.ahead[0] == number:
            return self.ahead[1]
        return streams(len(self.plan.state), self.settings.seed, number)

    def _start(self, missing: np.ndarray) -> None:
        """Those threads that are not there."""
        self.running = {future for future in self.running if not future.done()}
        for n in missing:
            part = partial(self.parts[n], self.epochs)
            self.running.add(self.pool.submit(run_part, part, self.flow.stopped))

    def _await(self) -> None:
        """Until all threads have done the epoch; an interrupt comes here."""
        began, took, wanted = time.perf_counter(), 0.0, self.epochs * len(self.parts)
        while finished(self.flow) < wanted:
            if self.flow.stopped[0]:
                for future in self.running:
                    future.result()  # one of them says why
                return
            took = time.perf_counter() - began
            pause = max(SHARE * took, SURE * self.took - took, LEAST_PAUSE)
            time.sleep(min(pause, MOST_PAUSE))
        self.took = min(took, self.took or took)  # some make a partition too

    def dismiss(self) -> None:
        """End all threads' work; they stop within an epoch."""
        self.flow.stopped[0] = 1
        wait(self.running)
