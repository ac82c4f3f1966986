"""Updating a fitted model: learning from new events, and folding in new users."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.checks import not_negative, whole
from fmpair.data import Dataset, as_dataset
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Parameters, Problem
from fmpair.engine.item_side import pair_columns
from fmpair.errors import OptionError, UnknownError, listing, named, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.defaults import n_negatives_of
from fmpair.training.growth import Grown, extend_arrays, part, put_back, renumbered
from fmpair.training.loop import Begin, Task, begin, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import past_of, problem_of, recent_of
from fmpair.training.regularisation import item_groups, predictive_lists, query_groups
from fmpair.training.repeats import gains, without_repeats

OTHERS = 4096  # known users that fold-in trains with; enough for all default options
# Fractions of the original epochs and learning rate. Many epochs on new events alone, at the full
# rate, would overwrite the earlier fit. Tuned on MovieLens 100K, see docs/LOG.md.
EPOCHS_SHARE, RATE_SHARE = 1 / 8, 0.3
NEW_IDS_SHARE = 1 / 20  # upper bound of the work for new users and items, as a fraction of a fit


# Replay: train on earlier events together with the new ones, so that they are not forgotten.


def with_earlier(model: Recommender, data: Dataset, replay: Any, seed: int) -> Dataset:
    """Return the new events, followed by the earlier events to replay.

    data: new events, numbered by the extended space. replay: number of earlier events to draw per
    new event from those the model has seen, or the earlier events themselves, with known ids.
    """
    if model.space.history is not None and not (isinstance(replay, int | float) and replay == 0):
        raise OptionError(
            f"{named('replay')} cannot be used with a model that uses histories, since it does not "
            "store those of earlier events: fit it again instead"
        )
    if not isinstance(replay, int | float):
        earlier = as_dataset(replay)
        for user in earlier.users.ids.gather(np.unique(earlier.user)):
            model.user_number(user)  # raises if the user is unknown
        for item in earlier.items.ids.gather(np.unique(earlier.item)):
            model.item_number(item)
        space = replace(model.space, users=data.users, items=data.items)
        return joined(data, renumbered(earlier, space))
    not_negative("replay", replay)
    if replay and model.space.context:
        raise OptionError(
            f"the model does not store the context of earlier events "
            f"({listing(list(model.space.context))}): pass the events themselves as "
            f"{named('replay', ...)}"
        )
    pair = sample_pairs(model.seen, round(replay * len(data)), seed)
    user, item = model.seen.owner[pair].astype(np.int32), model.seen.column[pair]
    return joined(data, replace(data, user=user, item=item, columns=pl.DataFrame()))


def joined(data: Dataset, more: Dataset) -> Dataset:
    """Concatenate two datasets with the same numbering; keep the columns of the first."""
    if not len(more):
        return data
    columns = {}
    for name in data.columns.columns:
        first = data.columns[name]
        absent = pl.repeat(1.0 if name == "weight" else None, len(more), eager=True)
        second = more.columns[name] if name in more.columns.columns else absent
        columns[name] = pl.concat([first, second.cast(first.dtype).alias(name)])
    return replace(
        data,
        user=np.concatenate([data.user, more.user]),
        item=np.concatenate([data.item, more.item]),
        columns=pl.DataFrame(columns),
    )


def sample_pairs(seen: Rows, count: int, seed: int) -> np.ndarray:
    """Draw events without replacement; return their indices in `seen`: int64 [count or fewer].

    seen: the items of each user, with event counts.
    """
    ends = np.cumsum(seen.value, dtype=np.float64).astype(np.int64)
    total = int(ends[-1]) if len(ends) else 0
    event = np.random.default_rng([seed, 5]).choice(total, min(count, total), replace=False)
    return np.sort(np.searchsorted(ends, event, side="right"))


# Updates.


def update(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None = None,
    begin: Begin = begin,
    replay: Any = 0.0,
) -> Recommender:
    """Return the model after learning from new events, with their new ids and values.

    First train new users and items on their own events, as in a fit. Then train on all new events
    with few epochs and a low learning rate, so that earlier events are not forgotten.
    options: of the original fit; begin: starts a training; epochs: of the second step.
    replay: earlier events to train on again, or their number per new event.
    """
    if epochs is None:
        epochs = max(round(options.epochs * EPOCHS_SHARE), 1)
    whole("epochs", epochs, 1)
    task, first = _continued(model, options, data, None, replay=replay)
    first = _with_new_ids(model, task, task.wholly_folded(first), begin)
    rate = options.learning_rate * RATE_SHARE
    task = replace(task, options=replace(task.options, epochs=epochs, learning_rate=rate))
    *_, last = learn(task, begin(task, first, ()))
    return last.recommender()


def _with_new_ids(model: Recommender, task: Task, first: Parameters, begin: Begin) -> Parameters:
    """Return the parameters with new users and items trained; all others do not change."""
    problem, users, items = task.problem, len(model.parameters.users), len(model.parameters.items)
    others = (problem.user < users) & (problem.item < items)
    count = len(others) - int(others.sum())
    if not count:
        return first
    everything = float(task.seen.value.sum()) * task.options.epochs
    passes = min(max(round(NEW_IDS_SHARE * everything / count), 1), task.options.epochs)
    of_new_ids = replace(
        task,
        options=replace(task.options, epochs=passes),
        problem=problem._replace(known=problem.known | others),
    )
    training = begin(of_new_ids, first, ("features",))
    deque(learn(of_new_ids, training), maxlen=0)
    after = training.snapshot()
    return first._replace(
        users=np.concatenate([first.users[:users], after.users[users:]]),
        items=np.concatenate([first.items[:items], after.items[items:]]),
        item_bias=np.concatenate([first.item_bias[:items], after.item_bias[items:]]),
    )


def fold_in(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None = None,
    begin: Begin = begin,
) -> Recommender:
    """Return the model with the users of the events trained; items and features do not change."""

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
    """Return the model with the users of the events; learned: trains and returns user vectors.

    At most OTHERS known users take part in the training, so the cost does not grow with the
    number of users.
    """
    data = data.compact()
    missing = model.space.items.numbers(data.items.ids)[data.item] < 0
    if missing.any():  # raise the error that names the item
        model.item_number(data.items.ids[int(data.item[np.argmax(missing)])])
    users, known = model.space.users, model.space.users.numbers(data.users.ids)
    others = np.linspace(0, len(users) - 1, min(OTHERS, len(users))).astype(np.int64)
    some = part(model, np.union1d(others, known[known >= 0]))
    task, first = _continued(some, options, data, epochs, chosen=model.item_counts > 0)
    # keep the initial values of the other tables: averaging equal copies may round
    parameters = first._replace(users=learned(task, first))
    return put_back(model, data, task.model(task.with_repeats(parameters)))


def _continued(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None,
    chosen: np.ndarray | None = None,
    replay: Any = 0.0,
) -> tuple[Task, Parameters]:
    """Return the task of training on new events, and its initial parameters.

    chosen: bool [items], the items with events; required if the model has only part of its users.
    """
    if epochs is not None:
        whole("epochs", epochs, 1)
    model, gain = _without_repeats(model)  # they are added again when the training ends
    factors = pair_columns(model.parameters.users.shape[1], model.triples)
    if options.factors not in (None, factors):  # only in a tampered file
        raise OptionError(f"the recipe has {options.factors} factors, but its vectors {factors}")
    _check_columns(model, data)
    options = replace(
        options,
        factors=factors,
        epochs=epochs or options.epochs,
        damping=model.damping,
        history=model.space.history,
        on=None,  # too little work for a cluster
    )
    if not len(data.impressions):  # impressions are optional in an update
        options = replace(options, impression_share=0.0)
    space = model.space.extend(data)
    data = renumbered(data, space)
    arrays = extend_arrays(model, options, space, data)
    past = past_of(space, data, arrays.recent)
    learned = with_earlier(model, data, replay, options.seed)
    fresh = problem_of(options, space, learned, past)
    problem = _problem(model, fresh, space, arrays, options)
    if chosen is not None:
        problem = problem._replace(drawn=problem.drawn | chosen)
    options = _with_sampling(options, problem)
    earlier = np.zeros(problem.items, bool)
    earlier[: len(model.item_counts)] = model.item_counts > 0
    rest = (model.frame_kind, arrays.seen, recent_of(space, past), earlier)
    task = Task(model.recipe, options, space, problem, *rest, gain=gain)
    return task, arrays.parameters


def _without_repeats(model: Recommender) -> tuple[Recommender, float | None]:
    """Return the model without repeats, and the gain that they had."""
    if not gains(model.space):
        return model, None
    parameters, gain = without_repeats(model.parameters, model.space, model.item_rows)
    return model.replaced(parameters=parameters), gain


def _with_sampling(options: FMPairOptions, problem: Problem) -> FMPairOptions:
    """Return the options with sampled negatives, which leave out the earlier items of a user.

    These are not learned from again, and in softmax over all items they would only be pushed down.
    """
    if options.loss != "softmax" or resolve_device(options.device) != CPU:
        return options
    return replace(options, n_negatives=n_negatives_of(options, int(problem.drawn.sum())))


def _check_columns(model: Recommender, data: Dataset) -> None:
    """Raise UnknownError for context and attributes that the model does not know."""
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


def _problem(
    model: Recommender, fresh: Problem, space: FeatureSpace, arrays: Grown, options: FMPairOptions
) -> Problem:
    """Return the problem of the new events, with their users' earlier items as known events.

    fresh: the new events, followed by replayed ones if any. Known events are not trained on; they
    are only excluded from the negatives.
    """
    owner, item = model.seen.owner.astype(np.int32), model.seen.column
    relevant = np.isin(owner, fresh.user)
    count = int(relevant.sum())
    # count the users of each value over all users, not only those of the new events
    query = query_groups(
        space.query, arrays.user_rows, fresh.user, fresh.contexts, fresh.situation, options.sharing
    )
    every, full_steps = arrays.seen, None
    if options.places_new:
        full_steps = predictive_lists(space.item, arrays.item_rows, every.owner, every.column)
    history = fresh.history
    if history is not None:  # known events need no history
        none = np.zeros(count, np.int32)
        since = np.append(history.since, none) if len(history.since) else history.since
        rows = space.earlier_items(arrays.item_rows)
        history = history._replace(until=np.append(history.until, none), since=since, rows=rows)
    return fresh._replace(
        history=history,
        user=np.concatenate([fresh.user, owner[relevant]]),
        item=np.concatenate([fresh.item, item[relevant]]),
        weight=np.concatenate([fresh.weight, np.ones(count, np.float32)]),
        known=np.concatenate([fresh.known, np.ones(count, bool)]),
        situation=np.concatenate([fresh.situation, np.zeros(count, np.int32)]),
        drawn=np.bincount(arrays.seen.column, minlength=len(space.items)) > 0,
        user_rows=arrays.user_rows,
        item_rows=arrays.item_rows,
        # do not centre again: the mean of the new events differs from the mean of all events
        query_groups=query._replace(centred=np.zeros(space.query.size, bool)),
        item_groups=item_groups(
            space.item, arrays.item_rows, fresh.item, options.sharing, full_steps
        ),
    )
