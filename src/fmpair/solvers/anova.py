"""The factorization machine itself, in plain NumPy: scores by ANOVA kernels, and their slopes.

With z_j = x_j v_j the pairs of a row sum up to A2 = ((sum z)^2 - sum z^2) / 2, the triples to
A3 = ((sum z)^3 - 3 (sum z)(sum z^2) + 2 sum z^3) / 6, each factor for itself: no pair is visited.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows


class Machine(NamedTuple):
    """f(x) = bias + x . linear + A2(x, pairs) + A3(x, triples), summed over factors.

    linear: float64 [features]; pairs, triples: float64 [features, factors], triples without
    factors for order 2.
    """

    bias: float
    linear: np.ndarray
    pairs: np.ndarray
    triples: np.ndarray


def start(features: int, factors: int, order: int, sd: float, rng: np.random.Generator) -> Machine:
    """A machine with random vectors and nothing else."""
    pairs = rng.standard_normal((features, factors)) * sd
    triples = rng.standard_normal((features, factors if order == 3 else 0)) * sd
    return Machine(0.0, np.zeros(features), pairs, triples)


def restricted(machine: Machine, rows: Rows) -> tuple[Machine, Rows]:
    """The same scores of the rows from tables [entries of the rows] in place of [features]."""
    bias, *tables = machine
    column = np.arange(len(rows.column), dtype=np.int32)
    return Machine(bias, *(table[rows.column] for table in tables)), rows._replace(column=column)


def predict(machine: Machine, rows: Rows) -> np.ndarray:
    """float64 [rows]: the score of every row."""
    linear = rows.dot(machine.linear[:, None])[:, 0]
    return machine.bias + linear + pairs_of(machine.pairs, rows) + triples_of(machine.triples, rows)


def pairs_of(table: np.ndarray, rows: Rows) -> np.ndarray:
    """float64 [rows]: A2, the inner products of all pairs of a row's features."""
    squares = _powers(rows, 2).dot((table * table).sum(axis=1, keepdims=True))[:, 0]
    return 0.5 * ((rows.dot(table) ** 2).sum(axis=1) - squares)


def triples_of(table: np.ndarray, rows: Rows) -> np.ndarray:
    """float64 [rows]: A3, the same of all triples."""
    one, two, three = (_powers(rows, n).dot(table**n) for n in (1, 2, 3))
    return ((one**3 - 3 * one * two + 2 * three) / 6).sum(axis=1)


def halves(table: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """(A1, A2) of every factor by itself: [rows, factors] each.

    A triple of two sides has two features of one and one of the other, or all three of one: the
    triples of both are A1(a) . A2(b) + A2(a) . A1(b) + A3(a) + A3(b).
    """
    one = rows.dot(table)
    return one, 0.5 * (one * one - _powers(rows, 2).dot(table * table))


def slopes(machine: Machine, column: np.ndarray, value: np.ndarray) -> Machine:
    """df/d(parameter) at one row, for the row's own features: [entries] and [entries, factors]."""
    x = value.astype(np.float64)[:, None]
    z = x * machine.pairs[column]
    pairs = x * (z.sum(axis=0) - z)
    z = x * machine.triples[column]
    others, squares = z.sum(axis=0) - z, (z * z).sum(axis=0) - z * z
    return Machine(1.0, x[:, 0], pairs, x * 0.5 * (others * others - squares))


def mean_of(machines: list[Machine]) -> Machine:
    """The machine whose score is the mean of the machines' scores.

    Side by side and shortened by the root of their number (the cube root for triples), the vectors
    of all of them are vectors whose products are the means of theirs: the average of FMs is an FM
    of more factors.
    """
    pairs = np.hstack([m.pairs for m in machines]) / np.sqrt(len(machines))
    triples = np.hstack([m.triples for m in machines]) / np.cbrt(len(machines))
    linear = np.mean([m.linear for m in machines], axis=0)
    bias = float(np.mean([m.bias for m in machines]))
    return Machine(bias, linear, pairs, triples)


def _powers(rows: Rows, n: int) -> Rows:
    return rows if n == 1 else rows._replace(value=rows.value.astype(np.float64) ** n)


# What a factorization machine learns from: examples with a target, and penalties.


class Examples(NamedTuple):
    """What to learn from. rows: features of each example; target: float64 [examples], 1 or -1
    for a binary one.

    edges: int64 [groups + 1], the features of group g are edges[g] to edges[g + 1].
    """

    rows: Rows
    target: np.ndarray
    edges: np.ndarray
    binary: bool


class Penalties(NamedTuple):
    """Strength of regularisation of every feature's linear term and vectors: float64 [features]."""

    linear: np.ndarray
    vectors: np.ndarray
