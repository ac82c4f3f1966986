"""One Gaussian process per user over shared vectors: likelihood of pairs, gradients, scores.

A point is an item in a situation: the item's vector followed by one vector per context field,
float64 [dimensions]. The kernel of two points is height^2 exp(-distance^2 / (2 length^2)). Every
user has scales, float64 [3]: the logarithms of length, height and noise.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.jit import kernel
from fmpair.threads import all_threads, side_by_side

TARGET = 2.0  # the difference of a pair: 1 for the chosen item, less -1 for the other
USERS_AT_ONCE = 8  # users per step, for any number of threads
LONGEST = 10.0  # longer gradients of a user are clipped, or the first steps would diverge
ITEMS_AT_ONCE = 8192  # items scored at a time, which bounds memory
NUMBERS_AT_ONCE = 1 << 24  # the same for users with many pairs
DOUBLES = 6  # held for every two pairs of a user: the kernels of points and of pairs


class UserPairs(NamedTuple):
    """Per user the pairs of a chosen item and another one, in the situation of the choice.

    start: int64 [users + 1]; item, other, situation: int32 [pairs].
    """

    start: np.ndarray
    item: np.ndarray
    other: np.ndarray
    situation: np.ndarray

    def of(self, user: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (item, situation) of the user's points: all chosen ones, then all others."""
        pairs = slice(self.start[user], self.start[user + 1])
        items = np.concatenate([self.item[pairs], self.other[pairs]])
        return items, np.tile(self.situation[pairs], 2)


class PointLayout(NamedTuple):
    """The vectors of a situation and their positions in a point.

    situations: rows over the table of vectors. place: int32 [rows of the table], 0 for items, 1 and
    so on for the values of each context field.
    """

    situations: Rows
    place: np.ndarray

    def points(self, vectors: np.ndarray, item: np.ndarray, situation: np.ndarray) -> np.ndarray:
        """Return the points: float64 [points, dimensions]."""
        fields = int(self.place.max()) + 1
        out = np.zeros((len(item), fields * vectors.shape[1]))
        _fill(vectors, self.place, *self.situations, item, situation, out)
        return out


class Latent(NamedTuple):
    """vectors: float64 [items and context values, factors]; scales: float64 [users, 3]."""

    vectors: np.ndarray
    scales: np.ndarray


class Descent(NamedTuple):
    """Options of descent. speed: momentum; threads: None for all."""

    speed: Latent
    rate: float
    momentum: float
    threads: int | None


def bytes_needed(pairs: int, threads: int | None) -> int:
    """Return the bytes of memory needed if one user has so many pairs."""
    return 8 * DOUBLES * pairs**2 * (threads or all_threads())


def epoch(
    latent: Latent, descent: Descent, layout: PointLayout, pairs: UserPairs, order: np.ndarray
) -> float:
    """Run one pass over the users of `order`; return the sum of their losses, not finite on
    divergence.

    latent and the speed change in place. The gradients of the users of a step are computed in
    parallel and added in order, so the number of threads does not matter.
    """
    speed, rate, momentum, threads = descent
    total, slope = 0.0, np.empty_like(latent.vectors)

    def slopes(user: int) -> tuple[float, np.ndarray, np.ndarray]:
        return likelihood(layout.points(latent.vectors, *pairs.of(user)), latent.scales[user])

    with ThreadPoolExecutor(threads or all_threads()) as pool:
        for first in range(0, len(order), USERS_AT_ONCE):
            users = order[first : first + USERS_AT_ONCE]
            slope[:] = 0
            for user, (loss, by_points, by_scales) in zip(users, pool.map(slopes, users)):
                if not np.isfinite(loss):
                    return loss
                _shorten(by_points)
                _shorten(by_scales)
                add_slopes(slope, layout, *pairs.of(user), by_points)
                speed.scales[user] = momentum * speed.scales[user] - rate * by_scales
                total += loss
            speed.vectors[:] = momentum * speed.vectors - rate * slope
            latent.vectors[:] += speed.vectors
            latent.scales[users] += speed.scales[users]
    return total


def add_slopes(
    slope: np.ndarray, layout: PointLayout, item: np.ndarray, situation: np.ndarray, by: np.ndarray
) -> None:
    """Add the slopes by points to those by the vectors that the points are made of."""
    _spread(slope, layout.place, *layout.situations, item, situation, by)


def regress(
    latent: Latent, layout: PointLayout, pairs: UserPairs, threads: int | None
) -> np.ndarray:
    """Return the weights of each user's points (chosen ones, then others): float64 [2 * pairs].

    They regress the labels 1 of chosen items and -1 of others: score(point) = sum of weight *
    kernel(point, own point).
    """
    out = np.zeros(2 * len(pairs.item))

    def run(user: int) -> None:
        points = layout.points(latent.vectors, *pairs.of(user))
        squares = np.exp(2 * latent.scales[user])
        out[2 * pairs.start[user] : 2 * pairs.start[user + 1]] = _weights(points, squares)

    side_by_side(run, np.flatnonzero(np.diff(pairs.start)).tolist(), threads)
    return out


def scores(
    items: np.ndarray, asked: np.ndarray, own: np.ndarray, weight: np.ndarray, scales: np.ndarray
) -> np.ndarray:
    """Return the scores of one user: float32 [asked, items].

    items: float64 [items, factors]. asked: the situations' part of a point, float64 [asked,
    dimensions - factors]. own: the user's points; weight: of each, from `regress`. The kernel is a
    product of the parts of items and situations, so the part of items is computed once.
    """
    length, height, _ = np.exp(2 * scales)
    factors = items.shape[1]
    mine = own[:, :factors]
    worth = (weight * _kernel(asked, own[:, factors:], length, height)).astype(np.float32)
    out = np.empty((len(asked), len(items)), np.float32)
    step = max(min(ITEMS_AT_ONCE, NUMBERS_AT_ONCE // max(len(own), 1)), 1)
    for first in range(0, len(items), step):
        part = items[first : first + step]
        halves = (mine**2).sum(axis=1)[:, None] / 2 + (part**2).sum(axis=1) / 2
        near = np.exp(((mine @ part.T - halves) / length).astype(np.float32))
        out[:, first : first + step] = worth @ near
    return out


@kernel(error_model="numpy")
def likelihood(points, scales):
    """Return minus the log likelihood of a user's pairs, up to a constant, and its gradients.

    points: float64 [2 n, dimensions], pair t being (t, n + t). Returns (loss, gradient by points,
    gradient by scales [3]). Every pair counts twice, as (chosen, other) with target 2 and mirrored
    with -2: one observation with half the noise, plus a term n log(2 noise^2) / 2.
    """
    n = len(points) // 2
    length, height, noise = np.exp(2 * scales)
    near = _kernel(points, points, length, height)
    inverse = np.empty((n, n))
    for a in range(n):
        for b in range(n):
            inverse[a, b] = near[a, b] + near[n + a, n + b] - near[a, n + b] - near[n + a, b]
        inverse[a, a] += noise / 2
    log_determinant = _invert(inverse)
    weight = np.empty(n)
    for a in range(n):
        weight[a] = TARGET * inverse[a].sum()
    loss = (log_determinant + n * np.log(2 * noise) + TARGET * weight.sum()) / 2
    for a in range(n):  # from here on the slope by the kernel of pairs
        for b in range(n):
            inverse[a, b] = (inverse[a, b] - weight[a] * weight[b]) / 2
    by_points, by_scales = _slopes(points, near, inverse, length)
    by_scales[2] = n
    for a in range(n):
        by_scales[2] += noise * inverse[a, a]
    return loss, by_points, by_scales


@kernel(error_model="numpy")
def _slopes(points, near, by_pairs, length):
    """Pass the gradient by the kernel of pairs on to points, length and height."""
    n, dimensions = len(by_pairs), points.shape[1]
    by_points, by_scales = np.zeros(points.shape), np.zeros(3)
    for i in range(2 * n):
        for j in range(2 * n):
            by = by_pairs[i % n, j % n] * near[i, j]
            if (i < n) != (j < n):
                by = -by
            distance = 0.0
            for c in range(dimensions):
                apart = points[i, c] - points[j, c]
                distance += apart * apart
                by_points[i, c] -= 2 * by * apart / length
            by_scales[0] += by * distance / length
            by_scales[1] += 2 * by
    return by_points, by_scales


@kernel(error_model="numpy", plain=True)
def _kernel(left, right, length, height):
    """Return float64 [left, right]; length and height are squared."""
    out = np.empty((len(left), len(right)))
    for i in range(len(left)):
        for j in range(len(right)):
            distance = 0.0
            for c in range(left.shape[1]):
                distance += (left[i, c] - right[j, c]) ** 2
            out[i, j] = height * np.exp(-distance / (2 * length))
    return out


@kernel(error_model="numpy")
def _invert(matrix):
    """Invert a positive definite matrix in place by Cholesky; return its log determinant.

    Not by BLAS, whose bits depend on its threads, and which Numba reaches only through SciPy.
    """
    n, log_determinant = len(matrix), 0.0
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = rest / matrix[j, j] if j < i else np.sqrt(rest)
        log_determinant += 2 * np.log(matrix[i, i])
    for i in range(n):  # the factor's inverse
        matrix[i, i] = 1 / matrix[i, i]
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total -= matrix[i, k] * matrix[k, j]
            matrix[i, j] = total * matrix[i, i]
    for i in range(n):  # its product with itself
        for j in range(i + 1):
            total = 0.0
            for k in range(i, n):
                total += matrix[k, i] * matrix[k, j]
            matrix[i, j] = total
    for i in range(n):
        for j in range(i):
            matrix[j, i] = matrix[i, j]
    return log_determinant


@kernel
def _weights(points, squares):
    """Return inverse(kernel + noise) times the labels: float64 [points]; squares: of the scales."""
    inverse = _kernel(points, points, squares[0], squares[1])
    for i in range(len(points)):
        inverse[i, i] += squares[2]
    _invert(inverse)
    half = len(points) // 2
    out = np.empty(len(points))
    for i in range(len(points)):
        out[i] = inverse[i, :half].sum() - inverse[i, half:].sum()
    return out


@kernel(plain=True)
def _fill(vectors, place, start, column, value, item, situation, out):
    factors = vectors.shape[1]
    for point in range(len(item)):
        for c in range(factors):
            out[point, c] = vectors[item[point], c]
        for e in range(start[situation[point]], start[situation[point] + 1]):
            first = place[column[e]] * factors
            for c in range(factors):
                out[point, first + c] += value[e] * vectors[column[e], c]


@kernel
def _spread(slope, place, start, column, value, item, situation, by_points):
    """The transpose of `_fill`."""
    factors = slope.shape[1]
    for point in range(len(item)):
        for c in range(factors):
            slope[item[point], c] += by_points[point, c]
        for e in range(start[situation[point]], start[situation[point] + 1]):
            first = place[column[e]] * factors
            for c in range(factors):
                slope[column[e], c] += value[e] * by_points[point, first + c]


def _shorten(slope: np.ndarray) -> None:
    length = np.sqrt((slope**2).sum())
    if length > LONGEST:
        slope *= LONGEST / length
