"""Going on with a fitted model: new users folded in, new events learned from."""

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
from fmpair.engine.contract import Parameters, Problem
from fmpair.engine.item_side import pair_columns
from fmpair.errors import OptionError, UnknownError, listing, named, unknown
from fmpair.features import FeatureSpace
from fmpair.fitted.recommender import Recommender
from fmpair.training.growth import Grown, grown, part, put_back, renumbered
from fmpair.training.loop import Begin, Task, begin, learn
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import kept, past_of, problem_of
from fmpair.training.regularisation import item_groups, query_groups

# Earlier events learned again beside new ones, so that an update does not forget them.


def with_earlier(model: Recommender, data: Dataset, replay: Any, seed: int) -> Dataset:
    """The new events, and after them the earlier ones to learn again.

    data: new events, by the numbers of the grown space. replay: how many earlier ones for each
    new one, drawn from what the model has seen; or the earlier events themselves, of known ids.
    """
    if model.space.history is not None and not (isinstance(replay, int | float) and replay == 0):
        raise OptionError(
            "what came before earlier events is not known any more, and the model learns from "
            f"histories: leave {named('replay')} out, or fit it again"
        )
    if not isinstance(replay, int | float):
        earlier = as_dataset(replay)
        for user in earlier.users.ids.gather(np.unique(earlier.user)):
            model.user_number(user)  # which names an unknown one
        for item in earlier.items.ids.gather(np.unique(earlier.item)):
            model.item_number(item)
        space = replace(model.space, users=data.users, items=data.items)
        return joined(data, renumbered(earlier, space))
    not_negative("replay", replay)
    if replay and model.space.context:
        raise OptionError(
            f"the model keeps no context of earlier events (its context is "
            f"{listing(list(model.space.context))}): give the events themselves as "
            f"{named('replay', ...)}, not how many of them"
        )
    pair = drawn(model.seen, round(replay * len(data)), seed)
    user, item = model.seen.owner[pair].astype(np.int32), model.seen.column[pair]
    return joined(data, replace(data, user=user, item=item, columns=pl.DataFrame()))


def joined(data: Dataset, more: Dataset) -> Dataset:
    """The events of both, by the same numbers; columns and tables are those of the first."""
    if not len(more):
        return data
    columns = {}
    for name in data.columns.columns:
        own = data.columns[name]
        absent = pl.repeat(1.0 if name == "weight" else None, len(more), eager=True)
        other = more.columns[name] if name in more.columns.columns else absent
        columns[name] = pl.concat([own, other.cast(own.dtype).alias(name)])
    return replace(
        data,
        user=np.concatenate([data.user, more.user]),
        item=np.concatenate([data.item, more.item]),
        columns=pl.DataFrame(columns),
    )


def drawn(seen: Rows, count: int, seed: int) -> np.ndarray:
    """int64 [count]: the pair of each of so many events, every event at most once.

    seen: the items of each user and how often; where there are fewer events, all are drawn.
    """
    ends = np.cumsum(seen.value, dtype=np.float64).astype(np.int64)
    total = int(ends[-1]) if len(ends) else 0
    event = np.random.default_rng([seed, 5]).choice(total, min(count, total), replace=False)
    return np.sort(np.searchsorted(ends, event, side="right"))


OTHERS = 4096  # users enough to tell what users do
# Of a fit's: many passes over new events alone, in steps as long as at first, undo what all others
# have taught. Found on MovieLens 100K, see docs/LOG.md.
EPOCHS_SHARE, RATE_SHARE = 1 / 8, 0.3
NEWCOMERS_SHARE = 1 / 20  # of a fit's work, that new users and items may take at most


def update(
    model: Recommender,
    options: FMPairOptions,
    data: Dataset,
    epochs: int | None = None,
    begin: Begin = begin,
    replay: Any = 0.0,
) -> Recommender:
    """The model after learning from further events, with their new ids and values.

    New users and items are learned first, each from its own events, as in a fit; then all new
    events, in few passes and short steps, so that what was learned before is not forgotten.
    options: those it was learned by; begin: how training starts. epochs: of the second part.
    replay: earlier events to learn again, or how many for each new one.
    """
    if epochs is None:
        epochs = max(round(options.epochs * EPOCHS_SHARE), 1)
    whole("epochs", epochs, 1)
    task, first = _continued(model, options, data, None, replay=replay)
    first = _with_newcomers(model, task, first, begin)
    rate = options.learning_rate * RATE_SHARE
    task = replace(task, options=replace(task.options, epochs=epochs, learning_rate=rate))
    *_, last = learn(task, begin(task, first, ()))
    return last.recommender()


def _with_newcomers(model: Recommender, task: Task, first: Parameters, begin: Begin) -> Parameters:
    """The first values with those of new users and items learned; all others stay as they are."""
    problem, users, items = task.problem, len(model.parameters.users), len(model.parameters.items)
    others = (problem.user < users) & (problem.item < items)
    count = len(others) - int(others.sum())
    if not count:
        return first
    everything = float(task.seen.value.sum()) * task.options.epochs
    passes = min(max(round(NEWCOMERS_SHARE * everything / count), 1), task.options.epochs)
    own = replace(
        task,
        options=replace(task.options, epochs=passes),
        problem=problem._replace(known=problem.known | others),
    )
    training = begin(own, first, ("features",))
    deque(learn(own, training), maxlen=0)
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
    replay: Any = 0.0,
) -> tuple[Task, Parameters]:
    """(what is to be learned of the new events, the parameters to begin with).

    chosen: bool [items], what anyone ever chose, where the model has but a part of its users.
    """
    if epochs is not None:
        whole("epochs", epochs, 1)
    factors = pair_columns(model.parameters.users.shape[1], model.triples)
    if options.factors not in (None, factors):  # only a file that was tampered with says so
        raise OptionError(f"the recipe has {options.factors} factors, its vectors {factors}")
    _check_columns(model, data)
    options = replace(
        options,
        factors=factors,
        epochs=epochs or options.epochs,
        damping=model.damping,
        history=model.space.history,
        on=None,  # little is learned: no cluster is waited for
    )
    if not len(data.impressions):  # what was shown before need not be said again
        options = replace(options, impression_share=0.0)
    space = model.space.extend(data)
    data = renumbered(data, space)
    own = grown(model, options, space, data)
    past = past_of(space, data, own.recent)
    learned = with_earlier(model, data, replay, options.seed)
    fresh = problem_of(options, space, learned, past)
    problem = _problem(model, fresh, space, own, options.sharing)
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


def _problem(
    model: Recommender, fresh: Problem, space: FeatureSpace, own: Grown, sharing: float | None
) -> Problem:
    """The events to learn from, then what their users had before: known, so never negatives.

    fresh: the new events alone, and perhaps earlier ones after them to learn again.
    """
    owner, item = model.seen.owner.astype(np.int32), model.seen.column
    mine = np.isin(owner, fresh.user)
    count = int(mine.sum())
    # How many share a value is told by all users and items, not by those the events speak of.
    query = query_groups(
        space.query, own.user_rows, fresh.user, fresh.contexts, fresh.situation, sharing
    )
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
        # The mean of some events is not the mean of all: fields stay where they are centred.
        query_groups=query._replace(centred=np.zeros(space.query.size, bool)),
        item_groups=item_groups(space.item, own.item_rows, fresh.item, sharing),
    )
