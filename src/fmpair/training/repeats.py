"""Repeats: vectors of earlier items that raise the items themselves, by `repeat` of a history.

Vectors of rare items are short, so products rank them low even right after a user chose them. After
training every item i gets a random code c(i) in CODES more factors, and the vector of j as an
earlier item gets a vector d(j) with

    d(j) . (p(j), c(j)) = repeat, and the least sum over all i of (d(j) . (p(i), c(i)))^2,

so it raises j itself, items that are like j a little, and others hardly (docs/LOG.md). The model
stays one inner product.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import HISTORY
from fmpair.threads import blas_on

CODES = 64  # factors of the codes
# Length of the codes in multiples of that of usual item vectors: LENGTH in the least squares, where
# d(j) is mostly along the codes, and SHORT in the model, where similar items go by the vectors.
LENGTH, SHORT = 2.0, 0.1
RIDGE = 0.1  # added to the diagonal of the squares, in multiples of their mean
AT_ONCE = 1 << 16  # items whose vectors are computed at a time


def gains(space: FeatureSpace) -> bool:
    """Return whether earlier items raise themselves."""
    return space.history is not None and space.history.repeat > 0


def with_repeats(parameters: Parameters, space: FeatureSpace, item_rows: Rows) -> Parameters:
    """Return the parameters with codes of items and vectors of earlier items that use them."""
    tables, pairs = parameters._asdict(), _pairs(parameters, space)
    for name in ("users", "items", "query", "features"):
        blank = np.zeros((len(tables[name]), CODES), np.float32)
        parts = (tables[name][:, :pairs], blank, tables[name][:, pairs:])
        tables[name] = np.concatenate(parts, axis=1)
    changed, first = Parameters(**tables), _first(space)
    for items, code, move in _moves(parameters, space, item_rows, pairs):
        changed.items[items, pairs : pairs + CODES] = code
        changed.query[first + items.start : first + items.stop, : pairs + CODES] += move
    return changed


def without_repeats(parameters: Parameters, space: FeatureSpace, item_rows: Rows) -> Parameters:
    """Return the parameters that `with_repeats` was given, but for rounding."""
    tables, end = parameters._asdict(), _pairs(parameters, space)
    pairs = end - CODES
    if pairs < 1:  # only in a tampered file
        raise ModelFileError(f"its vectors of {end} numbers are too short for the codes of repeats")
    for name in ("users", "items", "query", "features"):
        tables[name] = np.delete(tables[name], np.s_[pairs:end], axis=1)
    changed, first = Parameters(**tables), _first(space)
    for items, _, move in _moves(changed, space, item_rows, pairs):
        changed.query[first + items.start : first + items.stop, :pairs] -= move[:, :pairs]
    return changed


def _pairs(parameters: Parameters, space: FeatureSpace) -> int:
    """Return the number of columns that are not of triples."""
    return parameters.items.shape[1] - (space.pairing.factors if space.pairing else 0)


def _first(space: FeatureSpace) -> int:
    """Return the number of the first item as a feature of queries."""
    return next(offset for offset, e in space.query.of_role(HISTORY) if e.name == HISTORY)


def _moves(
    parameters: Parameters, space: FeatureSpace, item_rows: Rows, pairs: int
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield items, their codes [items, CODES] and vectors d [items, pairs + CODES], in parts."""
    assert space.history is not None
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
            move *= (np.float32(space.history.repeat) / own)[:, None]
            move[:, pairs:] *= np.float32(LENGTH / SHORT)
            yield part, np.float32(SHORT * usual) * codes[part], move
