"""Scores that are sums over neighbours, of the items or of the users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.features import FeatureSpace
from fmpair.fitted.integrity import check, largest, longest, refuse_overflow, sparse
from fmpair.fitted.named_rows import arrays_of, rows_from


@dataclass(frozen=True, eq=False)
class ItemNeighbours:
    """score(user, item) = sum over the item's neighbours j of near[item, j] * own[user, j].

    own: per user their items; near: per item its neighbours and how similar they are.
    """

    own: Rows
    near: Rows
    items: Vocabulary
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> ItemNeighbours:
        return cls(*_restored(arrays, space, len(space.items)), space.items)

    @cached_property
    def _neighbour_of(self) -> Rows:
        """Per item the items it is a neighbour of."""
        from fmpair.solvers.products import turned

        return turned(self.near, len(self.items))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        from fmpair.solvers.products import product

        return product(self.own.take(users), self._neighbour_of, len(self.items))

    def history_scores(self, history: Rows) -> np.ndarray:
        """float32 [n, items] for visitors with these items."""
        from fmpair.solvers.products import product

        return product(history, self._neighbour_of, len(self.items))

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """What each item of the user adds."""
        return _terms("item", self.items, self.own, self._neighbour_of, user, item)

    def item_similarity(self, item: int) -> np.ndarray:
        return _written_out(self.near, item, len(self.items))

    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of({"own": self.own, "near": self.near})


@dataclass(frozen=True, eq=False)
class UserNeighbours:
    """score(user, item) = sum over the user's neighbours v of near[user, v] * own[v, item].

    own: per user their items; near: per user their neighbours and how similar they are.
    """

    own: Rows
    near: Rows
    users: Vocabulary
    items: int
    scores_unknown_users: ClassVar[bool] = False

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> UserNeighbours:
        own, near = _restored(arrays, space, len(space.users))
        return cls(own, near, space.users, len(space.items))

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        from fmpair.solvers.products import product

        return product(self.near.take(users), self.own, self.items)

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """What each neighbour who has the item adds."""
        return _terms("user", self.users, self.near, self.own, user, item)

    def user_similarity(self, user: int) -> np.ndarray:
        return _written_out(self.near, user, len(self.users))

    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of({"own": self.own, "near": self.near})


def _restored(
    arrays: Mapping[str, np.ndarray], space: FeatureSpace, neighbours: int
) -> tuple[Rows, Rows]:
    """(own, near) of a model file; neighbours: of how many each has its nearest."""
    table = {
        **sparse("own", len(space.users), len(space.items)),
        **sparse("near", neighbours, neighbours),
    }
    found = check(arrays, table)
    own, near = rows_from(found, "own"), rows_from(found, "near")
    refuse_overflow(longest(own) * largest(near.value), longest(near) * largest(own.value))
    return own, near


def _terms(
    what: str, ids: Vocabulary, left: Rows, right: Rows, user: int, item: int
) -> tuple[list[str], np.ndarray]:
    """The summands of the product of two sparse rows, with the ids they belong to."""
    own = left.take(np.array([user]))
    across = right.take(own.column)
    mine = across.column == item
    place = across.owner[mine]
    labels = [f"{what}={name}" for name in ids.take(own.column[place])]
    return labels, own.value[place] * across.value[mine]


def _written_out(rows: Rows, number: int, columns: int) -> np.ndarray:
    """float32 [columns]: one sparse row."""
    out, own = np.zeros(columns, np.float32), rows.take(np.array([number]))
    out[own.column] = own.value
    return out
