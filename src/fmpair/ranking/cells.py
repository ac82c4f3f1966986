"""Cells of similar items, by k-means, for a search that visits few of them."""

from __future__ import annotations

import numpy as np

SAMPLE = 64  # items per cell that the centres are fitted to
ROUNDS = 8
AT_ONCE = 1 << 14  # items that are compared with all centres at a time


def cells(
    vectors: np.ndarray, constants: np.ndarray, count: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return items in the order of their cells, int32 [items], and the cells' starts [count + 1].

    An item is compared by its vector, float32 [items, factors], and its constant as one dimension
    more, so that a cell holds items of similar scores for any query.
    """
    draw = np.random.default_rng(seed)
    size = min(len(vectors), count * SAMPLE)
    sample = _points(vectors, constants, np.sort(draw.permutation(len(vectors))[:size]))
    centres = sample[draw.permutation(size)[:count]]
    for _ in range(ROUNDS):
        own = _nearest(sample, centres)
        centres = _means(sample, own, centres, draw)
    cell = np.empty(len(vectors), np.int32)
    for first in range(0, len(vectors), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        cell[part] = _nearest(_points(vectors, constants, part), centres)
    start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(centres)))])
    return np.argsort(cell, kind="stable").astype(np.int32), start.astype(np.int64)


def _points(vectors: np.ndarray, constants: np.ndarray, part: np.ndarray | slice) -> np.ndarray:
    """Return float32 [items, factors + 1]."""
    return np.column_stack([vectors[part], constants[part]]).astype(np.float32, copy=False)


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the nearest centre of each point."""
    half = np.einsum("cf,cf->c", centres, centres) / 2
    out = np.empty(len(points), np.int64)
    for first in range(0, len(points), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        out[part] = np.argmax(points[part] @ centres.T - half, axis=1)
    return out


def _means(
    points: np.ndarray, cell: np.ndarray, centres: np.ndarray, draw: np.random.Generator
) -> np.ndarray:
    """Return the mean of each cell's points; an empty cell starts again at a point."""
    size = np.bincount(cell, minlength=len(centres))
    filled, start = np.flatnonzero(size), np.cumsum(size) - size
    out = points[draw.integers(len(points), size=len(centres))]
    sums = np.add.reduceat(points[np.argsort(cell, kind="stable")], start[filled], axis=0)
    out[filled] = sums / size[filled, None]
    return out
