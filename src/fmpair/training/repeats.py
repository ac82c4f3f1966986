"""Repeats: vectors of earlier items that raise the items themselves, by `repeat` of a history.

Vectors of rare items are short, so products rank them low even right after a user chose them. After
training every item i gets a random code c(i) in CODES more factors, and the vector of j as an
earlier item gets a vector d(j) with

    d(j) . (p(j), c(j)) = gain, and the least sum over all i of (d(j) . (p(i), c(i)))^2,

so it raises j itself, items that are like j a little, and others hardly (docs/LOG.md). The model
stays one inner product. The gain is `repeat` times the distance from a usual score to the best one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import HISTORY
from fmpair.fitted.recommender import Recommender
from fmpair.threads import blas_on

CODES = 128  # factors of the codes
# Length of the codes in multiples of that of usual item vectors: LENGTH in the least squares, where
# d(j) is mostly along the codes, and SHORT in the model, where similar items go by the vectors.
LENGTH, SHORT = 2.0, 0.1
RIDGE = 0.1  # added to the diagonal of the squares, in multiples of their mean
AT_ONCE = 1 << 16  # items whose vectors are computed at a time
SAMPLE, QUERIES = 64, 8  # users from whose scores the gain follows, and how many at a time


def gains(space: FeatureSpace) -> bool:
    """Return whether earlier items raise themselves."""
    return space.history is not None and space.history.repeat > 0


def gain_of(model: Recommender, visits: bool) -> float:
    """Return what an earlier item of weight 1 adds to its own score, by `repeat` of the history.

    That is `repeat` times the distance from the median score of all items to the best one: the
    median over a sample of users. model: its parameters are without repeats. visits: whether users
    come once; then the scores are those of visitors.
    """
    assert model.space.history is not None
    users = model.space.users.ids
    rows = np.linspace(0, len(users) - 1, min(SAMPLE, len(users))).astype(np.int64)
    queries = pl.DataFrame({"user": users.gather(rows)})
    if visits and model.recent is not None:
        before = [model.recent.line(row)[0] for row in rows.tolist()]
        queries = pl.DataFrame(
            {"history": [model.space.items.ids.gather(items) for items in before]}
        )
    vectors, items = model.query_vectors(queries), model.item_matrix[:-1]
    distances = []
    with blas_on(1):  # the same bits on any number of threads
        for begin in range(0, len(vectors), QUERIES):
            scores = vectors[begin : begin + QUERIES] @ items + model.item_matrix[-1]
            distances.append(scores.max(axis=1) - np.median(scores, axis=1))
    return model.space.history.repeat * float(np.median(np.concatenate(distances)))


def with_repeats(
    parameters: Parameters, space: FeatureSpace, item_rows: Rows, gain: float
) -> Parameters:
    """Return the parameters with codes of items and vectors of earlier items that use them."""
    tables, pairs = parameters._asdict(), _pairs(parameters, space)
    for name in ("users", "items", "query", "features"):
        blank = np.zeros((len(tables[name]), CODES), np.float32)
        parts = (tables[name][:, :pairs], blank, tables[name][:, pairs:])
        tables[name] = np.concatenate(parts, axis=1)
    changed, first = Parameters(**tables), _first(space)
    for items, code, move in _moves(parameters, item_rows, pairs):
        rows = slice(first + items.start, first + items.stop)
        changed.items[items, pairs : pairs + CODES] = code
        changed.query[rows, : pairs + CODES] += np.float32(gain) * move
    return changed


def without_repeats(
    parameters: Parameters, space: FeatureSpace, item_rows: Rows
) -> tuple[Parameters, float]:
    """Return the parameters and the gain that `with_repeats` was given, but for rounding."""
    tables, end = parameters._asdict(), _pairs(parameters, space)
    pairs = end - CODES
    # later items have no codes
    coded = np.count_nonzero(parameters.items[:, max(pairs, 0) : end].any(axis=1))
    if pairs < 1 or not coded:  # only in a tampered file
        raise ModelFileError(f"its vectors of {end} numbers have no codes of repeats")
    for name in ("users", "items", "query", "features"):
        tables[name] = np.delete(tables[name], np.s_[pairs:end], axis=1)
    changed, first, gain = Parameters(**tables), _first(space), 0.0
    known = changed._replace(items=changed.items[:coded])
    for items, _, move in _moves(known, item_rows.take(np.arange(coded)), pairs):
        rows = slice(first + items.start, first + items.stop)
        if not items.start:  # training leaves the codes empty, so what is in them tells the gain
            codes = move[:, pairs:]
            gain = float(np.vdot(codes, parameters.query[rows, pairs:end]) / np.vdot(codes, codes))
        changed.query[rows, :pairs] -= np.float32(gain) * move[:, :pairs]
    return changed, gain


def _pairs(parameters: Parameters, space: FeatureSpace) -> int:
    """Return the number of columns that are not of triples."""
    return parameters.items.shape[1] - (space.pairing.factors if space.pairing else 0)


def _first(space: FeatureSpace) -> int:
    """Return the number of the first item as a feature of queries."""
    return next(offset for offset, e in space.query.of_role(HISTORY) if e.name == HISTORY)


def _moves(
    parameters: Parameters, item_rows: Rows, pairs: int
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield items, their codes [items, CODES] and vectors d [items, pairs + CODES], in parts.

    The vectors are those of a gain of 1.
    """
    vectors = parameters.items[:, :pairs]
    if len(item_rows.column):
        vectors = vectors + item_rows.dot(np.ascontiguousarray(parameters.features[:, :pairs]))
    lengths = np.linalg.norm(vectors, axis=1)
    usual = float(np.median(lengths[lengths > 0])) if lengths.any() else 1.0
    codes = np.random.default_rng(0).standard_normal((len(vectors), CODES), np.float32)
    codes /= np.linalg.norm(codes, axis=1, keepdims=True)
    both = np.concatenate([vectors, np.float32(LENGTH * usual) * codes], axis=1)
    with blas_on(1):  # the same bits on any number of threads
        squares = (both.T @ both).astype(np.float64)
        squares += RIDGE * np.trace(squares) / len(squares) * np.eye(len(squares))
        inverse = np.linalg.inv(squares).astype(np.float32)
        for begin in range(0, len(both), AT_ONCE):
            part = slice(begin, min(begin + AT_ONCE, len(both)))
            move = both[part] @ inverse
            own = np.einsum("if,if->i", move, both[part])
            move /= own[:, None]
            move[:, pairs:] *= np.float32(LENGTH / SHORT)
            yield part, np.float32(SHORT * usual) * codes[part], move
