"""Going on with a fitted model: new users folded in, new events learned from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fmpair.checks import whole
from fmpair.data import Dataset
from fmpair.engine.contract import Parameters, Problem
from fmpair.errors import OptionError, UnknownError, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.growth import Grown, grown, part, put_back, renumbered
from fmpair.training.history import kept, past_of
from fmpair.training.loop import Begin, Task, begin, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import problem_of

OTHERS = 4096  # users enough to tell what users do


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
    task, first = _continued(model, options, data, epochs)
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

    def learned(task: Task, first: Parameters) -> np.ndarray:
        training = begin(task, first, ("items", "features"))
        deque(learn(task, training), maxlen=0)
        return training.snapshot().users

    return with_users(model, options, data, epochs, learned)


def with_users(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None,
    learned: Callable[[Task, Parameters], np.ndarray],
) -> Recommender:
    """The model with the events' users, as vectors [users, factors] that are `learned` for them.

    That is done among a bounded number of others: the work must not grow with all users.
    """
    data = data.compact()
    missing = model.space.items.numbers(data.items.ids)[data.item] < 0
    if missing.any():  # which names it
        model.item_number(data.items.ids[int(data.item[np.argmax(missing)])])
    users, own = model.space.users, model.space.users.numbers(data.users.ids)
    others = np.linspace(0, len(users) - 1, min(OTHERS, len(users))).astype(np.int64)
    some = part(model, np.union1d(others, own[own >= 0]))
    task, first = _continued(some, options, data, epochs, chosen=model.item_counts > 0)
    # Of the rest the start is kept: a mean of equal copies may round.
    return put_back(model, data, task.model(first._replace(users=learned(task, first))))


def _continued(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None,
    chosen: np.ndarray | None = None,
) -> tuple[Task, Parameters]:
    """(what is to be learned of the new events, the parameters to begin with).

    chosen: bool [items], what anyone ever chose, where the model has but a part of its users.
    """
    if epochs is not None:
        whole("epochs", epochs, 1)
    factors = model.parameters.users.shape[1]
    if options.factors != factors:  # only a file that was tampered with says so
        raise OptionError(f"the recipe has {options.factors} factors, its vectors {factors}")
    _check_columns(model, data)
    options = replace(
        options,
        epochs=epochs or options.epochs,
        damping=model.damping,
        history=model.space.history,
    )
    if not len(data.impressions):  # what was shown before need not be said again
        options = replace(options, impression_share=0.0)
    space = model.space.extend(data)
    data = renumbered(data, space)
    own = grown(model, options, space, data)
    past = past_of(space, data, own.recent)
    problem = _problem(model, problem_of(options, space, data, past), space, own)
    if chosen is not None:
        problem = problem._replace(drawn=problem.drawn | chosen)
    recent = kept(space, past)
    task = Task(model.recipe, options, space, problem, model.frame_kind, own.seen, recent)
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
        known = [e.source for e in encoders if e.role == role]
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
    history = fresh.history
    if history is not None:  # what is only known is never learned from, and needs none
        none = np.zeros(count, np.int32)
        since = np.append(history.since, none) if len(history.since) else history.since
        rows = space.earlier_items(own.item_rows)
        history = history._replace(until=np.append(history.until, none), since=since, rows=rows)
    return fresh._replace(
        history=history,
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
