"""One step of the reference engine: how far every row moves."""

from __future__ import annotations

import math

import numpy as np

from fmpair.engine.contract import Parameters, Settings, Triples
from fmpair.engine.reference.objective import Choice, ascent
from fmpair.engine.strata.accumulators import Accumulators

ROWS = {"item_bias": "items", "feature_bias": "features"}  # whose row a bias is a part of


def take_step(
    parameters: Parameters,
    choice: Choice,
    settings: Settings,
    rate: float,
    feature_rates: dict,
    accumulators: Accumulators | None = None,
    triples: Triples | None = None,
) -> None:
    """theta <- theta + rate * (weight * ascent - lambda * theta), all rows at once.

    feature_rates: relative step lengths of the features of each side, by row. accumulators: of
    AdaGrad, which then divide the rate. Regularisation takes no more of a row than there is.
    """
    strength = choice.weight * choice.warp_weight
    found = ascent(parameters, choice, settings, triples)
    ways = {place: strength * way for place, way in found.items()}
    if accumulators:
        _add_squares(accumulators, ways)
    for (table, row), way in ways.items():
        decay, speed = _decay_and_speed(settings, table, row, row == choice.i)
        home = ROWS.get(table, table)
        step = rate * speed * feature_rates.get(home, _Ones())[row]
        if accumulators:
            step /= math.sqrt(getattr(accumulators, home)[row])
        target = getattr(parameters, table)
        if triples and target.ndim > 1:
            pairs = target.shape[1] - triples.factors
            own = _triple_decay(settings, table, row)
            decay = np.repeat([decay, own], [pairs, triples.factors])
        shrink = np.minimum(step * _due(choice, table, row) * decay, 1.0)
        target[row] += step * way - shrink * target[row]


def _add_squares(accumulators: Accumulators, ways: dict[tuple[str, int], np.ndarray]) -> None:
    """AdaGrad: the mean square of every row's gradient, its bias (if it has one) included."""
    for (table, row), way in ways.items():
        counts = accumulators.bias if table in ROWS else 1.0
        getattr(accumulators, ROWS.get(table, table))[row] += (
            counts * accumulators.mean * np.square(way).sum()
        )


def _due(choice: Choice, table: str, row: int) -> float:
    """The share of its regularisation a row is due: n candidates share that of one."""
    if table in ("users", "query"):
        return 1.0
    if table in ("items", "item_bias"):
        has = [item == row for item in choice.items]
    else:
        has = [row in side[0] for side in choice.sides]
    return min(has[0] + sum(has[1:]) / (len(has) - 1), 1.0)


def _triple_decay(settings: Settings, table: str, row: int) -> float:
    """Regularisation of one row's vector of triples."""
    assert settings.triples is not None
    if table in ("query", "features"):
        return getattr(settings.triples, table)[row]
    l2_scale = getattr(settings.l2_scale, table)[row] if settings.l2_scale else 1.0
    return l2_scale * (settings.triples.user if table == "users" else settings.triples.item)


class _Ones:
    """The rate of ids: one for every row."""

    def __getitem__(self, row: int) -> float:
        return 1.0


def _decay_and_speed(settings: Settings, table: str, row: int, positive: bool) -> tuple:
    """Regularisation and relative rate of one row."""
    if table == "query":
        return settings.query[row], settings.feature_rate
    if table in ("features", "feature_bias"):
        moves = table == "features" or settings.learn_bias
        return settings.features[row], settings.feature_rate * moves
    if table == "item_bias":
        return settings.bias, settings.item_rate if settings.learn_bias else 0.0
    l2_scale = getattr(settings.l2_scale, table)[row] if settings.l2_scale else 1.0
    if table == "users":
        return settings.user * l2_scale, settings.user_rate
    return l2_scale * (settings.positive if positive else settings.negative), settings.item_rate
