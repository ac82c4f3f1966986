"""What a model whose scores do not fold brings to a `Ranker`."""

from __future__ import annotations

from typing import ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data.times import Timelines
from fmpair.errors import OptionError

MEMBERS = ("scores_unknown_users", "scores", "arrays")  # of a Scorer


class Scorer(Protocol):
    """What such a model brings: scores of all items, and its arrays.

    scores_unknown_users: whether it has an answer for users it has not learned from (number -1, or
    no events); if not it is never asked about them, and they get the most popular items.

    One that can say more also has what `ComparesItems`, `ComparesUsers`,
    `ScoresHistories`, `Follows` or `Explains` name.
    """

    scores_unknown_users: ClassVar[bool]

    def scores(self, users: np.ndarray, context: pl.DataFrame) -> np.ndarray:
        """float32 [n, items] for the users' numbers, int32 [n]; a new array each time.

        context: n rows with the context columns that were asked for, which may be none at all; a
        column that is missing and a value that is null were left open.
        """
        ...

    def arrays(self) -> dict[str, np.ndarray]:
        """All that `recipe.restore(arrays, space, seen)` needs to make the scorer again."""
        ...


def check_scorer(scorer: object) -> None:
    """Refuse what lacks a part that every scorer has."""
    lacks = [name for name in MEMBERS if not hasattr(scorer, name)]
    if lacks:
        old = " (strangers in fmpair 0.1)" if "scores_unknown_users" in lacks else ""
        name = type(scorer).__name__
        raise OptionError(f"{name} is no scorer: it has no {', '.join(lacks)}{old}")


@runtime_checkable
class ComparesItems(Protocol):
    """A scorer that knows which items are similar."""

    def item_similarity(self, item: int) -> np.ndarray:
        """float32 [items]: of an item with every item."""
        ...


@runtime_checkable
class ComparesUsers(Protocol):
    """A scorer that knows which users are similar."""

    def user_similarity(self, user: int) -> np.ndarray:
        """float32 [users]: of a user with every user."""
        ...


@runtime_checkable
class ScoresHistories(Protocol):
    """A scorer that needs no more of a user than their items."""

    def history_scores(self, history: Rows) -> np.ndarray:
        """float32 [n, items] for the items of n visitors; a new array each time."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A scorer that goes by what came last, and need not learn to know of further events."""

    def following(self, history: Rows) -> np.ndarray:
        """float32 [n, items] for the items of n visitors, oldest first; a new array each time."""
        ...

    def extended(self, lines: Timelines) -> Self:
        """With further events, which come after those it knows; lines: of the same users."""
        ...


@runtime_checkable
class Explains(Protocol):
    """A scorer whose scores are sums."""

    def terms(self, user: int, item: int) -> tuple[list[str], np.ndarray]:
        """(labels, values) that add up to the score."""
        ...
