"""Scores by what follows the items that a user chose last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, group_rows, stack_rows
from fmpair.data.timelines import Timelines, strictly_before
from fmpair.data.vocabulary import Vocabulary
from fmpair.features import FeatureSpace
from fmpair.fitted.integrity import Numbers, check, largest, longest, refuse_overflow, sparse
from fmpair.fitted.named_rows import arrays_of, rows_from


@dataclass(frozen=True, eq=False)
class Transitions:
    """score(user, item) = sum over the user's last items j of
    last[user, j] * (chance[j, item] + rest[j] * popular[item]).

    last: per user the items of their last moment, which sum to one; chance: per item how likely
    each other follows; rest, popular: float32 [items].
    """

    last: Rows
    chance: Rows
    rest: np.ndarray
    popular: np.ndarray
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Transitions:
        users, items = len(space.users), len(space.items)
        table = {
            **sparse("last", users, items),
            **sparse("chance", items, items),
            "rest": Numbers((items,), np.dtype(np.float32)),
            "popular": Numbers((items,), np.dtype(np.float32)),
        }
        found = check(arrays, table)
        last, chance = rows_from(found, "last"), rows_from(found, "chance")
        follows = largest(chance.value) + largest(found["rest"]) * largest(found["popular"])
        refuse_overflow(longest(last) * follows)
        return cls(last, chance, found["rest"], found["popular"], space.items)

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        return self._scores(self.last.take(users))

    def following(self, history: Rows) -> np.ndarray:
        """Visitors are known by the last item of their history."""
        ends = history.start[1:] - 1
        return self._scores(
            Rows(np.arange(len(ends) + 1), history.column[ends], history.value[ends])
        )

    def _scores(self, own: Rows) -> np.ndarray:
        """own: the last items of each query."""
        from fmpair.solvers.products import product

        rest = own.dot(self.rest[:, None])
        return product(own, self.chance, len(self.items)) + rest * self.popular

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """What each of the last items adds, and what popularity does."""
        own = self.last.take(np.array([user]))
        across = self.chance.take(own.column)
        mine = across.column == item
        place = across.owner[mine]
        labels = [f"after item={name}" for name in self.items.take(own.column[place])]
        usual = own.dot(self.rest[:, None])[0, 0] * self.popular[item]
        return [*labels, "popularity"], np.append(own.value[place] * across.value[mine], usual)

    def extended(self, lines: Timelines) -> Transitions:
        """Who has further events is known by the last of these."""
        new, users = last_items(lines), np.arange(lines.users)
        told = np.diff(new.start) > 0
        both = stack_rows(self.last, new)
        return replace(self, last=both.take(users + lines.users * told))

    def arrays(self) -> dict[str, np.ndarray]:
        rows = arrays_of({"last": self.last, "chance": self.chance})
        return {**rows, "rest": self.rest, "popular": self.popular}


def last_items(lines: Timelines) -> Rows:
    """Per user the items of their last moment, each with its share of one: [users] rows."""
    filled = np.flatnonzero(np.diff(lines.start))
    end = lines.start[1:][filled]
    begin = strictly_before(lines)[end - 1].astype(np.int64)
    length = end - begin
    owner = np.repeat(filled, length)
    first = np.repeat(begin, length)
    place = first + np.arange(len(first)) - np.repeat(np.cumsum(length) - length, length)
    share = np.repeat(1.0 / length, length)
    return add_repeats(group_rows(owner, lines.item[place], lines.users, share))
