"""From a data set to learned parameters, one epoch at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fmpair.arrays import Rows, tally
from fmpair.data import Dataset
from fmpair.data.shown import shown_rows
from fmpair.errors import DataError, OptionError, TrainingError, named
from fmpair.features import FeatureSpace, Side, situations
from fmpair.models.groups import item_groups, query_groups
from fmpair.models.penalty import penalties, pull_of
from fmpair.models.query import usual_user
from fmpair.models.recommender import Recommender
from fmpair.models.usual import candidates_of, custom_of, field_hold_of, hold_of, own_share_of

if TYPE_CHECKING:
    from fmpair.engine.problem import Parameters, Problem, Settings
    from fmpair.models.fm_pair import FMPair

DEAL_EVERY = 5  # epochs between two deals of the strata plan
MOST_WEIGHT = 10.0  # of one event, in mean weights
LAST_RATE = 0.1  # share of the learning rate left in the last epoch, where a recipe does not say
LOST = 100.0  # a number no sane run has in its tables: scores are a few units apart


@dataclass(frozen=True)
class Epoch:
    """One pass over the events. `recommender()` gives the model, until the next epoch begins.

    value: the metric on held-out events, where `fit` was given some.
    """

    number: int
    seconds: float
    loss: float
    _make: Any = field(repr=False, compare=False)
    value: float | None = None

    def recommender(self) -> Recommender:
        return self._make(self.number)


def train(recipe: FMPair, data: Dataset) -> Iterator[Epoch]:
    """Epochs of learning from scratch. What is wrong with data or options is said at once."""
    check_trainable(data)
    space = FeatureSpace.fit(data, recipe.fields, recipe.normalize)
    problem = problem_of(recipe, space, data)
    first = initial(recipe, space)
    return learn(recipe, space, problem, first, None, data.frame_kind)


def learn(
    recipe: FMPair,
    space: FeatureSpace,
    problem: Problem,
    first: Parameters,
    seen: Rows | None,
    frame_kind: str,
    users_only: bool = False,
) -> Iterator[Epoch]:
    """Epochs of learning that start from given parameters; users_only: nothing else moves.

    seen: the items of each user, None for those of the events.
    """
    from fmpair.engine import cpu

    settings = settings_of(recipe, space, problem, seen)
    if users_only:
        settings = settings._replace(item_rate=0.0, feature_rate=0.0)
    state = cpu.begin(problem, first, settings)
    reached = 0

    def make(number: int) -> Recommender:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        if number == recipe.epochs:
            cpu.finish(state)
        had = cpu.seen(state) if seen is None else seen
        learned = settle_cold(cpu.snapshot(state), had)
        if recipe.temperature is not None:
            learned = with_unit_sides(learned, problem.item_rows)
        rows = (problem.user_rows, problem.item_rows, had)
        return Recommender(space, learned, *rows, recipe, frame_kind, recipe.damping)

    def epochs() -> Iterator[Epoch]:
        nonlocal reached
        for number in range(1, recipe.epochs + 1):
            reached, began = number, time.perf_counter()
            loss = cpu.epoch(state, number, learning_rate(recipe, number, recipe.last_rate))
            if not cpu.largest(state) < LOST:
                raise TrainingError(_diverged(recipe, space, problem, number))
            yield Epoch(number, time.perf_counter() - began, loss, make)

    return epochs()


def learning_rate(recipe: Any, number: int, last_rate: float = LAST_RATE) -> float:
    """The step length of an epoch: it falls in a straight line, to the last rate's share of it."""
    done = (number - 1) / max(recipe.epochs - 1, 1)
    return recipe.learning_rate * (1 - (1 - last_rate) * done)


def check_trainable(data: Dataset) -> None:
    """Raise DataError where no pair of a chosen and an unchosen item exists."""
    items = np.count_nonzero(tally(data.item, len(data.items)))
    if items < 2:
        raise DataError("the events name only one item: ranking needs at least two")
    users = np.count_nonzero(tally(data.user, len(data.users)))
    if len(data) >= users * items and (np.diff(data.seen.start)[data.user] >= items).all():
        raise DataError(
            f"every user has an event with all {items} items: there is nothing unchosen to "
            "compare with. Filter the events (such as ratings above the user's mean) first"
        )


def problem_of(recipe: FMPair, space: FeatureSpace, data: Dataset) -> Problem:
    """The data as an engine wants them."""
    from fmpair.engine.problem import Problem

    if recipe.shown_share and not len(data.shown):
        raise OptionError(
            f"{named('shown_share')} is {recipe.shown_share:g}, but the data do not say what was "
            f"shown: give a table of users and items as {named('shown', ...)}, or use the filter "
            "dislikes"
        )
    contexts, situation = situations(space, data)
    drawn = tally(data.item, len(space.items)) > 0
    user_rows = space.user_rows(data.user_table, len(space.users))
    item_rows = space.item_rows(data.item_table, len(space.items))
    return Problem(
        data.user, data.item, event_weights(recipe, data), np.broadcast_to(False, len(data)), drawn,
        situation, contexts, user_rows, item_rows,
        query_groups(space.query, user_rows, data.user, contexts, situation, recipe.sharing),
        item_groups(space.item, item_rows, data.item, recipe.sharing),
        shown_rows(data) if recipe.shown_share else None,
    )  # fmt: skip


def event_weights(recipe: FMPair, data: Dataset) -> np.ndarray:
    """float32 [events]: how much each event counts, 1 on average."""
    weight = data.weight
    if recipe.weights == "none" or "weight" not in data.columns.columns:
        return np.broadcast_to(np.float32(1), len(data))  # one number, however many events
    if recipe.weights == "log":
        weight = np.where(weight < 1, weight, 1 + np.log(np.maximum(weight, 1)))
    if not weight.any():
        raise DataError("all weights are 0: nothing is left to learn from")
    # a single event must not take a step that undoes all others
    return np.minimum(weight / weight.mean(), MOST_WEIGHT).astype(np.float32)


def initial(recipe: FMPair, space: FeatureSpace) -> Parameters:
    """First values: ids random, fields as their options say (zero unless told otherwise)."""
    from fmpair.engine.problem import Parameters

    rng = np.random.default_rng([recipe.seed, 0])

    def vectors(count: int, sd: float | np.ndarray) -> np.ndarray:
        return (rng.standard_normal((count, recipe.factors), np.float32) * sd).astype(np.float32)

    def zeros(count: int) -> np.ndarray:
        return np.zeros(count, np.float32)

    users = vectors(len(space.users), recipe.initial_sd)
    items = vectors(len(space.items), recipe.initial_sd)
    query = vectors(space.query.size, _starts(space.query))
    features = vectors(space.item.size, _starts(space.item))
    return Parameters(users, items, zeros(len(items)), query, features, zeros(len(features)))


def _starts(side: Side) -> np.ndarray:
    """Standard deviation of every feature's first vector: float32 [features, 1]."""
    sizes = [e.size for e in side.encoders]
    return np.repeat(np.array([e.field.start for e in side.encoders], np.float32), sizes)[:, None]


def settings_of(
    recipe: FMPair, space: FeatureSpace, problem: Problem, seen: Rows | None = None
) -> Settings:
    """The recipe's options as an engine wants them; seen: as in `learn`."""
    from fmpair.engine.plan import choose_blocks
    from fmpair.engine.problem import LISTED, Settings
    from fmpair.engine.ranking import all_threads

    users = int(np.count_nonzero(tally(problem.user, problem.users)))
    items = int(problem.drawn.sum())
    custom, candidates = custom_of(problem, seen), candidates_of(recipe, items)
    hold, of_fields = hold_of(recipe, custom), field_hold_of(recipe, candidates)
    own = penalties(recipe.regularization, space, problem, hold, of_fields)
    blocks = recipe.blocks or choose_blocks(users, items, len(problem.user), recipe.factors)
    if blocks > max(items // 2, 1):
        raise OptionError(
            f"{named('blocks')} ({blocks}) must leave two items a block: of {items} items at most "
            f"{items // 2}"
        )
    return Settings(
        seed=recipe.seed, positives=recipe.positives, blocks=blocks, deal_every=DEAL_EVERY,
        threads=recipe.threads or all_threads(), learn_bias=recipe.item_bias, loss=recipe.loss,
        candidates=candidates if recipe.loss in LISTED else 1,
        temperature=recipe.temperature or 0.0, negatives=recipe.negatives, power=recipe.power,
        rank_share=recipe.rank_share, own_share=own_share_of(recipe, custom),
        shown_share=recipe.shown_share, correction=recipe.correction, optimizer=recipe.optimizer,
        pull=pull_of(recipe.regularization_power, problem, seen),
        **own,
    )  # fmt: skip


def settle_cold(parameters: Parameters, seen: Rows) -> Parameters:
    """Ids never learned from: users get the usual one's vector, items none and a rare one's bias.

    Otherwise an item nobody chose would stand above known ones by chance.
    """
    times = tally(seen.column, len(parameters.items), seen.value)
    cold, warm = times == 0, times > 0
    absent = np.diff(seen.start) == 0
    parameters.users[absent] = usual_user(parameters.users, seen)
    if cold.any() and warm.any():
        rare = warm & (times <= np.quantile(times[warm], 0.1))
        parameters.items[cold] = 0
        parameters.item_bias[cold] = parameters.item_bias[rare].mean()
    return parameters


def with_unit_sides(parameters: Parameters, item_rows: Rows) -> Parameters:
    """Items of length one and without constants: their products rank as cosines do."""
    from fmpair.engine.sampling import item_sides

    features, no_bias = parameters.features, np.zeros_like(parameters.item_bias)
    bias = np.zeros_like(parameters.feature_bias)
    vectors, _ = item_sides(parameters.items, no_bias, item_rows, features, bias)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    items = parameters.items + vectors / np.maximum(lengths, 1e-6) - vectors
    _, constants = item_sides(items, no_bias, item_rows, features, bias)
    return parameters._replace(items=items, item_bias=-constants, feature_bias=bias)


def _diverged(recipe: FMPair, space: FeatureSpace, problem: Problem, number: int) -> str:
    """What diverged, and the two things that most often mend it."""
    hint = f"lower {named('learning_rate')} ({recipe.learning_rate:g})"
    sides = (
        (space.query, problem.contexts), (space.query, problem.user_rows),
        (space.item, problem.item_rows),
    )  # fmt: skip
    largest, name = 3.0, None
    for side, rows in sides:
        for place, encoder in enumerate(side.encoders):
            own = np.abs(rows.value[side.field_numbers()[rows.column] == place])
            if len(own) and own.max() > largest:
                largest, name = float(own.max()), encoder.name
    if name:
        hint += f" or scale field {name!r} (its values reach {largest:.3g})"
    return f"diverged in epoch {number}: {hint}"
