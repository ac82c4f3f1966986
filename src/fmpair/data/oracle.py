"""The true choice model of a generated data set: the upper bound of every ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.errors import DataError, UnknownError, unknown

DAYTIMES = ("night", "morning", "afternoon", "evening")  # six hours each, from midnight
PLACES = ("home", "work", "travel")
SITUATIONS = len(DAYTIMES) * len(PLACES)  # situation = daytime * len(PLACES) + place
BLOCK = 1 << 21  # scores held at a time: 16 MB


@dataclass(frozen=True)
class Oracle:
    """Probability of an item = softmax over the catalogue of (user + situation) . item + constant.

    All float64: user_vectors [users, k], situation_vectors [SITUATIONS, k], item_vectors
    [items, k], item_constants [items], situation_chances [SITUATIONS], adding up to 1.
    """

    user_vectors: np.ndarray
    situation_vectors: np.ndarray
    item_vectors: np.ndarray
    item_constants: np.ndarray
    situation_chances: np.ndarray

    def chances(self, user: np.ndarray, situation: np.ndarray) -> np.ndarray:
        """float64 [n, items]: how likely each item is, for n users, each in a situation."""
        queries = self.user_vectors[user] + self.situation_vectors[situation]
        scores = queries @ self.item_vectors.T + self.item_constants
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def scores(self, user: np.ndarray, context: pl.DataFrame | None = None) -> np.ndarray:
        """float32 [n, items]: the true log-probability of each item for n user numbers.

        context: n rows with columns daytime and place. A missing value or column was drawn but
        hidden, so the chances are averaged over what it may have been, given the other column.
        Without context this is the best that a model without context could do.
        """
        user = np.asarray(user)
        self._check(user, context)
        possible = self._possible(len(user), context)
        out = np.empty((len(user), len(self.item_vectors)), np.float32)
        for part in blocks(len(user), SITUATIONS * out.shape[1]):
            row, situation = np.nonzero(possible[part])
            chances = self.chances(user[part][row], situation)
            chances *= possible[part][row, situation][:, None]
            first = np.flatnonzero(np.diff(row, prepend=-1))
            out[part] = np.log(np.add.reduceat(chances, first, axis=0))
        return out

    def _check(self, user: np.ndarray, context: pl.DataFrame | None) -> None:
        if len(user) and not 0 <= user.min() <= user.max() < len(self.user_vectors):
            raise UnknownError(f"user numbers must be 0 to {len(self.user_vectors) - 1}")
        if context is not None and context.height != len(user):
            raise DataError(
                f"{len(user)} users but {context.height} rows of context: give one each"
            )

    def _possible(self, count: int, context: pl.DataFrame | None) -> np.ndarray:
        """float64 [count, SITUATIONS]: how likely each situation is, given what can be seen."""
        fits = np.ones((count, len(DAYTIMES), len(PLACES)), bool)
        if context is not None and "daytime" in context.columns:
            fits &= _fitting(context["daytime"], DAYTIMES)[:, :, None]
        if context is not None and "place" in context.columns:
            fits &= _fitting(context["place"], PLACES)[:, None, :]
        possible = fits.reshape(count, SITUATIONS) * self.situation_chances
        return possible / possible.sum(axis=1, keepdims=True)


def blocks(rows: int, width: int) -> Iterator[slice]:
    """Consecutive slices of `rows` rows, each with about BLOCK numbers of `width` per row."""
    step = max(1, BLOCK // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _fitting(values: pl.Series, names: tuple[str, ...]) -> np.ndarray:
    """bool [values, names]: which names a value may stand for; a missing one for any."""
    strange = values.drop_nulls().cast(pl.String)
    strange = strange.filter(~strange.is_in(names))
    if len(strange):
        raise UnknownError(unknown(values.name, strange[0], names))
    text = values.cast(pl.String).to_frame("value")
    return text.select(
        (pl.col("value") == name).fill_null(True).alias(name) for name in names
    ).to_numpy()
