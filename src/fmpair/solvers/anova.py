"""The factorization machine in plain NumPy: scores by ANOVA kernels.

With z_j = x_j v_j, the pairs of a row sum to A2 = ((sum z)^2 - sum z^2) / 2 and the triples to A3 =
((sum z)^3 - 3 (sum z)(sum z^2) + 2 sum z^3) / 6, for each factor separately.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows


class Machine(NamedTuple):
    """f(x) = bias + x . linear + A2(x, pairs) + A3(x, triples), summed over factors.

    linear: float64 [features]; pairs, triples: float64 [features, factors]; for order 2, triples
    have no factors.
    """

    bias: float
    linear: np.ndarray
    pairs: np.ndarray
    triples: np.ndarray


class Examples(NamedTuple):
    """Examples to learn from. rows: features; target: float64 [examples], 1 or -1 if binary.

    edges: int64 [groups + 1], the features of group g are edges[g] to edges[g + 1].
    """

    rows: Rows
    target: np.ndarray
    edges: np.ndarray
    binary: bool


class Penalties(NamedTuple):
    """Regularisation of every feature's linear term and vectors: float64 [features]."""

    linear: np.ndarray
    vectors: np.ndarray


def start(features: int, factors: int, order: int, sd: float, rng: np.random.Generator) -> Machine:
    """Return a machine with random vectors and no other terms."""
    pairs = rng.standard_normal((features, factors)) * sd
    triples = rng.standard_normal((features, factors if order == 3 else 0)) * sd
    return Machine(0.0, np.zeros(features), pairs, triples)


def restricted(machine: Machine, rows: Rows) -> tuple[Machine, Rows]:
    """Return a machine with tables [entries of the rows] instead of [features], same scores."""
    bias, *tables = machine
    column = np.arange(len(rows.column), dtype=np.int32)
    return Machine(bias, *(table[rows.column] for table in tables)), rows._replace(column=column)


def predict(machine: Machine, rows: Rows) -> np.ndarray:
    """Return the score of every row: float64 [rows]."""
    linear = rows.dot(machine.linear[:, None])[:, 0]
    return machine.bias + linear + pairs_of(machine.pairs, rows) + triples_of(machine.triples, rows)


def pairs_of(table: np.ndarray, rows: Rows) -> np.ndarray:
    """Return A2, the inner products of all pairs of a row's features: float64 [rows]."""
    squares = _powers(rows, 2).dot((table * table).sum(axis=1, keepdims=True))[:, 0]
    return 0.5 * ((rows.dot(table) ** 2).sum(axis=1) - squares)


def triples_of(table: np.ndarray, rows: Rows) -> np.ndarray:
    """Return A3, the same of all triples: float64 [rows]."""
    one, two, three = (_powers(rows, n).dot(table**n) for n in (1, 2, 3))
    return ((one**3 - 3 * one * two + 2 * three) / 6).sum(axis=1)


def halves(table: np.ndarray, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return (A1, A2) by factor: [rows, factors] each.

    A triple of two sides has two features of one and one of the other, or all three of one: the
    triples of both are A1(a) . A2(b) + A2(a) . A1(b) + A3(a) + A3(b).
    """
    one = rows.dot(table)
    return one, 0.5 * (one * one - _powers(rows, 2).dot(table * table))


def mean_of(machines: list[Machine]) -> Machine:
    """Return the machine whose score is the mean of the machines' scores.

    The average of FMs is an FM of more factors: their vectors side by side, divided by the root of
    their number (the cube root for triples).
    """
    pairs = np.hstack([m.pairs for m in machines]) / np.sqrt(len(machines))
    triples = np.hstack([m.triples for m in machines]) / np.cbrt(len(machines))
    linear = np.mean([m.linear for m in machines], axis=0)
    bias = float(np.mean([m.bias for m in machines]))
    return Machine(bias, linear, pairs, triples)


def _powers(rows: Rows, n: int) -> Rows:
    return rows if n == 1 else rows._replace(value=rows.value.astype(np.float64) ** n)
