"""Training of point-wise factorization machines by SGD, ALS or MCMC."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, join_rows, stack_rows, tally
from fmpair.checks import check_vectors
from fmpair.data import Dataset
from fmpair.errors import OptionError, named, unknown
from fmpair.features import FeatureSpace, situations
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.scorers import Layout, MachineScorer
from fmpair.solvers.anova import Examples, Machine, Penalties, mean_of, start
from fmpair.training.epochs import Epoch, diverged, epochs
from fmpair.training.loop import learning_rate
from fmpair.training.regularisation import ROLES

GROUPS = ("user", "item", "bias", "context", "user_features", "item_features")
LOST = 1e6  # a larger mean loss, in squared units of the targets, means divergence
Passes = Iterator[tuple[Callable[[], Machine], float]]  # (the current machine, loss)


# Examples.


class LabelledEvents(NamedTuple):
    """Events over the vocabularies of the training data, with the targets of their scores."""

    events: Dataset
    target: np.ndarray


class MachineTask(NamedTuple):
    """The examples to learn from, and what scoring needs: features and attributes of ids."""

    layout: Layout
    user_rows: Rows
    item_rows: Rows
    examples: Examples


def task_of(
    data: Dataset, fields: Mapping[str, Any], parts: list[LabelledEvents], binary: bool
) -> MachineTask:
    """Return the examples of all parts over the features of the data."""
    space = FeatureSpace.fit(data, fields).without_past()
    layout = Layout(space)
    user_rows = space.user_rows(data.user_table, len(space.users))
    item_rows = space.item_rows(data.item_table, len(space.items))
    rows = [_features_of_events(layout, part.events, user_rows, item_rows) for part in parts]
    target = np.concatenate([part.target for part in parts]).astype(np.float64)
    examples = Examples(stack_rows(*rows), target, layout.edges, binary)
    return MachineTask(layout, user_rows, item_rows, examples)


def fitted(recipe: Any, data: Dataset, task: MachineTask, machine: Machine) -> Ranker:
    """Return the fitted model of a trained machine."""
    settled = settle(machine, task.examples)
    tables = (table.astype(np.float32) for table in settled[1:])
    machine = Machine(settled.bias, *tables)
    scorer = MachineScorer(task.layout, machine, task.user_rows, task.item_rows)
    return Ranker(task.layout.space, scorer, data.seen, recipe, data.frame_kind)


def settle(machine: Machine, examples: Examples) -> Machine:
    """Set features without examples to the mean of their group.

    Otherwise they would keep their initial values, or a draw from the prior.
    """
    occurs = tally(examples.rows.column, len(machine.linear)) > 0
    tables = [table.copy() for table in machine[1:]]
    for first, last in zip(examples.edges[:-1].tolist(), examples.edges[1:].tolist()):
        trained = occurs[first:last]
        for table in tables:
            rows = table[first:last]
            rows[~trained] = rows[trained].mean(axis=0) if trained.any() else 0
    return Machine(machine.bias, *tables)


def unobserved(data: Dataset, seed: int) -> Dataset:
    """Draw as many user-item pairs without an event as there are events, uniformly.

    Each has the context of a random event.
    """
    rng = np.random.default_rng([seed, 1])
    users, items = np.unique(data.user), np.unique(data.item)
    seen = data.seen
    observed = seen.owner * len(data.items) + seen.column
    user, item = np.empty(len(data), np.int32), np.empty(len(data), np.int32)
    waiting = np.arange(len(data))
    while len(waiting):
        user[waiting], item[waiting] = (rng.choice(ids, len(waiting)) for ids in (users, items))
        key = user[waiting].astype(np.int64) * len(data.items) + item[waiting]
        at = np.minimum(np.searchsorted(observed, key), len(observed) - 1)
        waiting = waiting[observed[at] == key]
    context = data.take(rng.integers(len(data), size=len(data)))
    return replace(context, user=user, item=item)


def _features_of_events(layout: Layout, events: Dataset, user_rows: Rows, item_rows: Rows) -> Rows:
    contexts, situation = situations(layout.space, events)
    query = layout.query(events.user, user_rows.take(events.user), contexts.take(situation))
    return join_rows([query, layout.item(events.item, item_rows.take(events.item))])


# Training.


class Strength(NamedTuple):
    """Default regularisation, multiplied by a feature's number of examples ** power.

    ids, fields: of vectors; linear: of the linear terms of both.
    """

    ids: float
    fields: float
    linear: float
    power: float = 0.0


class Ensemble(NamedTuple):
    """The options of FM that FM-Map does not have."""

    order: int = 2
    samples: int = 1
    starts: int = 1
    linear: bool = True


ONE_MACHINE = Ensemble()


def check(recipe: Any, learners: Sequence[str]) -> None:
    """Check the options that FM and FM-Map have in common."""
    checks.whole("factors", recipe.factors, 0)
    checks.whole("epochs", recipe.epochs, 1)
    checks.one_of("learner", recipe.learner, learners)
    checks.positive("learning_rate", recipe.learning_rate)
    checks.regularization(recipe.regularization)
    checks.not_negative("init_std", recipe.init_std)
    checks.threads(recipe.threads)
    checks.whole("seed", recipe.seed, 0)


def train(
    recipe: Any,
    data: Dataset,
    parts: list[LabelledEvents],
    binary: bool,
    usual: Strength,
    more: Ensemble = ONE_MACHINE,
) -> Iterator[Epoch]:
    """Return the epochs of training on all parts; wrong options raise at once."""
    task = task_of(data, recipe.fields, parts, binary)
    times = tally(task.examples.rows.column, int(task.layout.edges[-1]))
    penalties = penalties_of(recipe.regularization, task.layout, usual, times)
    if not more.linear:
        penalties = penalties._replace(linear=np.full_like(penalties.linear, np.inf))
    learner = _descent if recipe.learner == "sgd" else _coordinates
    # float64 tables, one set per start and kept sample
    draws_kept = min(more.samples, recipe.epochs) if recipe.learner == "mcmc" else 1
    check_vectors(2 * (more.order - 1) * len(times), recipe.factors, draws_kept * more.starts)
    draws = [np.random.default_rng([recipe.seed, 0, start]) for start in range(more.starts)]
    passes = [learner(recipe, more, task.examples, penalties, rng) for rng in draws]
    return _epochs(recipe, _together(passes), partial(fitted, recipe, data, task))


def penalties_of(
    given: float | Mapping[str, float] | None, layout: Layout, usual: Strength, times: np.ndarray
) -> Penalties:
    """Return the regularisation of every feature: the field's own, the recipe's, or the default.

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
        of_field = encoder.field.regularization
        by_name = named.get(encoder.name, named.get(ROLES[encoder.role]))
        strengths.append(by_name if of_field is None else of_field)
    for strength, first, last in zip(strengths, layout.edges[:-1], layout.edges[1:]):
        if strength is not None:
            vectors[first:last] = strength
    linear[:] = named.get("bias", linear)
    return Penalties(linear, vectors)


def _start(recipe: Any, order: int, examples: Examples, rng: np.random.Generator) -> Machine:
    """Return random vectors, and the mean target as bias."""
    machine = start(int(examples.edges[-1]), recipe.factors, order, recipe.init_std, rng)
    return machine._replace(bias=0.0 if examples.binary else float(examples.target.mean()))


def _together(learners: list[Passes]) -> Passes:
    """Run learners in parallel, one pass of each at a time, and average their machines."""

    def mean(machines: Sequence[Callable[[], Machine]]) -> Machine:
        return mean_of([machine() for machine in machines])

    for states in zip(*learners):
        machines, losses = zip(*states)
        yield partial(mean, machines), float(np.mean(losses))


def _descent(
    recipe: Any, more: Ensemble, examples: Examples, penalties: Penalties, rng: np.random.Generator
) -> Passes:
    """Run stochastic gradient descent; every pass visits each example once."""
    from fmpair.solvers.pointwise import epoch

    machine = _start(recipe, more.order, examples, rng)
    for number in range(1, recipe.epochs + 1):
        order = rng.permutation(len(examples.target))
        rate = learning_rate(recipe, number)
        machine, loss = epoch(examples, machine, penalties, rate, order)
        yield partial(Machine, *machine), loss


def _coordinates(
    recipe: Any, more: Ensemble, examples: Examples, penalties: Penalties, rng: np.random.Generator
) -> Passes:
    """Run ALS, or MCMC and average its last draws."""
    from fmpair.solvers import pointwise
    from fmpair.threads import all_threads

    sampled = recipe.learner == "mcmc"
    machine = _start(recipe, more.order, examples, rng)
    threads = recipe.threads or all_threads()
    chain = pointwise.begin_chain(examples, machine, penalties, rng if sampled else None, threads)
    last_draws: deque[Machine] = deque(maxlen=more.samples if sampled else 1)
    try:
        for _ in range(recipe.epochs):
            loss = pointwise.iterate(chain)
            last_draws.append(pointwise.machine_of(chain))
            yield (lambda: mean_of(list(last_draws))), loss
    finally:
        pointwise.finish(chain)


def _epochs(recipe: Any, passes: Passes, fitted: Callable[[Machine], Ranker]) -> Iterator[Epoch]:
    """Return the passes as epochs; raise TrainingError on divergence."""
    machine: Callable[[], Machine]

    def learn(number: int) -> float:
        nonlocal machine
        machine, loss = next(passes)
        if not loss < LOST:
            lower = f"lower {named('learning_rate')} ({recipe.learning_rate:g})"
            remedy = lower if recipe.learner == "sgd" else "raise regularization"
            raise diverged(number, f"{remedy} or scale the ratings")
        return loss

    return epochs(recipe.epochs, learn, lambda: fitted(machine()))
