"""Going on with a fitted model: new users folded in, new events learned from."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from fmpair.checks import whole
from fmpair.data import Dataset
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import UnknownError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.growth import Grown, grown, renumbered
from fmpair.training.loop import Begin, Task, begin, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.part import put_back, some_users
from fmpair.training.problem import problem_of


def update(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None = None,
    begin: Begin = begin,
) -> Recommender:
    """The model after learning from further events, with their new ids and values.

    options: those it was learned by; begin: how training starts.
    """
    task, first = continued(model, options, data, epochs)
    *_, last = learn(task, begin(task, first, ()))
    return last.recommender()


def fold_in(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None = None,
    begin: Begin = begin,
) -> Recommender:
    """The model with the events' users learned; items and features do not move, not by a bit."""
    data = known_items(model, data)
    task, first = continued(some_users(model, data), options, data, epochs)
    drawn = task.problem.drawn | (model.item_counts > 0)
    task = replace(task, problem=task.problem._replace(drawn=drawn))
    training = begin(task, first, ("items", "features"))
    deque(learn(task, training), maxlen=0)
    # Of the rest the start is kept: a mean of equal copies may round.
    learned = task.model(first._replace(users=training.snapshot().users))
    return put_back(model, data, learned)


def known_items(model: Recommender, data: Dataset) -> Dataset:
    """The events without ids that have none; an item that the model does not know is refused."""
    data = data.compact()
    missing = model.space.items.numbers(data.items.ids)[data.item] < 0
    if missing.any():
        model.item_number(data.items.ids[int(data.item[np.argmax(missing)])])
    return data


def continued(
    model: Recommender, options: FMPairOptions, data: Dataset, epochs: int | None
) -> tuple[Task, Parameters]:
    """(what is to be learned of the new events, the parameters to begin with)."""
    if epochs is not None:
        whole("epochs", epochs, 1)
    _check_columns(model, data)
    options = replace(options, epochs=epochs or options.epochs, damping=model.damping)
    if not len(data.impressions):  # what was shown before need not be said again
        options = replace(options, impression_share=0.0)
    space = model.space.extend(data)
    data = renumbered(data, space)
    own = grown(model, options, space, data)
    problem = _problem(model, problem_of(options, space, data), space, own)
    task = Task(model.recipe, options, space, problem, model.frame_kind, own.seen)
    return task, own.parameters


def _check_columns(model: Recommender, data: Dataset) -> None:
    """Refuse context and attributes that the model does not know."""
    space = model.space
    encoders = (*space.query.encoders, *space.item.encoders)
    for role, what, names in (
        ("context", "context", data.context),
        ("user", "user attribute", data.user_table.columns),
        ("item", "item attribute", data.item_table.columns),
    ):
        known = [e.name for e in encoders if e.role == role]
        for name in names:
            if name not in known:
                raise UnknownError(unknown(what, name, known))


def _problem(model: Recommender, fresh: Problem, space: FeatureSpace, own: Grown) -> Problem:
    """The new events first, then what their users had before: known, so never drawn as negatives.

    fresh: the new events alone.
    """
    # The mean of a few new events is not the mean of all: fields stay where they are centred.
    groups = fresh.query_groups._replace(centred=np.zeros(space.query.size, bool))
    owner, item = model.seen.owner.astype(np.int32), model.seen.column
    mine = np.isin(owner, fresh.user)
    count = int(mine.sum())
    return fresh._replace(
        user=np.concatenate([fresh.user, owner[mine]]),
        item=np.concatenate([fresh.item, item[mine]]),
        weight=np.concatenate([fresh.weight, np.ones(count, np.float32)]),
        known=np.concatenate([fresh.known, np.ones(count, bool)]),
        situation=np.concatenate([fresh.situation, np.zeros(count, np.int32)]),
        drawn=np.bincount(own.seen.column, minlength=len(space.items)) > 0,
        user_rows=own.user_rows,
        item_rows=own.item_rows,
        query_groups=groups,
    )
