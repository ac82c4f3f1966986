"""The definition of scores, losses and their gradients: plain NumPy, one step's items at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fmpair.engine.contract import Parameters, Settings


@dataclass(frozen=True)
class Choice:
    """One step's data: user u, the chosen item and the candidates, and the features of each side.

    query, sides: (columns, values) of the query, and of each item. weight: of the event;
    warp_weight: what WARP makes of how easily a negative was found. off: of each item, what the
    logQ correction takes off its score in the loss; empty for nothing. kept: float64 [factors], of
    each factor of the query, what dropout makes of it: 0 or somewhat more than 1; None for 1.
    """

    u: int
    items: tuple[int, ...]
    query: tuple[np.ndarray, np.ndarray]
    sides: tuple[tuple[np.ndarray, np.ndarray], ...]
    weight: float = 1.0
    warp_weight: float = 1.0
    off: tuple[float, ...] = ()
    kept: np.ndarray | None = None

    @property
    def i(self) -> int:
        return self.items[0]

    @property
    def j(self) -> int:
        return self.items[1]


def item_side(parameters: Parameters, item: int, features: tuple) -> tuple[np.ndarray, float]:
    """(vector p, constant b) of an item: its own, its attributes', and their inner pairs."""
    column, value = features
    parts = np.vstack([parameters.items[item], value[:, None] * parameters.features[column]])
    p = parts.sum(axis=0)
    pairs = 0.5 * (p @ p - (parts * parts).sum())
    return p, float(parameters.item_bias[item] + value @ parameters.feature_bias[column] + pairs)


def query_side(parameters: Parameters, choice: Choice) -> np.ndarray:
    """q: the user's vector and those of all query features."""
    column, value = choice.query
    q = parameters.users[choice.u] + value @ parameters.query[column]
    return q if choice.kept is None else q * choice.kept


def scores(parameters: Parameters, choice: Choice, settings: Settings) -> np.ndarray:
    """q . p + b of every item, or with a temperature the cosine of q and p, divided by it."""
    q = query_side(parameters, choice)
    sides = [item_side(parameters, *member) for member in zip(choice.items, choice.sides)]
    if settings.temperature:
        return np.array([_cosine(q, p) for p, _ in sides]) / settings.temperature
    return np.array([q @ p + b for p, b in sides])


def loss(parameters: Parameters, choice: Choice, settings: Settings) -> float:
    """What a step makes small, for an event of weight one."""
    f = scores(parameters, choice, settings) - np.array(choice.off or 0.0)
    if settings.loss == "softmax":
        return float(np.logaddexp.reduce(f) - f[0])
    if settings.loss == "logistic":
        return float(np.logaddexp(0, -f[0]) + np.logaddexp(0, f[1:]).sum())
    if len(f) == 1:
        return 0.0
    g = f[0] - f[1]
    return float(np.logaddexp(0, -g)) if settings.loss == "bpr" else max(1 - g, 0.0)


def slopes(f: np.ndarray, kind: str) -> np.ndarray:
    """-d loss / d score of every item, given the scores."""
    chosen = np.arange(len(f)) == 0
    if kind == "softmax":
        return chosen - np.exp(f - np.logaddexp.reduce(f))
    if kind == "logistic":
        return chosen - 1 / (1 + np.exp(-f))
    g = f[0] - f[1]
    strength = 1 / (1 + math.exp(g)) if kind == "bpr" else float(g < 1)
    return strength * np.array([1.0, -1.0])


def ascent(
    parameters: Parameters, choice: Choice, settings: Settings
) -> dict[tuple[str, int], np.ndarray]:
    """-d loss / d(row) for every row the loss depends on, by (table, row)."""
    out: dict[tuple[str, int], np.ndarray] = {}
    f = scores(parameters, choice, settings) - np.array(choice.off or 0.0)
    q = query_side(parameters, choice)
    cosine = settings.temperature > 0
    for slope, item, side in zip(slopes(f, settings.loss), choice.items, choice.sides):
        p, _ = item_side(parameters, item, side)
        of_query = _cosine_slope(p, q, settings.temperature) if cosine else p
        of_query = of_query if choice.kept is None else of_query * choice.kept
        of_item = _cosine_slope(q, p, settings.temperature) if cosine else q + p
        parts = [("users", choice.u, 1.0, of_query), ("items", item, 1.0, of_item)]
        parts += [("query", int(c), x, of_query) for c, x in zip(*choice.query)]
        parts += [("features", int(c), x, of_item) for c, x in zip(*side)]
        if not cosine:  # a product has constants, and no part of an item meets itself in it
            parts += [("item_bias", item, 1.0, np.array(1.0))]
            parts += [("feature_bias", int(c), x, np.array(1.0)) for c, x in zip(*side)]
            parts += [("items", item, -1.0, parameters.items[item])]
            parts += [("features", int(c), -x * x, parameters.features[c]) for c, x in zip(*side)]
        for table, row, value, way in parts:
            out[table, row] = out.get((table, row), 0.0) + slope * value * way
    return out


def _cosine(q: np.ndarray, p: np.ndarray) -> float:
    return float(q @ p / (np.linalg.norm(q) * np.linalg.norm(p)))


def _cosine_slope(fixed: np.ndarray, moving: np.ndarray, temperature: float) -> np.ndarray:
    """d (cosine / temperature) / d moving."""
    length = np.linalg.norm(moving)
    way = fixed / np.linalg.norm(fixed) - _cosine(fixed, moving) * moving / length
    return way / (length * temperature)
