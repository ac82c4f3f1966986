"""The vectors that leave fmpair: of items, of those who ask, and of their contexts.

The item's constant is one more dimension, and 1 stands there in the vector of whoever asks: so
score(query, item) = query_vector . item_vector, and any index of inner products will do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import empty_rows
from fmpair.capacity import check_memory
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import OptionError
from fmpair.fitted.query import Queries
from fmpair.fitted.recommender import Recommender

PAIRS = 2  # the order of a machine of pairs


class Labelled(NamedTuple):
    """labels: [rows]; vectors: float32 [rows, factors + 1]."""

    labels: np.ndarray
    vectors: np.ndarray


def folded(model: Any) -> Recommender:
    """The model itself, refused where its scores are no products of two vectors."""
    if isinstance(model, Recommender):
        return model
    raise OptionError(
        f"{type(model.recipe).__name__} cannot be exported: its scores are no inner products of a "
        "vector for each query and one for each item, as those of FMPair or ImplicitALS are"
    )


def items_of(model: Recommender) -> Labelled:
    """Every item by its id; the constant comes last."""
    return Labelled(ids_of(model.space.items), widened(model.item_vectors, model.item_constants))


def users_of(model: Recommender) -> Labelled:
    """Every known user by id, in no context; attributes and history are in the vector."""
    return Labelled(ids_of(model.space.users), widened(model.user_vectors, 1.0))


def contexts_of(model: Recommender) -> Labelled:
    """The values of categories, labelled `daytime=evening`: what each adds to a user's vector.

    None where that depends on the rest of the question: terms of order three, shares of a whole.
    """
    space = model.space
    if space.whole or getattr(model.recipe, "order", PAIRS) > PAIRS:
        return Labelled(_texts([]), np.zeros((0, model.item_vectors.shape[1] + 1), np.float32))
    places = [
        (first, encoder)
        for first, encoder in space.query.of_role("context")
        if encoder.field.kind == "categorical"
    ]
    labels = [label for _, encoder in places for label in encoder.labels()]
    rows = [np.arange(first, first + encoder.size) for first, encoder in places]
    number = np.concatenate([np.empty(0, np.int64), *rows])
    return Labelled(_texts(labels), widened(model.parameters.query[number], 0.0))


def usual_user(model: Recommender) -> np.ndarray:
    """float32 [factors + 1]: of somebody not known, in no context."""
    nothing = pl.DataFrame()
    asked = Queries(
        np.array([-1], np.int32), empty_rows(1), nothing, nothing, np.zeros(1, np.bool_)
    )
    return widened(model.vectors(asked), 1.0)[0]


def widened(vectors: np.ndarray, last: np.ndarray | float) -> np.ndarray:
    """float32 [rows, factors + 1]: vectors with one more dimension."""
    column = np.broadcast_to(np.asarray(last, np.float32), len(vectors))
    return np.column_stack([vectors, column]).astype(np.float32)


def ids_of(vocabulary: Vocabulary) -> np.ndarray:
    """Ids as plain arrays hold them: whole numbers as they are, all else as text."""
    ids = vocabulary.ids
    if ids.dtype.is_integer() and ids.dtype not in (pl.Int128, pl.UInt128):
        return ids.to_numpy()
    return _texts([str(one) for one in ids.to_list()])


def _texts(labels: list[str]) -> np.ndarray:
    longest = max(map(len, labels), default=1)
    size = f"{len(labels):,} ids or values of up to {longest:,} characters"
    check_memory("an array of texts", size, 4 * longest * len(labels), None, "give shorter ids")
    return np.array(labels, dtype=np.str_) if labels else np.empty(0, "<U1")
