"""From a data set to a fitted model, one epoch at a time: the loop of all recipes of pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, distinct_pairs
from fmpair.data import Dataset
from fmpair.engine import engine
from fmpair.engine.contract import Parameters, Problem, Resumable, Settings, Training
from fmpair.engine.item_side import with_unit_sides
from fmpair.errors import named
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import history_field
from fmpair.fitted.history import Recent
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.visitor import settle_cold
from fmpair.training.defaults import FINAL_RATE_SHARE, factors_of, final_rate_share_of
from fmpair.training.epochs import Epoch, diverged, epochs
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import check_trainable, initial, kept, past_of, problem_of, settings_of

LOST = 100.0  # a number no sane run has in its tables: scores are a few units apart
LARGE = 3.0  # a feature's value from which on it may be what makes a run diverge


@dataclass(frozen=True)
class Task:
    """What is to be learned, and what the fitted model keeps of it.

    recipe: the one that the model keeps; options: those it is learned by, mostly the same.
    given: the items of each user and how often, None for those of the problem's events. recent:
    the latest events of each user, where the model goes by them.
    """

    recipe: Any
    options: FMPairOptions
    space: FeatureSpace
    problem: Problem
    frame_kind: str
    given: Rows | None = None
    recent: Recent | None = None

    @classmethod
    def of(cls, recipe: Any, options: FMPairOptions, data: Dataset) -> Task:
        """The task of learning from scratch."""
        check_trainable(data)
        history = history_field(options.history)
        space = FeatureSpace.fit(data, options.fields, options.normalize, history)
        space = space.with_pairing(options.pairing)
        past = past_of(space, data)
        problem = problem_of(options, space, data, past)
        return cls(recipe, options, space, problem, data.frame_kind, None, kept(space, past))

    @cached_property
    def seen(self) -> Rows:
        """The items of each user and how often."""
        own = self.problem
        return distinct_pairs(own.user, own.item, own.users) if self.given is None else self.given

    @cached_property
    def settings(self) -> Settings:
        return settings_of(self.options, self.space, self.problem, self.given)

    def recommender(self, learned: Parameters) -> Recommender:
        """The fitted model of what is learned so far."""
        parameters = settle_cold(learned, self.seen)
        if self.options.temperature is not None:
            parameters = with_unit_sides(parameters, self.problem.item_rows, self.problem.triples)
        return self.model(parameters)

    def model(self, parameters: Parameters) -> Recommender:
        """The fitted model of these parameters as they are."""
        rows = (self.problem.user_rows, self.problem.item_rows, self.seen)
        model = Recommender(self.space, parameters, *rows, self.recipe, self.frame_kind)
        return model.replaced(damping=self.options.damping, recent=self.recent)


# How training of a task starts: from the parameters, some tables of them frozen.
Begin = Callable[[Task, Parameters, Collection[str]], Training]


def begin(task: Task, first: Parameters, frozen: Collection[str] = ()) -> Resumable:
    """Training of the task by the engine; frozen: any of users, items, features, which stay."""
    settings = task.settings._replace(
        user_rate=float("users" not in frozen),
        item_rate=float("items" not in frozen),
        feature_rate=float("features" not in frozen),
    )
    return start(task.problem, first, settings)


def start(problem: Problem, first: Parameters, settings: Settings) -> Resumable:
    """Training under way: the one place that says which engine."""
    return engine(settings.engine).begin(problem, first, settings)


def train(
    recipe: Any, options: FMPairOptions, data: Dataset, begin: Begin = begin
) -> Iterator[Epoch]:
    """Epochs of learning from scratch. What is wrong with data or options is said at once.

    recipe: the one that the fitted models keep.
    """
    options = replace(options, factors=factors_of(options, len(data)))
    task = Task.of(recipe, options, data)
    return Learning(_Course(task, begin(task, initial(options, task.space), ()), begin))


def learn(task: Task, training: Training) -> Iterator[Epoch]:
    """The epochs of a training under way, however it makes them."""
    return Learning(_Course(task, training))


class Kept(NamedTuple):
    """Training as it stood after an epoch; state: what more the engine needs to go on."""

    number: int
    parameters: Parameters
    state: dict[str, np.ndarray]


@dataclass
class _Course:
    """Training under way. begin: how it starts, None where it must go on as it is.

    number: of the epochs that are done.
    """

    task: Task
    training: Training
    begin: Begin | None = None
    number: int = 0

    def make(self, number: int) -> float:
        task, training = self.task, self.training
        rate = learning_rate(task.options, number, final_rate_share_of(task.options, task.space))
        loss = training.epoch(number, rate)
        if not training.largest() < LOST:
            raise diverged(number, _remedy(task))
        self.number = number
        if number == task.options.epochs:
            training.close()  # what follows needs the memory
        return loss

    def model(self) -> Recommender:
        return self.task.recommender(self.training.snapshot())


class Learning(Iterator[Epoch]):
    """The epochs of training, each made when it is asked for; it can be kept and gone on with."""

    def __init__(self, course: _Course):
        self._course, self._epochs = course, _epochs(course)

    def __next__(self) -> Epoch:
        return next(self._epochs)

    @property
    def resumable(self) -> bool:
        """Whether it can be kept."""
        own = self._course
        return own.begin is not None and isinstance(own.training, Resumable)

    def parameters(self) -> Parameters:
        """What is learned so far."""
        return self._course.training.snapshot()

    def kept(self) -> Kept:
        """Training as it stands after an epoch."""
        own = self._course
        assert isinstance(own.training, Resumable)
        over = own.number == own.task.options.epochs
        return Kept(own.number, self.parameters(), {} if over else own.training.state())

    def resume(self, kept: Kept) -> None:
        """Go on after that epoch. To be told before any epoch is asked for."""
        own = self._course
        assert own.begin is not None
        own.training.close()
        training = own.begin(own.task, kept.parameters, ())
        assert isinstance(training, Resumable)
        if kept.state:
            training.resume(kept.state)
        own.training, own.number = training, kept.number

    def recommender(self, parameters: Parameters) -> Recommender:
        """The fitted model of parameters that were kept."""
        return self._course.task.recommender(parameters)


def _epochs(course: _Course) -> Iterator[Epoch]:
    try:
        count = course.task.options.epochs
        yield from epochs(count, course.make, course.model, course.number + 1)
    finally:
        course.training.close()


def learning_rate(recipe: Any, number: int, final_rate_share: float = FINAL_RATE_SHARE) -> float:
    """The step length of an epoch: it falls in a straight line, to the last rate's share of it."""
    done = (number - 1) / max(recipe.epochs - 1, 1)
    return recipe.learning_rate * (1 - (1 - final_rate_share) * done)


def _remedy(task: Task) -> str:
    """The two things that most often mend a run that diverges."""
    space, problem = task.space, task.problem
    remedy = f"lower {named('learning_rate')} ({task.options.learning_rate:g})"
    sides = (
        (space.query, problem.contexts),
        (space.query, problem.user_rows),
        (space.item, problem.item_rows),
    )
    largest, name = LARGE, None
    for side, rows in sides:
        for place, encoder in enumerate(side.encoders):
            own = np.abs(rows.value[side.field_numbers()[rows.column] == place])
            if len(own) and own.max() > largest:
                largest, name = float(own.max()), encoder.name
    if name:
        remedy += f" or scale field {name!r} (its values reach {largest:.3g})"
    return remedy
