"""What a factorization machine is to learn: examples with a target, over all features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, join_rows, stack_rows, tally
from fmpair.data import Dataset
from fmpair.features import FeatureSpace, situations
from fmpair.fitted.machine import Layout, MachineScorer
from fmpair.fitted.ranker import Ranker
from fmpair.solvers.anova import Machine
from fmpair.solvers.examples import Examples


class Part(NamedTuple):
    """Events over the vocabularies of the training data, and what each should score."""

    events: Dataset
    target: np.ndarray


class Task(NamedTuple):
    """What a machine is to learn, and what it takes to ask one: features and attributes of ids."""

    layout: Layout
    user_rows: Rows
    item_rows: Rows
    examples: Examples


def task_of(data: Dataset, fields: Mapping[str, Any], parts: list[Part], binary: bool) -> Task:
    """The examples of all parts over the features of the data."""
    space = FeatureSpace.fit(data, fields).without_past()
    layout = Layout(space)
    user_rows = space.user_rows(data.user_table, len(space.users))
    item_rows = space.item_rows(data.item_table, len(space.items))
    rows = [_rows(layout, part.events, user_rows, item_rows) for part in parts]
    target = np.concatenate([part.target for part in parts]).astype(np.float64)
    examples = Examples(stack_rows(*rows), target, layout.edges, binary)
    return Task(layout, user_rows, item_rows, examples)


def fitted(recipe: Any, data: Dataset, task: Task, machine: Machine) -> Ranker:
    """The model of a machine that has learned the task."""
    settled = settle(machine, task.examples)
    tables = (table.astype(np.float32) for table in settled[1:])
    machine = Machine(settled.bias, *tables)
    scorer = MachineScorer(task.layout, machine, task.user_rows, task.item_rows)
    return Ranker(task.layout.space, scorer, data.seen, recipe, data.frame_kind)


def settle(machine: Machine, examples: Examples) -> Machine:
    """Features without examples become the mean of their group's others: the best guess.

    What they are otherwise is what they began with, or a draw of the prior.
    """
    met = tally(examples.rows.column, len(machine.linear)) > 0
    tables = [table.copy() for table in machine[1:]]
    for first, last in zip(examples.edges[:-1].tolist(), examples.edges[1:].tolist()):
        own = met[first:last]
        for table in tables:
            rows = table[first:last]
            rows[~own] = rows[own].mean(axis=0) if own.any() else 0
    return Machine(machine.bias, *tables)


def unobserved(data: Dataset, seed: int) -> Dataset:
    """As many uniform pairs of a user and an item without an event as there are events.

    Each stands in the context of some event, since it has none of its own.
    """
    rng = np.random.default_rng([seed, 1])
    users, items = np.unique(data.user), np.unique(data.item)
    seen = data.seen
    taken = seen.owner * len(data.items) + seen.column
    user, item = np.empty(len(data), np.int32), np.empty(len(data), np.int32)
    waiting = np.arange(len(data))
    while len(waiting):
        user[waiting], item[waiting] = (rng.choice(ids, len(waiting)) for ids in (users, items))
        key = user[waiting].astype(np.int64) * len(data.items) + item[waiting]
        place = np.minimum(np.searchsorted(taken, key), len(taken) - 1)
        waiting = waiting[taken[place] == key]
    context = data.take(rng.integers(len(data), size=len(data)))
    return replace(context, user=user, item=item)


def _rows(layout: Layout, events: Dataset, user_rows: Rows, item_rows: Rows) -> Rows:
    """All features of every event."""
    contexts, situation = situations(layout.space, events)
    query = layout.query(events.user, user_rows.take(events.user), contexts.take(situation))
    return join_rows([query, layout.item(events.item, item_rows.take(events.item))])
