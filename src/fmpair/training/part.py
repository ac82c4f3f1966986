"""A part of a model's users, to learn others among: how many there are must not cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fmpair.arrays import Rows, stack_rows
from fmpair.data import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.recommender import Recommender
from fmpair.training.growth import moved, with_columns

OTHERS = 4096  # users enough to tell what users do


def some_users(model: Recommender, data: Dataset) -> Recommender:
    """The model with those of the data's users it knows, some others, and no more."""
    users, own = model.space.users, model.space.users.numbers(data.users.ids)
    others = np.linspace(0, len(users) - 1, min(OTHERS, len(users))).astype(np.int64)
    number = np.union1d(others, own[own >= 0])
    if len(number) == len(users):
        return model
    return model.replaced(
        space=replace(model.space, users=Vocabulary(users.take(number))),
        parameters=model.parameters._replace(users=model.parameters.users[number]),
        user_rows=model.user_rows.take(number),
        seen=model.seen.take(number),
    )


def put_back(model: Recommender, data: Dataset, learned: Recommender) -> Recommender:
    """The whole model with the data's users as they were learned in a part of it."""
    users = model.space.users.extend(data.users.ids)
    number, own = (known.numbers(data.users.ids) for known in (users, learned.space.users))
    old = model.parameters.users
    table = np.empty((len(users), old.shape[1]), old.dtype)
    table[: len(old)] = old
    table[number] = learned.parameters.users[own]
    profiles = model.user_rows
    if learned.space.query.size > model.space.query.size:
        profiles = with_columns(profiles, moved(model.space.query, learned.space.query))
    return learned.replaced(
        space=replace(learned.space, users=users),
        parameters=learned.parameters._replace(users=table),
        user_rows=_with_rows(profiles, number, learned.user_rows.take(own)),
        seen=_with_rows(model.seen, number, learned.seen.take(own)),
    )


def _with_rows(rows: Rows, number: np.ndarray, own: Rows) -> Rows:
    """The rows with others at these numbers; those beyond the last come in order."""
    both = stack_rows(rows, own)
    if (number >= rows.size).all():
        return both
    place = np.arange(max(rows.size, number.max() + 1))
    place[number] = rows.size + np.arange(own.size)
    return both.take(place)
