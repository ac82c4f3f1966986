"""Training over the machines of a cluster: the same plan, and the same bytes, as on threads."""

from __future__ import annotations

import logging
from math import fsum
from typing import Any

import numpy as np

from fmpair.cluster import connect, cores, first_line, is_lost, telling
from fmpair.engine.contract import NO_WEIGHT, Pairs, Parameters, Problem, Settings, Source
from fmpair.engine.cpu.cpu_training import CPUTraining
from fmpair.engine.ray.exchange import (
    Block,
    Done,
    Kept,
    Merging,
    rounds_between_checkpoints,
    take_over,
)
from fmpair.engine.ray.part import counts_of, own_part, rows_of, shards_of, split, without_events
from fmpair.engine.ray.ray_worker import Worker
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.partition import Assignment, assigned
from fmpair.errors import MachineError
from fmpair.threads import check_process

# The worker processes of a training: started where the cluster has room, ended together.


FIRST = 120.0  # seconds until one process must have started
OTHERS = 20.0  # seconds that the others have after it; a machine may just have gone away


class Crew:
    """Worker processes; most: how many there may be, None for as many as there are cores."""

    def __init__(self, ray: Any, blocks: int, most: int | None = None) -> None:
        self.ray, self.blocks, self.most = ray, blocks, most
        self.workers: list[Any] = []

    @property
    def rows(self) -> list[range]:
        """The user blocks of each worker."""
        count = len(self.workers)
        return [rows_of(self.blocks, (number, count)) for number in range(count)]

    def start(self) -> None:
        """Start as many as there are cores, or user blocks."""
        ray, free = self.ray, cores(self.ray)
        kind = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(Worker)
        made = [kind.remote() for _ in range(min(self.blocks, self.most or free, free))]
        asked = {worker.ready.remote(): worker for worker in made}
        done, _ = ray.wait(list(asked), num_returns=1, timeout=FIRST)
        if done:
            done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=OTHERS)
        self.workers = [asked[ref] for ref in asked if ref in done and self._began(ref)]
        for worker in made:
            if worker not in self.workers:
                ray.kill(worker)
        if not self.workers:
            raise MachineError(
                f"no process was started on the Ray cluster within {FIRST:.0f} seconds: its {free} "
                "cores are all at work; try again later, or add machines"
            )

    def _began(self, ref: Any) -> bool:
        try:
            return self.ray.get(ref)
        except self.ray.exceptions.RayActorError:
            return False

    def all(self, method: str, arguments: list[tuple[Any, ...]]) -> list[Any]:
        """Call a method of each worker with its own arguments, and wait; the answers."""
        calls = [
            getattr(worker, method).remote(*own) for worker, own in zip(self.workers, arguments)
        ]
        return self.ray.get(calls)

    def dismiss(self) -> None:
        """End all of them, whatever they do."""
        for worker in self.workers:
            self.ray.kill(worker)
        self.workers = []


LOG = logging.getLogger("fmpair")
TRIES = 5  # of a round that is lost each time


def begin(
    problem: Problem, parameters: Parameters, settings: Settings, source: Source | None = None
) -> RayTraining:
    """Training that starts from the given parameters, on the cluster that the settings name.

    source: where the events are that the problem has not.
    """
    check_process()
    ray, problem = connect(settings.on), strata.with_unchosen(problem)
    with telling():
        source = source or _stored(ray, problem, settings)
        return RayTraining(ray, problem, parameters, settings, source)


def _stored(ray: Any, problem: Problem, settings: Settings) -> Source:
    """The events of a problem that this process has, in the object store."""
    numbered = settings.positives != "permutation" or bool(problem.known.any())
    return Source(*counts_of(problem), [ray.put(one) for one in shards_of(problem, numbered)])


def _dealt(ray: Any, source: Source, owner: np.ndarray, workers: int) -> list[list[Any]]:
    """What each worker is handed: refs of shards of its users' events, and what makes such."""
    if workers == 1:
        return [[*source.shards, *source.made]]
    task = ray.remote(num_cpus=0)(split).options(num_returns=workers)
    of_users = ray.put(owner)
    parts = [task.remote(ref, of_users, workers) for ref in source.shards]
    return [[*(part[worker] for part in parts), *source.made] for worker in range(workers)]


class RayTraining:
    """Training under way; the driver has no events to learn from, and all that was learned.

    whole: the tables, by the problem's numbers, as they were at the last checkpoint; workers have
    them as they are now. assignment: which blocks users and items are in until the next one.
    stage: how far workers are told: 0 nothing, 1 they have their events, 2 and their tables.
    passed: the blocks of items on their way to each worker, None where they have all they need.
    """

    def __init__(
        self, ray: Any, problem: Problem, parameters: Parameters, settings: Settings, source: Source
    ):
        self.ray, self.problem, self.settings, self.source = ray, problem, settings, source
        frame = without_events(problem)
        self.whole = CPUTraining(frame, parameters, settings._replace(threads=1))
        self.merging = Merging(self.whole)
        self.events = strata.by_user(problem if settings.positives == "user" else frame, True)
        self.crew = Crew(ray, settings.blocks)
        self.assignment: Assignment | None = None
        self.partitioned = 0  # in which epoch
        self.stage = 0
        self.passed: list[Any] | None = None
        self.every = 1 if self.merging.needed else rounds_between_checkpoints(settings.blocks)

    def epoch(self, number: int, rate: float) -> float:
        """One epoch (counted from 1) at a learning rate; the mean loss of its steps."""
        check_process()
        settings, results = self.settings, []
        if self.assignment is None or (number - 1) % settings.partition_every == 0:
            self._assign(number)
        visits = strata.visits(settings.positives, self.problem, self.events, settings.seed, number)
        self.whole._set_rates(number, rate)
        turn, tries, begun = 0, 0, False
        with telling():
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
        """A step on each pair in their order, after an epoch at that rate: by the driver."""
        self.whole.layout = self.merging.plain_layout()
        self.stage = min(self.stage, 1)
        return self.whole.learn_pairs(pairs, rate)

    def largest(self) -> float:
        """The largest number of all tables: a run that diverges shows here first. NaN counts."""
        return self.whole.largest()

    def snapshot(self) -> Parameters:
        """The parameters as they are now, by the problem's numbers."""
        return self.whole.snapshot()

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on beside the parameters: the partition, the accumulators."""
        return {**self.whole.state(), "partitioned": np.array(self.partitioned)}

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state; begun with the parameters of that epoch."""
        self.whole.resume({**state, "partitioned": np.array(0)})
        if state["partitioned"]:
            self._assign(int(state["partitioned"]))

    def close(self) -> None:
        """End the workers, and let go of what only further epochs would need."""
        self.crew.dismiss()
        self.stage = 0
        self.whole.close()

    def _assign(self, number: int) -> None:
        source, settings = self.source, self.settings
        counts = (source.activity, source.times, self.problem.drawn)
        self.assignment = assigned(*counts, settings.blocks, (settings.seed, number))
        self.partitioned, self.stage = number, 0

    def _make_ready(self, number: int, rate: float, visits: np.ndarray, turn: int) -> None:
        """Workers that have all they need for the round."""
        if not self.crew.workers:
            self.stage = 0
            self.crew.start()
        if self.stage < 1:
            self._load()
            self.stage = 1
        self.merging.lend()
        if self.stage < 2:
            self.crew.all("place", [self._rows_of(rows, turn) for rows in self.crew.rows])
            self.stage, self.passed = 2, None
        start = self.ray.put(self.merging.start(number, rate, visits))
        self.crew.all("begin", [(start,)] * len(self.crew.workers))

    def _load(self) -> None:
        """Hand the events of their users to the workers."""
        assert self.assignment is not None
        user_at, edge = self.assignment.user_at, self.assignment.user_edge
        count, rows = len(user_at), self.crew.rows
        owner = np.zeros(count, np.int16)
        for worker, own in enumerate(rows):
            owner[user_at[edge[own.start] : edge[own.stop]]] = worker
        pieces = _dealt(self.ray, self.source, owner, len(rows))
        told = [
            own_part(self.problem, self.settings, self.assignment, self.source, (n, len(rows)))
            for n in range(len(rows))
        ]
        self.crew.all("load", [(count, own, *given) for own, given in zip(told, pieces)])

    def _rows_of(self, rows: range, turn: int) -> tuple[Block, dict[int, Block]]:
        """The tables of a worker at the start of a round."""
        assert self.assignment is not None
        edge = self.assignment.user_edge
        users = self.assignment.user_at[edge[rows.start] : edge[rows.stop]]
        sums = self.merging.sums
        of_users = sums.users[users] if sums else NO_WEIGHT
        columns = ((row + turn) % self.settings.blocks for row in rows)
        items = {column: self._block(column) for column in columns}
        return Block(self.whole.tables.users[users], NO_WEIGHT, of_users), items

    def _items_in(self, column: int) -> np.ndarray:
        assert self.assignment is not None
        edge = self.assignment.item_edge
        return self.assignment.item_at[edge[column] : edge[column + 1]]

    def _block(self, column: int) -> Block:
        items, tables, sums = self._items_in(column), self.whole.tables, self.merging.sums
        own = sums.items[items] if sums else NO_WEIGHT
        return Block(tables.items[items], tables.item_bias[items], own)

    def _rounds(self, first: int, last: int) -> list[tuple[int, float, int]]:
        """Rounds one after the other, then a checkpoint: (cell, loss, steps) of all cells."""
        crew, done, kept = self.crew.workers, [], []
        for turn in range(first, last):
            told = self.ray.put(self.merging.turn(turn, keep=turn == last - 1))
            came = self.passed or [None] * len(crew)
            calls = [
                worker.round.options(num_returns=3).remote(told, block)
                for worker, block in zip(crew, came)
            ]
            out, own, kept = (list(refs) for refs in zip(*calls))
            done += own
            # a block goes on to the user block before: to the worker before, or it stays
            self.passed = [*out[1:], out[0]] if len(crew) > 1 else None
        found: list[Done] = self.ray.get(done)
        self._keep(self.ray.get(kept), self.ray.get(out), last - 1)
        if self.merging.needed:
            self.merging.bring_together(found)
        if self.merging.lends:
            self.stage = 1  # the driver has moved items: workers must be told
        return [result for one in found for result in one.results]

    def _keep(self, kept: list[Kept], out: list[Block], turn: int) -> None:
        """The checkpoint: all that the workers have at the end of a round."""
        assert self.assignment is not None
        for rows, own, passed in zip(self.crew.rows, kept, out):
            column = (rows.start + turn) % self.settings.blocks
            have = own._replace(items={column: passed, **own.items})
            take_over(self.whole.tables, self.merging.sums, self.assignment, rows, have)

    def _start_over(self, error: Exception, tries: int) -> None:
        """Back to the last checkpoint, on what is left of the cluster."""
        if not is_lost(error):
            raise error
        if tries >= TRIES:
            raise MachineError(
                f"processes of the Ray cluster were lost {tries} times in one round: "
                f"{first_line(error)}"
            ) from error
        LOG.warning("a process of the Ray cluster was lost; its round is done again")
        self.crew.dismiss()
        self.stage, self.passed = 0, None
