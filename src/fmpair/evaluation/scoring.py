"""Scores of every item for every query, from a fitted model or any function."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.features.calendar import TIME
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender

Scores = Callable[[np.ndarray], np.ndarray]


def scores_of(model: Any, train: Dataset, queries: Dataset) -> Scores:
    """Query numbers to float32 [queries, items of train]; -inf where the model lacks the item."""
    if isinstance(model, Recommender):
        return _folded(model, train, queries)
    if isinstance(model, Ranker):
        return _called(_over(model, train), train, queries)
    if callable(model):
        return _called(model, train, queries)
    raise OptionError(f"evaluate takes a Recommender or a function of a Dataset, not {model!r}")


def goes_by_time(model: Any) -> bool:
    """Whether the scores of a fitted model depend on when they are asked for."""
    return isinstance(model, Recommender | Ranker) and TIME in model.space.context


def _folded(model: Recommender, train: Dataset, queries: Dataset) -> Scores:
    vectors, turned = folded_arrays(model, train, queries)
    vectors = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)
    return lambda asked: vectors[asked] @ turned


def folded_arrays(
    model: Recommender, train: Dataset, queries: Dataset
) -> tuple[np.ndarray, np.ndarray]:
    """(query vectors [queries, factors], items of train [factors + 1, items]): the products rank.

    The last row holds the items' constants, -inf for an item that the model lacks.
    """
    known = [name for name in queries.columns.columns if name in model.space.context]
    vectors = model.query_vectors(queries.frame().select("user", *known))
    matrix = np.column_stack([model.item_vectors, model.item_constants]).astype(np.float32)
    if model.space.items is not train.items:
        number = model.space.items.numbers(train.items.ids)
        none = np.zeros((1, matrix.shape[1]), np.float32)
        none[0, -1] = -np.inf
        matrix = np.vstack([matrix, none])[number]  # -1, unknown, is the last row
    return vectors, np.ascontiguousarray(matrix.T)


def _over(model: Ranker, train: Dataset) -> Callable[[Dataset], np.ndarray]:
    """The model's scores with the items numbered as in training."""
    if model.space.items is train.items:
        return model
    number = model.space.items.numbers(train.items.ids)

    def scores(events: Dataset) -> np.ndarray:
        out = model(events)[:, number]
        out[:, number < 0] = -np.inf
        return out

    return scores


def _called(model: Callable[[Dataset], Any], train: Dataset, queries: Dataset) -> Scores:
    one_at_a_time = Lock()  # batches run on threads, which a foreign function need not bear

    def scores(asked: np.ndarray) -> np.ndarray:
        with one_at_a_time:
            out = np.asarray(model(queries.take(asked)), np.float32)
        if out.shape != (len(asked), len(train.items)):
            raise DataError(
                f"the scorer must give {len(asked)} rows of {len(train.items)} scores, one per "
                f"item of the training data, not an array of shape {out.shape}"
            )
        return out

    return scores
