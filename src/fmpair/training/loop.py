"""The training loop of the FM-Pair family: from a data set to fitted models, epoch by epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs, tally
from fmpair.data import Dataset
from fmpair.device import layout_on
from fmpair.engine import engine
from fmpair.engine.contract import Parameters, Problem, Resumable, Settings, Training
from fmpair.engine.item_side import with_unit_sides
from fmpair.errors import named
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import history_field
from fmpair.fitted.history import Recent
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.visitor import mean_user, place_new, settle_cold
from fmpair.solvers.ridge import Design
from fmpair.training.content import (
    content_fields,
    described_by,
    design_of,
    folded,
    listed_values,
    regressed,
    users_folded,
    users_regressed,
    without_content,
)
from fmpair.training.defaults import (
    FINAL_RATE_SHARE,
    factors_of,
    factors_of_ids,
    factors_with,
    final_rate_share_of,
    options_of_own,
)
from fmpair.training.epochs import Epoch, diverged, epochs
from fmpair.training.options import FACTORS, FMPairOptions
from fmpair.training.problem import (
    check_trainable,
    past_of,
    problem_of,
    recent_of,
    repeats_of,
    settings_of,
)
from fmpair.training.repeats import gain_of, gains, with_repeats
from fmpair.training.start import initial
from fmpair.training.visits import are_visits

LOST = 100.0  # a parameter this large means divergence: scores are a few units apart
LARGE = 3.0  # feature values above this may be what makes training diverge


@dataclass(frozen=True)
class Task:
    """The input of training, and what the fitted model needs.

    recipe: stored in the model; options: used for training, mostly the same. given: the items of
    each user with counts, None for those of the problem's events. recent: the latest events of each
    user, if the model uses histories. earlier: bool [items], the items that the model already knew
    before an update; None for a fit from scratch. visits: whether users come once and the model
    uses histories, see `with_own_vectors`. gain: of earlier items before an update.
    """

    recipe: Any
    options: FMPairOptions
    space: FeatureSpace
    problem: Problem
    frame_kind: str
    given: Rows | None = None
    recent: Recent | None = None
    earlier: np.ndarray | None = None
    visits: bool = False
    gain: float | None = None

    @classmethod
    def of(cls, recipe: Any, options: FMPairOptions, data: Dataset) -> Task:
        """Return the task of training from scratch."""
        check_trainable(data)
        history = history_field(options.history)
        space = FeatureSpace.fit(data, options.fields, options.normalize, history)
        space = space.with_pairing(options.pairing)
        past = past_of(space, data)
        problem = problem_of(options, space, data, past)
        recent, visits = recent_of(space, past), history is not None and are_visits(data)
        return cls(recipe, options, space, problem, data.frame_kind, recent=recent, visits=visits)

    def with_more_factors(self) -> Task:
        """Return the task with more factors if it is one of those that they help."""
        factors, problem = self.options.factors or FACTORS, self.problem
        if any(self.content):
            values = listed_values(problem, self.space.item, self.content)
            factors = factors_with(factors, values)
        elif not (problem.has_query_features or len(problem.item_rows.column)):
            factors = factors_of_ids(self.options, factors, len(problem.user))
        return replace(self, options=replace(self.options, factors=factors))

    def initial(self) -> Parameters:
        """Return the parameters before the first epoch; regularisation does not change them."""
        with layout_on(self.options.device):
            return initial(self.options, self.space, self.problem, self.content, self.design)

    def design(self, fields: Sequence[bool]) -> Design:
        """Return fields of items as the design of a regression; of the content, only once."""
        return self.content_design if list(fields) == self.content else self._design(fields)

    def _design(self, fields: Sequence[bool]) -> Design:
        return design_of(self.problem, self.space.item, fields, self.options.threads)

    @cached_property
    def seen(self) -> Rows:
        """The items of each user with counts."""
        if self.given is not None:
            return self.given
        with layout_on(self.options.device):
            return distinct_pairs(self.problem.user, self.problem.item, self.problem.users)

    @cached_property
    def times(self) -> np.ndarray:
        """The number of events of each item: float64 [items]."""
        with layout_on(self.options.device):
            if self.given is not None:
                return tally(self.given.column, self.problem.items, self.given.value)
            return tally(self.problem.item, self.problem.items).astype(np.float64)

    @cached_property
    def content(self) -> list[bool]:
        """Which fields of items are content, see `training.content`."""
        return content_fields(self.options, self.space.item, self.problem)

    @cached_property
    def content_design(self) -> Design:
        """The content of items as the design of a regression."""
        return self._design(self.content)

    @cached_property
    def describing(self) -> list[bool]:
        """Which fields of queries are user attributes that predict the vectors of users."""
        return described_by(self.options, self.space.query, self.problem)

    @cached_property
    def learned(self) -> Problem:
        """The problem that gradient steps learn: items without their content."""
        return without_content(self.problem, self.space.item, self.content)

    @cached_property
    def settings(self) -> Settings:
        return settings_of(self.options, self.space, self.learned, self.given)

    def folded(self, parameters: Parameters) -> Parameters:
        """Return parameters of the problem `learned` with the same scores."""
        if not any(self.content):
            return parameters
        return folded(parameters, self.problem, self.space.item, self.content)

    def wholly_folded(self, parameters: Parameters) -> Parameters:
        """Return the same with the attributes of users added to the users' own vectors.

        Otherwise steps on new events would change the prediction by attributes for all users.
        """
        whole = users_folded(parameters, self.problem, self.space.query, self.describing)
        return self.folded(whole)

    def with_options(self, options: FMPairOptions) -> Task:
        """Return the task with options that change neither its data nor what is content.

        What was computed of the data so far is shared.
        """
        changed = replace(self, options=options)
        known = vars(self)
        vars(changed).update({name: known[name] for name in OF_DATA if name in known})
        return changed

    def placed(self, learned: Parameters) -> Parameters:
        """Return trained parameters that also rank what is new, by content and attributes."""
        return self.with_repeats(self._placed(learned))

    def with_repeats(self, parameters: Parameters, item_rows: Rows | None = None) -> Parameters:
        """Return trained parameters by which earlier items raise themselves, see `repeats`.

        item_rows: the attributes of items, by default all.
        """
        if not gains(self.space):
            return parameters
        rows = self.problem.item_rows if item_rows is None else item_rows
        gain = self.gain
        if gain is None:
            gain = gain_of(self._model(parameters, rows), self.visits)
        return with_repeats(parameters, self.space, rows, gain)

    def _placed(self, learned: Parameters) -> Parameters:
        """Return the same without repeats."""
        rows, seen = self.problem.item_rows, self.seen
        attributes = (self.problem, self.space.query, self.describing)
        with layout_on(self.options.device):  # the events are copied there once
            learned = with_own_vectors(self, learned)
            learned = users_regressed(learned, *attributes, seen, self.options)
            parameters = self._settled(learned)
            if self.options.temperature is not None or not self.options.places_new:
                return parameters
            if any(self.content):
                by_user, seed = self.problem.history is None, self.options.seed
                design = self.content_design
                parameters = regressed(parameters, design, seen, seed, by_user, self.earlier)
            content = self.space.item.content(rows)
            return place_new(parameters, rows, content, self.times, self.problem.triples)

    def _settled(self, learned: Parameters) -> Parameters:
        """Return trained parameters that leave nothing to chance: cold rows and lengths are set."""
        parameters = settle_cold(learned, self.seen, self.times)
        if self.options.temperature is None:
            return parameters
        return with_unit_sides(parameters, self.problem.item_rows, self.problem.triples)

    def recommender(self, learned: Parameters) -> Recommender:
        """Return the fitted model of trained parameters."""
        return self.model(self.placed(learned))

    def trained(self, learned: Parameters) -> Recommender:
        """Return the model of trained parameters for ranking items with events only."""
        with layout_on(self.options.device):
            parameters = self._settled(learned)
        rows = self.learned.item_rows
        return self._model(self.with_repeats(parameters, rows), rows)

    def model(self, parameters: Parameters) -> Recommender:
        """Return the fitted model of these parameters, unchanged."""
        return self._model(parameters, self.problem.item_rows)

    def _model(self, parameters: Parameters, item_rows: Rows) -> Recommender:
        rows = (self.problem.user_rows, item_rows, self.seen)
        model = Recommender(self.space, parameters, *rows, self.recipe, self.frame_kind)
        return model.replaced(damping=self.options.damping, recent=self.recent)


# What a task computes of its data, whatever the regularisation.
OF_DATA = ("seen", "times", "content", "content_design", "learned")

# Starts the training of a task from initial parameters, with some tables frozen.
Begin = Callable[[Task, Parameters, Collection[str]], Training]


def begin(task: Task, first: Parameters, frozen: Collection[str] = ()) -> Resumable:
    """Start training on the engine; frozen: any of users, items, features."""
    settings = task.settings
    settings = settings._replace(
        user_rate=settings.user_rate * ("users" not in frozen),
        item_rate=settings.item_rate * ("items" not in frozen),
        feature_rate=settings.feature_rate * ("features" not in frozen),
    )
    return start(task.learned, task.folded(first), settings)


def with_own_vectors(task: Task, learned: Parameters) -> Parameters:
    """Return parameters with the vectors of users who come once, learned while all else is fixed.

    The history must rank for users who are new, so training keeps the vectors of known users short.
    The mean of these vectors, which new users have, does not change.
    """
    options, seen = task.options, task.seen
    given = {} if options.regularization is None else options.regularization
    if not task.visits or options.loss != "softmax" or options.temperature is not None:
        return learned
    if not isinstance(given, Mapping) or "user" in given:
        return learned
    repeats = repeats_of(task.space, task.problem, None)
    task = task.with_options(options_of_own(options, repeats, given))
    training = begin(task, learned, ("items", "features"))
    deque(learn(task, training), maxlen=0)
    users = training.snapshot().users
    return learned._replace(users=users - mean_user(users, seen) + mean_user(learned.users, seen))


def start(problem: Problem, first: Parameters, settings: Settings) -> Resumable:
    """Start training on the engine of the settings."""
    return engine(settings.engine).begin(problem, first, settings)


def train(recipe: Any, options: FMPairOptions, data: Dataset, begin: Begin = begin) -> TrainingRun:
    """Train from scratch and return the epochs; wrong data or options raise at once.

    recipe: stored in the fitted models.
    """
    return started(task_of(recipe, options, data), begin)


def task_of(recipe: Any, options: FMPairOptions, data: Dataset) -> Task:
    """Return the task of training from scratch, with its number of factors."""
    usual = factors_of(options, len(data))
    with layout_on(options.device):
        task = Task.of(recipe, replace(options, factors=usual), data)
        return task.with_more_factors() if options.factors is None else task


def started(task: Task, begin: Begin = begin, first: Parameters | None = None) -> TrainingRun:
    """Return the epochs of a task, before the first. first: `Task.initial()`, if it is known."""
    with layout_on(task.options.device):
        training = begin(task, task.initial() if first is None else first, ())
    return TrainingRun(_Progress(task, training, begin))


def learn(task: Task, training: Training) -> Iterator[Epoch]:
    """Return the epochs of a training that was started elsewhere."""
    return TrainingRun(_Progress(task, training))


class EpochState(NamedTuple):
    """Training after an epoch; state: what the engine needs besides the parameters."""

    number: int
    parameters: Parameters
    state: dict[str, np.ndarray]


@dataclass
class _Progress:
    """Training in progress. begin: how it starts, None if it cannot be resumed.

    number: of the last epoch. A class of its own, because the generator of `TrainingRun` refers to
    it. A reference to `TrainingRun` would be a cycle, and an abandoned run would be closed late.
    """

    task: Task
    training: Training
    begin: Begin | None = None
    number: int = 0

    def run(self, number: int) -> float:
        task, training = self.task, self.training
        rate = learning_rate(task.options, number, final_rate_share_of(task.options, task.space))
        loss = training.epoch(number, rate)
        if not training.largest() < LOST:
            raise diverged(number, _remedy(task))
        self.number = number
        if number == task.options.epochs:
            training.close()  # frees memory for ranking
        return loss

    def model(self) -> Recommender:
        return self.task.recommender(self.training.snapshot())


class TrainingRun(Iterator[Epoch]):
    """The epochs of a training, each run on demand; it can be saved and resumed."""

    def __init__(self, progress: _Progress):
        self._progress, self._epochs = progress, _epochs(progress)

    def __next__(self) -> Epoch:
        return next(self._epochs)

    def close(self) -> None:
        """Free the resources of training; no further epoch can be run."""
        self._progress.training.close()

    @property
    def task(self) -> Task:
        """What is learned, with all options filled in."""
        return self._progress.task

    @property
    def resumable(self) -> bool:
        """Whether it can be saved."""
        progress = self._progress
        return progress.begin is not None and isinstance(progress.training, Resumable)

    def with_seen(self, seen: Rows) -> TrainingRun:
        """Return the run with given items of each user, before the first epoch."""
        self._progress.task = replace(self._progress.task, given=seen)
        return self

    def parameters(self) -> Parameters:
        """Return a copy of the current parameters."""
        return self._progress.training.snapshot()

    def trained(self) -> Recommender:
        """Return the current model for ranking items with events only, see `Task.trained`."""
        return self.task.trained(self.parameters())

    def state(self) -> EpochState:
        """Return the state after the last epoch."""
        progress = self._progress
        assert isinstance(progress.training, Resumable)
        over = progress.number == progress.task.options.epochs
        engine_state = {} if over else progress.training.state()
        return EpochState(progress.number, self.parameters(), engine_state)

    def resume(self, saved: EpochState) -> None:
        """Continue after that epoch. Must be called before the first epoch."""
        progress = self._progress
        assert progress.begin is not None
        progress.training.close()
        with layout_on(progress.task.options.device):
            training = progress.begin(progress.task, saved.parameters, ())
        assert isinstance(training, Resumable)
        if saved.state:
            training.resume(saved.state)
        progress.training, progress.number = training, saved.number

    def recommender(self, parameters: Parameters) -> Recommender:
        """Return the fitted model of saved parameters."""
        return self._progress.task.recommender(parameters)


def _epochs(progress: _Progress) -> Iterator[Epoch]:
    try:
        count = progress.task.options.epochs
        yield from epochs(count, progress.run, progress.model, progress.number + 1)
    finally:
        progress.training.close()


def learning_rate(recipe: Any, number: int, final_rate_share: float = FINAL_RATE_SHARE) -> float:
    """Return the rate of an epoch: it decreases linearly to `final_rate_share` of the first."""
    done = (number - 1) / max(recipe.epochs - 1, 1)
    return recipe.learning_rate * (1 - (1 - final_rate_share) * done)


def _remedy(task: Task) -> str:
    """Return what most often helps against divergence."""
    space, problem = task.space, task.problem
    remedy = f"lower {named('learning_rate')} ({task.options.learning_rate:g})"
    sides = (
        (space.query, problem.contexts),
        (space.query, problem.user_rows),
        (space.item, problem.item_rows),
    )
    largest, name = LARGE, None
    for side, rows in sides:
        for number, encoder in enumerate(side.encoders):
            values = np.abs(rows.value[side.field_numbers()[rows.column] == number])
            if len(values) and values.max() > largest:
                largest, name = float(values.max()), encoder.name
    if name:
        remedy += f" or scale field {name!r} (its values reach {largest:.3g})"
    return remedy
