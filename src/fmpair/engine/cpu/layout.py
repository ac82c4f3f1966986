"""The events as one partition lays them out, and all that goes with their order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fmpair.arrays import Rows, all_are, empty_rows
from fmpair.engine.contract import L2Scale, Problem, Settings
from fmpair.engine.cpu.operands import NO_L2_SCALE, Work
from fmpair.engine.strata.partition import Events, Partition, impressions_by_run
from fmpair.engine.strata.sampling import Sampler, sampler_of

NEAR_BYTES = 128 * 1024  # contexts beyond this are laid out in the order of the events


@dataclass(frozen=True)
class Layout:
    """What stands until the next partition. events: how many each item has, and the like.

    work: the cells' events. situation: int32 [events], each one's row of `contexts`, or empty where
    every event has its own.
    sampler: of all item blocks, in their order. l2_scale: in this order.
    """

    partition: Partition
    events: Events
    work: Work
    situation: np.ndarray
    contexts: Rows
    sampler: Sampler
    l2_scale: L2Scale

    def visited(self, times: np.ndarray) -> Layout:
        """With how often each event is learned from, by original numbers; empty for once each."""
        if not len(times) and not len(self.work.visits):
            return self
        visits = times[self.partition.event] if len(times) else times
        return replace(self, work=self.work._replace(visits=visits))


def needs_numbers(problem: Problem, settings: Settings) -> bool:
    """Whether the number of an event must be known where it is learned from."""
    return (
        len(problem.contexts.column) > 0
        or problem.history is not None
        or settings.positives != "permutation"
        or not all_are(problem.known, False)
        or not all_are(problem.weight, 1)
    )


def laid_out(problem: Problem, settings: Settings, events: Events, partition: Partition) -> Layout:
    """The problem's events in the order of a partition."""
    weight = np.zeros(0, np.float32)
    if not all_are(problem.weight, 1):
        weight = problem.weight[partition.event]
    once = np.zeros(0, np.uint16)
    work = Work(partition.run_user, partition.run_start, partition.item, once, weight)
    l2_scale = NO_L2_SCALE
    if settings.l2_scale:
        users, items = settings.l2_scale
        l2_scale = L2Scale(users[partition.user_at], items[partition.item_at])
    shown = impressions_by_run(partition, problem.impressions)
    return Layout(
        partition,
        events,
        work,
        *_contexts(problem, partition),
        sampler_of(partition, events.times, settings)._replace(
            impression_start=shown.start, impression_item=shown.column
        ),
        l2_scale,
    )


def _contexts(problem: Problem, partition: Partition) -> tuple[np.ndarray, Rows]:
    """(each event's situation, the situations' rows): many are laid out event by event."""
    if not len(problem.contexts.column):
        return np.zeros(0, np.int32), empty_rows(1)
    situation = problem.situation[partition.event]
    if problem.contexts.column.nbytes <= NEAR_BYTES:
        return situation, problem.contexts
    return np.zeros(0, np.int32), problem.contexts.take(situation)
