"""Running an epoch: all rounds on all threads, each thread by one call of compiled code.

`ThreadPool` runs plain pairs on threads that stay in compiled code between epochs, `run_compiled`
runs lists and minibatches. Histories and adaptive negatives need the interpreter: `run_cells` runs
them cell by cell, and all threads wait for each other after each round. `run_given_pairs` takes
steps on pairs that are given instead of drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import fsum
from typing import Any

import numpy as np

from fmpair.arrays import empty_rows
from fmpair.engine.contract import Pairs
from fmpair.engine.cpu import worker
from fmpair.engine.cpu.block_softmax import minibatch_buffers
from fmpair.engine.cpu.layout import Repartitioner, State
from fmpair.engine.cpu.operands import Copies, Shared
from fmpair.engine.cpu.pairs import PairFeatures, run_pairs
from fmpair.engine.cpu.rounds import (
    EpochPlan,
    ThreadShare,
    run_block_rounds,
    run_list_rounds,
    run_pair_epochs,
)
from fmpair.engine.cpu.simd import aligned, width_of
from fmpair.engine.cpu.synchronization import (
    GONE,
    LINE,
    Synchronization,
    call,
    finished_epochs,
    synchronization_for,
)
from fmpair.engine.strata.partition import places
from fmpair.rng import streams

WAIT = 1.0  # seconds; some systems deliver an interrupt only when such a wait is over
MIN_PAUSE, MAX_PAUSE = 5e-5, 0.05  # seconds between two checks whether an epoch is done
SHARE = 0.01  # of the elapsed time between two checks: more checks would slow the threads down
SURE = 0.9  # of the fastest epoch so far: no check before
NOTHING = np.zeros(0, np.float32)


class ThreadPool:
    """Threads that stay in compiled code from one epoch of plain pairs to the next.

    An epoch of a small data set takes a few milliseconds; starting sixteen threads from the
    interpreter takes one or two of them, since each needs the interpreter's lock. All epochs change
    the arrays of one layout in place. epochs: how many were run; fastest: seconds of the fastest.
    parts: the work of each thread, given its first epoch. ahead: the next epoch and its streams.
    """

    def __init__(self, state: State, pool: ThreadPoolExecutor):
        self.layout, self.settings, self.pool = state.layout, state.settings, pool
        self.epochs, self.fastest, self.running = 0, 0.0, set[Future[None]]()
        self.plan, self.rates = plan_for(state, 0), np.array(worker.step_sizes(state.settings, 0))
        threads = worker.workers(state.settings)
        self.sync = synchronization_for(state.settings.blocks, threads, GONE)
        self.missing = np.zeros(threads, np.uint8)
        self.ahead = (0, self.plan.state)
        part = pair_epochs(state, self.plan, self.sync, self.rates)
        self.parts = [part(ThreadShare(n, threads)) for n in range(threads)]

    def epoch(
        self, number: int, rate: float, repartitioner: Repartitioner | None
    ) -> tuple[float, int]:
        """Run one epoch and return (sum of losses, steps); repartitioner: prepares the next."""
        self.plan.state[:] = self._streams(number)
        self.rates[:] = worker.step_sizes(self.settings, rate)
        self.epochs += 1
        call(self.sync, self.epochs, self.missing)
        if self.missing.any():
            self._start(np.flatnonzero(self.missing))
        try:
            self.ahead = (number + 1, self._streams(number + 1))
            if repartitioner is not None:
                repartitioner.look_ahead(number)
            self._await()
        except BaseException:
            self.stop()
            raise
        return fsum(self.plan.loss.tolist()), int(self.plan.steps.sum())

    def stop(self) -> None:
        """End the work of all threads; they stop within an epoch."""
        self.sync.stopped[0] = 1
        wait(self.running)

    def _streams(self, number: int) -> np.ndarray:
        """Return the random states of an epoch's cells, made during the epoch before."""
        if self.ahead[0] == number:
            return self.ahead[1]
        return streams(len(self.plan.state), self.settings.seed, number)

    def _start(self, missing: np.ndarray) -> None:
        self.running = {future for future in self.running if not future.done()}
        for n in missing:
            part = partial(self.parts[n], self.epochs)
            self.running.add(self.pool.submit(run_part, part, self.sync.stopped))

    def _await(self) -> None:
        """Wait until all threads have completed the epoch; interrupts arrive here."""
        began, took, wanted = time.perf_counter(), 0.0, self.epochs * len(self.parts)
        while finished_epochs(self.sync) < wanted:
            if self.sync.stopped[0]:
                for future in self.running:
                    future.result()  # raises the error of the thread that failed
                return
            took = time.perf_counter() - began
            pause = max(SHARE * took, SURE * self.fastest - took, MIN_PAUSE)
            time.sleep(min(pause, MAX_PAUSE))
        self.fastest = min(took, self.fastest or took)  # some epochs make a partition too


def in_compiled_rounds(state: State) -> bool:
    """Return whether compiled code can run an epoch by itself."""
    return state.problem.history is None and state.settings.negative_sampler != "adaptive"


def run_compiled(
    state: State, epoch: int, rate: float, pool: ThreadPoolExecutor
) -> tuple[float, int]:
    """Run an epoch of lists or minibatches in compiled code: (sum of losses, steps)."""
    sync, plan = synchronization_for(state.settings.blocks), plan_for(state, epoch)
    threads, part = worker.workers(state.settings), _rounds(state, plan, sync, rate)
    parts = [part(ThreadShare(n, threads)) for n in range(threads)]
    _finish([pool.submit(run_part, part, sync.stopped) for part in parts], sync.stopped)
    return fsum(plan.loss), int(plan.steps.sum())  # exact, whatever the order


def compiled_part(
    state: State, epoch: int, rate: float, part: ThreadShare
) -> Callable[[int], list[worker.Result]]:
    """Return a function that runs one share of a round in compiled code, without merging.

    It takes the round and returns (user block, loss, steps) of each cell. For Ray workers, which
    have only some of the users.
    """
    blocks = state.settings.blocks
    sync, plan = synchronization_for(blocks, part.threads), plan_for(state, epoch)
    plan.turns[2] = 0
    rounds: Callable[[], None]
    if state.settings.in_plain_pairs:
        rates = np.array(worker.step_sizes(state.settings, rate))
        rounds = partial(pair_epochs(state, plan, sync, rates)(part), 1)
    else:
        rounds = _rounds(state, plan, sync, rate)(part)
    rows = range(*(blocks * n // part.threads for n in (part.number, part.number + 1)))

    def run(turn: int) -> list[worker.Result]:
        sync.done[::LINE], plan.turns[:2] = turn, (turn, turn + 1)
        rounds()
        cells = [(row, row * blocks + (row + turn) % blocks) for row in rows]
        return [(row, float(plan.loss[at]), int(plan.steps[at])) for row, at in cells]

    return run


def plan_for(state: State, epoch: int) -> EpochPlan:
    """Return the plan of all rounds of an epoch."""
    blocks, partition = state.settings.blocks, state.layout.partition
    cells = blocks**2
    return EpochPlan(
        partition.cell, partition.item_edge, streams(cells, state.settings.seed, epoch),
        np.zeros(cells), np.zeros(cells, np.int64), np.array((0, blocks, 1)),
    )


def run_cells(
    state: State, epoch: int, rate: float, pool: ThreadPoolExecutor,
    before: Callable[[], None], after: Callable[[], None],
) -> tuple[float, int]:
    """Run an epoch cell by cell; before, after: called before and after every round."""
    stopped = synchronization_for(1).stopped
    threads = range(worker.workers(state.settings))
    parts = [worker.thread_cells(state, n, epoch, rate, stopped) for n in threads]
    results = []
    for turn in range(state.settings.blocks):
        before()
        done = _finish([pool.submit(part, turn) for part in parts], stopped)
        results += sorted(result for some in done for result in some)
        after()
    return fsum(r[1] for r in results), sum(r[2] for r in results)


def _finish(parts: list[Future[Any]], stopped: np.ndarray) -> list[Any]:
    """Return the results of all threads; an interrupt, which arrives here, stops them first."""
    try:
        while wait(parts, timeout=WAIT).not_done:
            pass
    except BaseException:
        stopped[0] = 1
        wait(parts)
        raise
    return [part.result() for part in parts]


def run_part(part: Callable[[], None], stopped: np.ndarray) -> None:
    """Run the part of one thread; if it fails, the others stop instead of waiting for it."""
    try:
        part()
    except BaseException:
        stopped[0] = 1
        raise


def pair_epochs(
    state: State, plan: EpochPlan, sync: Synchronization, rates: np.ndarray
) -> Callable[[ThreadShare], Callable[[int], None]]:
    """Return the work of a thread on plain pairs, as a function of its first epoch."""
    layout, sides = state.layout, worker.sides_of(state)
    shared = (plan, sync, state.repartition, layout.work, state.tables, *sides, rates)

    def of(part: ThreadShare) -> Callable[[int], None]:
        of_thread = (worker.marks_for(layout), worker.scratch_for(state), width_of(state.factors))
        return lambda epoch: run_pair_epochs(part, epoch, *shared, *of_thread)

    return of


def _rounds(
    state: State, plan: EpochPlan, sync: Synchronization, rate: float
) -> Callable[[ThreadShare], Callable[[], None]]:
    """Return the work of a thread on lists or minibatches."""
    rounds = _block_rounds if state.settings.in_minibatches else _list_rounds
    return rounds(state, plan, sync, rate)


def _block_rounds(
    state: State, plan: EpochPlan, sync: Synchronization, rate: float
) -> Callable[[ThreadShare], Callable[[], None]]:
    """Return the work of a thread on minibatches."""
    layout, (query, _) = state.layout, worker.sides_of(state)
    most = worker.largest_block(layout)

    def of(part: ThreadShare) -> Callable[[], None]:
        return partial(
            run_block_rounds, part, plan, sync, layout.work, state.tables, query,
            worker.step_sizes(state.settings, rate), layout.l2_scale, worker.block_rule(state),
            minibatch_buffers(state.settings, state.length, most, sync.stopped),
            width_of(state.length),
        )

    return of


def _list_rounds(
    state: State, plan: EpochPlan, sync: Synchronization, rate: float
) -> Callable[[ThreadShare], Callable[[], None]]:
    """Return the work of a thread on lists."""
    layout, sides = state.layout, worker.sides_of(state)

    def of(part: ThreadShare) -> Callable[[], None]:
        taken = worker.marks_for(layout)
        buffers = worker.list_buffers(state, len(taken), sync.stopped)
        step, folding = worker.list_steps(state, rate, len(taken))
        return partial(
            run_list_rounds, part, plan, sync, layout.work, state.tables, *sides, folding,
            layout.sampler, step, layout.l2_scale, state.accumulators, worker.rule_of(state),
            *worker.triples_of(state, rate), taken, buffers, width_of(state.length),
        )

    return of


def run_given_pairs(state: State, pairs: Pairs, rate: float) -> float:
    """Take a step on each pair in order, on the first copy of shared tables; return the loss."""
    problem, partition = state.problem, state.layout.partition
    query, attributes = (_first_copy(s, state.factors) for s in (state.query, state.features))
    contexts = problem.contexts if len(problem.contexts.column) else empty_rows(1)
    if not len(contexts.column):
        pairs = pairs._replace(situation=np.zeros(len(pairs.user), np.int32))
    return run_pairs(
        pairs, (places(partition.user_at), places(partition.item_at)), state.tables,
        PairFeatures(query, contexts, problem.user_rows, attributes, problem.item_rows),
        worker.step_sizes(state.settings, rate), np.float32(state.settings.has_bias),
        worker.scratch_for(state), width_of(state.factors),
    )


def _first_copy(copies: Copies | None, factors: int) -> Shared:
    """Return the first copy of a shared table, or a table without moving rows."""
    if copies is not None:
        return copies.of(0)
    table = aligned(np.zeros((1, factors), np.float32))
    return Shared(table, NOTHING, np.zeros(0, np.int32), NOTHING, NOTHING)
