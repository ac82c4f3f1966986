"""Going on with a fitted model: new users folded in, new events learned from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows, add_repeats, group_rows, stack_rows
from fmpair.data import Dataset, as_dataset
from fmpair.engine.problem import Parameters, Problem
from fmpair.errors import OptionError, UnknownError, unknown
from fmpair.features import FeatureSpace, Side
from fmpair.models.option import whole
from fmpair.models.recommender import Recommender
from fmpair.models.training import initial, learn, problem_of


class Grown(NamedTuple):
    """A model's arrays over a space that has grown."""

    parameters: Parameters
    user_rows: Rows
    item_rows: Rows
    seen: Rows


def fold_in(model: Recommender, events: Any, epochs: int | None) -> Recommender:
    """The model with the events' users learned; items and features do not move."""
    data = _checked(model, events).compact()
    known = model.space.items.numbers(data.items.ids)[data.item]
    if (known < 0).any():
        model.item_number(data.items.ids[int(data.item[np.argmax(known < 0)])])
    learned, first = _learned(model, data, epochs, users_only=True)
    # Not a bit of the rest may differ, though a mean of equal copies may round.
    return learned.replaced(parameters=first._replace(users=learned.parameters.users))


def update(model: Recommender, data: Any, epochs: int | None) -> Recommender:
    """The model after learning from further events, with their new ids and values."""
    return _learned(model, _checked(model, data), epochs)[0]


def _checked(model: Recommender, events: Any) -> Dataset:
    """The events as a Dataset whose context and attributes the model knows."""
    if not hasattr(model.recipe, "learning_rate"):
        name = type(model.recipe).__name__
        raise OptionError(f"{name} does not learn step by step: fit it again on all events")
    factors = model.parameters.users.shape[1]
    if model.recipe.factors != factors:  # only a file that was tampered with says so
        raise OptionError(f"the recipe has {model.recipe.factors} factors, its vectors {factors}")
    data = as_dataset(events)
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
    return data


def _learned(
    model: Recommender, data: Dataset, epochs: int | None, users_only: bool = False
) -> tuple[Recommender, Parameters]:
    """(the model after learning from the events, the parameters it began with)."""
    if epochs is not None:
        whole("epochs", epochs, 1)
    recipe = model.recipe if epochs is None else replace(model.recipe, epochs=epochs)
    if not len(data.shown):  # what was shown before need not be said again
        recipe = replace(recipe, shown_share=0.0)
    space = model.space.extend(data)
    data = _renumbered(data, space)
    grown = _grown(model, space, data)
    problem = _problem(model, recipe, space, data, grown)
    first, kind = grown.parameters, model.frame_kind
    *_, last = learn(recipe, space, problem, first, grown.seen, kind, users_only)
    learned = last.recommender().replaced(recipe=model.recipe, damping=model.damping)
    return learned, first


def _renumbered(data: Dataset, space: FeatureSpace) -> Dataset:
    """The events over the space's vocabularies; tables are aligned with them."""
    user_numbers = space.users.numbers(data.users.ids)
    item_numbers = space.items.numbers(data.items.ids)
    return replace(
        data,
        users=space.users,
        items=space.items,
        user=user_numbers[data.user],
        item=item_numbers[data.item],
        user_table=_aligned(data.user_table, user_numbers, len(space.users)),
        item_table=_aligned(data.item_table, item_numbers, len(space.items)),
    )


def _aligned(table: Any, numbers: np.ndarray, count: int) -> Any:
    """A table's rows at new numbers, null elsewhere."""
    if not table.width:
        return table
    place = np.full(count, len(table), np.int64)
    place[numbers] = np.arange(len(table))
    padded = table.clear(1) if len(table) == 0 else table
    return padded.vstack(table.clear(1))[place]


def _grown(model: Recommender, space: FeatureSpace, data: Dataset) -> Grown:
    """The model's arrays with room for what is new; new ids start as in a fit from scratch."""
    query_at = _moved(model.space.query, space.query)
    item_at = _moved(model.space.item, space.item)
    old_users = _with_columns(model.user_rows, query_at)
    old_items = _with_columns(model.item_rows, item_at)
    user_rows = _renewed(old_users, space.user_rows(data.user_table, len(space.users)))
    item_rows = _renewed(old_items, space.item_rows(data.item_table, len(space.items)))
    first = initial(model.recipe, space)
    old = model.parameters
    first.users[: len(old.users)], first.items[: len(old.items)] = old.users, old.items
    first.item_bias[: len(old.items)] = old.item_bias
    first.query[query_at], first.features[item_at] = old.query, old.features
    first.feature_bias[item_at] = old.feature_bias
    return Grown(first, user_rows, item_rows, _seen(model, data))


def _moved(old: Side, new: Side) -> np.ndarray:
    """Where each old feature stands in the grown side: int64 [old features]."""
    pieces = [
        np.arange(encoder.size) + first for encoder, first in zip(old.encoders, new.offsets[:-1])
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _with_columns(rows: Rows, at: np.ndarray) -> Rows:
    column = at[rows.column] if len(at) else rows.column
    return rows._replace(column=column.astype(np.int32))


def _renewed(old: Rows, new: Rows) -> Rows:
    """New rows where they say something, else the old."""
    both = stack_rows(old, new)
    number = np.arange(new.size)
    say = (np.diff(new.start) > 0) | (number >= old.size)
    return both.take(np.where(say, old.size + number, number))


def _seen(model: Recommender, data: Dataset) -> Rows:
    """The model's seen items and the events' together, and how often each."""
    old = model.seen
    user, item = np.concatenate([old.owner, data.user]), np.concatenate([old.column, data.item])
    times = np.concatenate([old.value, np.ones(len(data), np.float32)])
    return add_repeats(group_rows(user, item, len(data.users), times))


def _problem(
    model: Recommender, recipe: Any, space: FeatureSpace, data: Dataset, grown: Grown
) -> Problem:
    """The new events, and what their users had before as known: never drawn as a negative."""
    fresh = problem_of(recipe, space, data)
    # The mean of a few new events is not the mean of all: fields stay where they are centred.
    groups = fresh.query_groups._replace(centred=np.zeros(space.query.size, bool))
    owner, item = model.seen.owner.astype(np.int32), model.seen.column
    mine = np.isin(owner, data.user)
    count = int(mine.sum())
    drawn = np.bincount(grown.seen.column, minlength=len(space.items)) > 0
    return fresh._replace(
        user=np.concatenate([fresh.user, owner[mine]]),
        item=np.concatenate([fresh.item, item[mine]]),
        weight=np.concatenate([fresh.weight, np.ones(count, np.float32)]),
        known=np.concatenate([fresh.known, np.ones(count, bool)]),
        situation=np.concatenate([fresh.situation, np.zeros(count, np.int32)]),
        drawn=drawn, user_rows=grown.user_rows, item_rows=grown.item_rows, query_groups=groups,
    )  # fmt: skip
