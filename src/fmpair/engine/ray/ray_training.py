"""Training on a Ray cluster: the same plan, and bit for bit the same result, as on threads."""

from __future__ import annotations

import logging
from math import fsum
from typing import Any

import numpy as np

from fmpair.cluster import connect, cores, first_line, is_lost, one_line_errors
from fmpair.engine.contract import NO_WEIGHT, Pairs, Parameters, Problem, Settings, ShardSource
from fmpair.engine.cpu.cpu_training import CPUTraining
from fmpair.engine.ray.exchange import (
    Merging,
    RoundResult,
    TableBlock,
    WorkerRows,
    rounds_between_checkpoints,
    store_rows,
)
from fmpair.engine.ray.ray_worker import (
    Worker,
    counts_of,
    rows_of,
    shards_of,
    split,
    without_events,
    worker_plan,
)
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.partition import Assignment, assigned
from fmpair.errors import MachineError
from fmpair.threads import check_process

LOG = logging.getLogger("fmpair")
FIRST = 120.0  # seconds until the first process must have started
OTHERS = 20.0  # seconds for the others after that; a machine may have gone away
TRIES = 5  # attempts at the same round


class WorkerPool:
    """The worker processes of a training."""

    def __init__(self, ray: Any, blocks: int) -> None:
        self.ray, self.blocks = ray, blocks
        self.workers: list[Any] = []

    @property
    def rows(self) -> list[range]:
        """The user blocks of each worker."""
        count = len(self.workers)
        return [rows_of(self.blocks, (number, count)) for number in range(count)]

    def start(self) -> None:
        """Start one per core, but not more than user blocks."""
        ray, free = self.ray, cores(self.ray)
        kind = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Worker)
        started = [kind.remote() for _ in range(min(self.blocks, free))]
        pending = {worker.ready.remote(): worker for worker in started}
        done, _ = ray.wait(list(pending), num_returns=1, timeout=FIRST)
        if done:
            done, _ = ray.wait(list(pending), num_returns=len(pending), timeout=OTHERS)
        self.workers = [pending[ref] for ref in pending if ref in done and self._began(ref)]
        for worker in started:
            if worker not in self.workers:
                ray.kill(worker)
        if not self.workers:
            raise MachineError(
                f"no process started on the Ray cluster within {FIRST:.0f} seconds: all of its "
                f"{free} cores are busy; try again later, or add machines"
            )

    def _began(self, ref: Any) -> bool:
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayActorError:
            return False

    def all(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Call a method of each worker with its own arguments and wait for the results."""
        calls = zip(self.workers, arguments)
        return self.ray.get([getattr(worker, method).remote(*given) for worker, given in calls])

    def stop(self) -> None:
        """Kill all processes."""
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []


def begin(
    problem: Problem, parameters: Parameters, settings: Settings, source: ShardSource | None = None
) -> RayTraining:
    """Start training from the given parameters, on the cluster named by the settings.

    source: the events, if the problem does not have them.
    """
    check_process()
    ray, problem = connect(settings.on), strata.with_unchosen(problem)
    with one_line_errors():
        source = source or _stored(ray, problem, settings)
        return RayTraining(ray, problem, parameters, settings, source)


def _stored(ray: Any, problem: Problem, settings: Settings) -> ShardSource:
    """Put the events of a problem into the object store."""
    numbered = settings.positives != "permutation" or bool(problem.known.any())
    return ShardSource(
        *counts_of(problem), [ray.put(shard) for shard in shards_of(problem, numbered)]
    )


def _by_worker(ray: Any, source: ShardSource, owner: np.ndarray, workers: int) -> list[list[Any]]:
    """Return the events of each worker's users: refs of shards, and functions that make some."""
    if workers == 1:
        return [[*source.shards, *source.made]]
    task = ray.remote(num_cpus=0)(split).options(num_returns=workers)
    of_users = ray.put(owner)
    parts = [task.remote(ref, of_users, workers) for ref in source.shards]
    return [[*(part[worker] for part in parts), *source.made] for worker in range(workers)]


class RayTraining:
    """Training in progress. The driver has no events, only the parameters.

    whole: the tables, by the problem's numbers, at the last checkpoint; workers have the current
    ones. assignment: the current blocks of users and items. stage: what workers have: 0 nothing, 1
    their events, 2 also their tables. passed: the item blocks on their way to each worker, or None.
    """

    def __init__(
        self,
        ray: Any,
        problem: Problem,
        parameters: Parameters,
        settings: Settings,
        source: ShardSource,
    ):
        self.ray, self.problem, self.settings, self.source = ray, problem, settings, source
        frame = without_events(problem)
        self.whole = CPUTraining(frame, parameters, settings._replace(threads=1))
        self.merging = Merging(self.whole)
        self.events = strata.by_user(problem if settings.positives == "user" else frame, True)
        self.pool = WorkerPool(ray, settings.blocks)
        self.assignment: Assignment | None = None
        self.partitioned = 0  # the epoch of the last assignment
        self.stage = 0
        self.passed: list[Any] | None = None
        self.every = 1 if self.merging.needed else rounds_between_checkpoints(settings.blocks)

    def epoch(self, number: int, rate: float) -> float:
        """Run epoch `number` (from 1) at a learning rate and return the mean loss of its steps."""
        check_process()
        settings, results = self.settings, []
        if self.assignment is None or (number - 1) % settings.partition_every == 0:
            self._assign(number)
        visits = strata.visits(settings.positives, self.problem, self.events, settings.seed, number)
        self.whole._set_rates(number, rate)
        turn, tries, begun = 0, 0, False
        with one_line_errors():
            while turn < settings.blocks:
                last = min(turn + self.every, settings.blocks)
                try:
                    if not (begun and self.stage == 2):
                        self._make_ready(number, rate, visits, turn)
                    begun, done = True, self._rounds(turn, last)
                except Exception as error:
                    tries += 1
                    self._start_over(error, tries)
                else:
                    turn, tries = last, 0
                    results += done
        self.whole._centre()
        return fsum(r[1] for r in results) / max(sum(r[2] for r in results), 1)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """Take a step on each pair in their order, on the driver; return the mean loss."""
        self.whole.layout = self.merging.plain_layout()
        self.stage = min(self.stage, 1)
        return self.whole.learn_pairs(pairs, rate)

    def largest(self) -> float:
        """Return the largest absolute value of all tables, or NaN if there is one."""
        return self.whole.largest()

    def snapshot(self) -> Parameters:
        """Return a copy of the parameters, by the problem's numbers."""
        return self.whole.snapshot()

    def state(self) -> dict[str, np.ndarray]:
        """Return what further epochs need besides the parameters: partition and accumulators."""
        return {**self.whole.state(), "partitioned": np.array(self.partitioned)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Continue after the epoch of that state, whose parameters training was started with."""
        self.whole.resume({**state, "partitioned": np.array(0)})
        if state["partitioned"]:
            self._assign(int(state["partitioned"]))

    def close(self) -> None:
        """Stop the workers and free what only further epochs need."""
        self.pool.stop()
        self.stage = 0
        self.whole.close()

    def _assign(self, number: int) -> None:
        source, settings = self.source, self.settings
        counts = (source.activity, source.times, self.problem.drawn)
        self.assignment = assigned(*counts, settings.blocks, (settings.seed, number))
        self.partitioned, self.stage = number, 0

    def _make_ready(self, number: int, rate: float, visits: np.ndarray, turn: int) -> None:
        """Start workers and send what they lack for the round."""
        if not self.pool.workers:
            self.stage = 0
            self.pool.start()
        if self.stage < 1:
            self._load()
            self.stage = 1
        self.whole._share_items()
        if self.stage < 2:
            self.pool.all("place", [self._rows_of(rows, turn) for rows in self.pool.rows])
            self.stage, self.passed = 2, None
        start = self.ray.put(self.merging.start(number, rate, visits))
        self.pool.all("begin", [(start,)] * len(self.pool.workers))

    def _load(self) -> None:
        """Send the workers the events of their users."""
        assert self.assignment is not None
        user_at, edge = self.assignment.user_at, self.assignment.user_edge
        count, rows = len(user_at), self.pool.rows
        owner = np.zeros(count, np.int16)
        for worker, blocks in enumerate(rows):
            owner[user_at[edge[blocks.start] : edge[blocks.stop]]] = worker
        events = _by_worker(self.ray, self.source, owner, len(rows))
        plans = [
            worker_plan(self.problem, self.settings, self.assignment, self.source, (n, len(rows)))
            for n in range(len(rows))
        ]
        self.pool.all("load", [(count, plan, *sources) for plan, sources in zip(plans, events)])

    def _rows_of(self, rows: range, turn: int) -> tuple[TableBlock, dict[int, TableBlock]]:
        """Return the tables of a worker at the start of a round."""
        assert self.assignment is not None
        edge = self.assignment.user_edge
        users = self.assignment.user_at[edge[rows.start] : edge[rows.stop]]
        sums = self.merging.sums
        of_users = sums.users[users] if sums else NO_WEIGHT
        columns = ((row + turn) % self.settings.blocks for row in rows)
        items = {column: self._block(column) for column in columns}
        return TableBlock(self.whole.tables.users[users], NO_WEIGHT, of_users), items

    def _block(self, column: int) -> TableBlock:
        assert self.assignment is not None
        edge = self.assignment.item_edge
        items = self.assignment.item_at[edge[column] : edge[column + 1]]
        tables, sums = self.whole.tables, self.merging.sums
        accumulated = sums.items[items] if sums else NO_WEIGHT
        return TableBlock(tables.items[items], tables.item_bias[items], accumulated)

    def _rounds(self, first: int, last: int) -> list[tuple[int, float, int]]:
        """Run rounds and make a checkpoint; return (cell, loss, steps) of all cells."""
        workers, pending, kept = self.pool.workers, [], []
        for turn in range(first, last):
            order = self.ray.put(self.merging.round(turn, keep=turn == last - 1))
            received = self.passed or [None] * len(workers)
            calls = [
                worker.round.options(num_returns=3).remote(order, block)
                for worker, block in zip(workers, received)
            ]
            out, done, kept = (list(refs) for refs in zip(*calls))
            pending += done
            # a block moves to the previous user block: to the previous worker, or it stays
            self.passed = [*out[1:], out[0]] if len(workers) > 1 else None
        results: list[RoundResult] = self.ray.get(pending)
        self._checkpoint(self.ray.get(kept), self.ray.get(out), last - 1)
        if self.merging.needed:
            self.merging.merge(results)
        if self.merging.shares_items:
            self.stage = 1  # merging has changed items: workers need them again
        return [cell for result in results for cell in result.results]

    def _checkpoint(self, kept: list[WorkerRows], out: list[TableBlock], turn: int) -> None:
        """Store all rows of the workers after a round."""
        assert self.assignment is not None
        for rows, kept_rows, passed in zip(self.pool.rows, kept, out):
            column = (rows.start + turn) % self.settings.blocks
            have = kept_rows._replace(items={column: passed, **kept_rows.items})
            store_rows(self.whole.tables, self.merging.sums, self.assignment, rows, have)

    def _start_over(self, error: Exception, tries: int) -> None:
        """Go back to the last checkpoint, on the remaining machines."""
        if not is_lost(error):
            raise error
        if tries >= TRIES:
            raise MachineError(
                f"processes of the Ray cluster were lost {tries} times in one round: "
                f"{first_line(error)}"
            ) from error
        LOG.warning("a process of the Ray cluster was lost; repeating its round")
        self.pool.stop()
        self.stage, self.passed = 0, None
