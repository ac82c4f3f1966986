"""An epoch: all rounds on all threads, each by one call of compiled code.

What that cannot do by itself, making histories and ordering items for adaptive negatives, is done
cell by cell from here instead, and after each round all threads wait for all.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from fmpair.engine.cpu.flow import LINE, Flow, flow_for
from fmpair.engine.cpu.operands import Attributes, Query
from fmpair.engine.cpu.rounds import Part, Plan, run_list_rounds, run_pair_epochs
from fmpair.engine.cpu.simd import width_of
from fmpair.engine.cpu.state import State
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
