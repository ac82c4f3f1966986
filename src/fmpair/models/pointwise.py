"""From examples with a target to a fitted factorization machine, one pass at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, join_rows, stack_rows, tally
from fmpair.data import Dataset
from fmpair.engine.anova import Machine, mean_of, start
from fmpair.engine.pointwise import Examples, Penalties
from fmpair.errors import OptionError, TrainingError, unknown
from fmpair.features import FeatureSpace, situations
from fmpair.models.machine import Layout, MachineScorer
from fmpair.models.penalty import ROLES
from fmpair.models.ranker import Ranker
from fmpair.models.training import Epoch, learning_rate

GROUPS = ("user", "item", "bias", "context", "user_features", "item_features")
LOST = 1e6  # a mean loss that no sane run has, in squares of the targets' unit
Passes = Iterator[tuple[Callable[[], Machine], float]]  # (the machine as it is now, loss)


class Part(NamedTuple):
    """Events over the vocabularies of the training data, and what each should score."""

    events: Dataset
    target: np.ndarray


class Strength(NamedTuple):
    """Regularisation where a recipe gives none, times a feature's number of examples ** power.

    ids, fields: of vectors; linear: of the linear terms of both.
    """

    ids: float
    fields: float
    linear: float
    power: float = 0.0


def train(
    recipe: Any, data: Dataset, parts: list[Part], binary: bool, usual: Strength
) -> Iterator[Epoch]:
    """Passes over the examples of all parts; what is wrong with the options is said at once."""
    space = FeatureSpace.fit(data, recipe.fields)
    layout = Layout(space)
    user_rows = space.user_rows(data.user_table, len(space.users))
    item_rows = space.item_rows(data.item_table, len(space.items))
    rows = [_rows(layout, part.events, user_rows, item_rows) for part in parts]
    target = np.concatenate([part.target for part in parts]).astype(np.float64)
    examples = Examples(stack_rows(*rows), target, layout.edges, binary)
    times = tally(examples.rows.column, int(layout.edges[-1]))
    penalties = penalties_of(recipe.regularization, layout, usual, times)
    learner = _descent if recipe.learner == "sgd" else _coordinates

    def fitted(machine: Machine) -> Ranker:
        settled = settle(machine, examples)
        tables = (table.astype(np.float32) for table in settled[1:])
        scorer = MachineScorer(layout, Machine(settled.bias, *tables), user_rows, item_rows)
        return Ranker(space, scorer, data.seen, recipe, data.frame_kind)

    return _epochs(recipe, learner(recipe, examples, penalties), fitted)


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


def penalties_of(
    given: float | Mapping[str, float] | None, layout: Layout, usual: Strength, times: np.ndarray
) -> Penalties:
    """The strength of regularisation of every feature: fields' own, the recipe's, the usual.

    times: int64 [features], the number of examples of each.
    """
    scale = np.maximum(times, 1) ** usual.power
    is_field = np.arange(len(times)) >= layout.edges[2]
    vectors = np.where(is_field, usual.fields, usual.ids) * scale
    linear = usual.linear * scale
    if isinstance(given, int | float):
        vectors[:], linear[:] = given, given
    named = given if isinstance(given, Mapping) else {}
    encoders = (*layout.space.query.encoders, *layout.space.item.encoders)
    names = [*GROUPS, *(encoder.name for encoder in encoders)]
    for name in named:
        if name not in names:
            raise OptionError(unknown("regularization", name, names))
    strengths = [named.get("user"), named.get("item")]
    for encoder in encoders:
        own = encoder.field.regularization
        by_name = named.get(encoder.name, named.get(ROLES[encoder.role]))
        strengths.append(by_name if own is None else own)
    for strength, first, last in zip(strengths, layout.edges[:-1], layout.edges[1:]):
        if strength is not None:
            vectors[first:last] = strength
    linear[:] = named.get("bias", linear)
    return Penalties(linear, vectors)


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


def _rows(layout: Layout, events: Dataset, user_rows: Rows, item_rows: Rows) -> Rows:
    """All features of every event."""
    contexts, situation = situations(layout.space, events)
    query = layout.query(events.user, user_rows.take(events.user), contexts.take(situation))
    return join_rows([query, layout.item(events.item, item_rows.take(events.item))])


def _start(recipe: Any, examples: Examples, rng: np.random.Generator) -> Machine:
    """Random vectors, and a bias that is right on average."""
    features, order = int(examples.edges[-1]), getattr(recipe, "order", 2)
    machine = start(features, recipe.factors, order, recipe.initial_sd, rng)
    return machine._replace(bias=0.0 if examples.binary else float(examples.target.mean()))


def _descent(recipe: Any, examples: Examples, penalties: Penalties) -> Passes:
    """Stochastic gradient descent, every example once a pass."""
    from fmpair.engine.pointwise import epoch

    rng = np.random.default_rng([recipe.seed, 0])
    machine = _start(recipe, examples, rng)
    for number in range(1, recipe.epochs + 1):
        order = rng.permutation(len(examples.target))
        rate = learning_rate(recipe, number)
        machine, loss = epoch(examples, machine, penalties, rate, order)
        yield partial(Machine, *machine), loss


def _coordinates(recipe: Any, examples: Examples, penalties: Penalties) -> Passes:
    """ALS, or MCMC with the last draws kept: their mean is the model."""
    from fmpair.engine import gibbs
    from fmpair.engine.ranking import all_threads

    rng = np.random.default_rng([recipe.seed, 0])
    sampled = recipe.learner == "mcmc"
    machine = _start(recipe, examples, rng)
    threads = recipe.threads or all_threads()
    chain = gibbs.begin(examples, machine, penalties, rng if sampled else None, threads)
    kept: deque[Machine] = deque(maxlen=recipe.samples if sampled else 1)
    try:
        for _ in range(recipe.epochs):
            loss = gibbs.iterate(chain)
            kept.append(gibbs.machine_of(chain))
            yield (lambda: mean_of(list(kept))), loss
    finally:
        gibbs.finish(chain)


def _epochs(recipe: Any, passes: Passes, fitted: Callable[[Machine], Ranker]) -> Iterator[Epoch]:
    """The passes as epochs; a run that blows up is stopped."""
    reached, began = 0, time.perf_counter()

    def make(number: int, machine: Callable[[], Machine]) -> Ranker:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        return fitted(machine())

    for number, (machine, loss) in enumerate(passes, 1):
        reached = number
        if not loss < LOST:
            lower = f"lower learning_rate ({recipe.learning_rate:g})"
            remedy = lower if recipe.learner == "sgd" else "raise regularization"
            raise TrainingError(f"diverged in epoch {number}: {remedy} or scale the ratings")
        now = time.perf_counter()
        yield Epoch(number, now - began, loss, lambda n, machine=machine: make(n, machine))
        began = time.perf_counter()
