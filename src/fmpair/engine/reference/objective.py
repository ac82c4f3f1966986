"""Scores, losses, gradients and the update of one step, in plain NumPy: the definition."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fmpair.engine.contract import STEEPEST, Meeting, Parameters, Settings, Triples
from fmpair.engine.item_side import pair_columns
from fmpair.engine.strata.field_regularisation import Accumulators

ROWS = {"item_bias": "items", "feature_bias": "features"}  # the table whose rows a bias belongs to
Gradients = list[tuple[str, int, float, np.ndarray]]  # (table, row, value, d score / d (x v))


@dataclass(frozen=True)
class Choice:
    """The data of a step: user u, the chosen item and the candidates, and features of each side.

    query, sides: (columns, values) of the query, and of each item. weight: of the event;
    warp_weight: of the violation found. off: logQ correction of each item, or empty. kept: float64
    [length], dropout factors of the query's vector; None for 1.
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


def item_side(
    parameters: Parameters, item: int, features: tuple, triples: Triples | None = None
) -> tuple[np.ndarray, float]:
    """Return (vector p, constant b) of an item: its own, its attributes', and their inner pairs."""
    column, value = features
    parts = _parts(parameters.items[item], parameters.features, features)
    pairs = parts[:, : pair_columns(parts.shape[1], triples)]
    p = pairs.sum(axis=0)
    inner = 0.5 * (p @ p - (pairs * pairs).sum())
    vector = parts.sum(axis=0)
    if triples and triples.mirrored:
        two = _second(parts, features, triples.factors, triples.item)[0]
        vector = np.append(vector, two)
    linear = parameters.item_bias[item] + value @ parameters.feature_bias[column]
    return vector, float(linear + inner)


def query_side(
    parameters: Parameters, choice: Choice, triples: Triples | None = None
) -> np.ndarray:
    """Return q, the sum of the vectors of user and query features; with triples [q | A2 | A1]."""
    parts = _parts(parameters.users[choice.u], parameters.query, choice.query)
    q = parts.sum(axis=0)
    if triples:
        two = _second(parts, choice.query, triples.factors, triples.query)[0]
        q = np.insert(q, len(q) - triples.factors, two)
        q = q if triples.mirrored else q[: -triples.factors]
    return q if choice.kept is None else q * choice.kept


def _parts(id_vector: np.ndarray, table: np.ndarray, features: tuple) -> np.ndarray:
    """Return x v of every feature of a side, the id first: [features + 1, columns]."""
    column, value = features
    return np.vstack([id_vector, value[:, None] * table[column]])


def _second(
    parts: np.ndarray, features: tuple, factors: int, meeting: Meeting
) -> tuple[np.ndarray, np.ndarray]:
    """Return (A2 [factors], d A2 / d part [features + 1, factors]) of the triple vectors."""
    group = np.append(meeting.own, meeting.group[features[0]])
    meets = meeting.meets[np.ix_(group, group)] * (1 - np.eye(len(group)))
    vectors = parts[:, parts.shape[1] - factors :]
    others = meets @ vectors
    return 0.5 * (vectors * others).sum(axis=0), others


def scores(
    parameters: Parameters, choice: Choice, settings: Settings, triples: Triples | None = None
) -> np.ndarray:
    """Return q . p + b of every item or, with a temperature, cosine(q, p) / temperature."""
    q = query_side(parameters, choice, triples)
    members = zip(choice.items, choice.sides)
    sides = [item_side(parameters, *member, triples) for member in members]
    if settings.temperature:
        return np.array([_cosine(q, p) for p, _ in sides]) / settings.temperature
    return np.array([q @ p + b for p, b in sides])


def loss(
    parameters: Parameters, choice: Choice, settings: Settings, triples: Triples | None = None
) -> float:
    """Return the loss of a step, for an event of weight one."""
    f = scores(parameters, choice, settings, triples) - np.array(choice.off or 0.0)
    if settings.loss == "softmax":
        return float(np.logaddexp.reduce(f) - f[0])
    if settings.loss == "logistic":
        return float(np.logaddexp(0, -f[0]) + np.logaddexp(0, f[1:]).sum())
    if len(f) == 1:
        return 0.0
    g = f[0] - f[1]
    return float(np.logaddexp(0, -g)) if settings.loss == "bpr" else max(1 - g, 0.0)


def slopes(f: np.ndarray, kind: str) -> np.ndarray:
    """Return -d loss / d score of every item, given the scores."""
    chosen = np.arange(len(f)) == 0
    if kind == "softmax":
        return chosen - np.exp(f - np.logaddexp.reduce(f))
    if kind == "logistic":
        return chosen - 1 / (1 + np.exp(-f))
    g = f[0] - f[1]
    strength = 1 / (1 + math.exp(g)) if kind == "bpr" else float(g < 1)
    return strength * np.array([1.0, -1.0])


def ascent(
    parameters: Parameters, choice: Choice, settings: Settings, triples: Triples | None = None
) -> dict[tuple[str, int], np.ndarray]:
    """Return -d loss / d(row) for every row the loss depends on, by (table, row)."""
    f = scores(parameters, choice, settings, triples) - np.array(choice.off or 0.0)
    q = query_side(parameters, choice, triples)
    cosine, of_query = settings.temperature > 0, np.zeros(len(q))
    parts: list[tuple[float, Gradients]] = []
    for slope, item, side in zip(slopes(f, settings.loss), choice.items, choice.sides):
        p, _ = item_side(parameters, item, side, triples)
        of_query += slope * (_cosine_slope(p, q, settings.temperature) if cosine else p)
        of_item = _cosine_slope(q, p, settings.temperature) if cosine else q
        rows = _item_gradients(parameters, item, side, of_item, triples, not cosine)
        if not cosine:  # a product has constants
            rows += [("item_bias", item, 1.0, np.array(1.0))]
            rows += [("feature_bias", int(c), x, np.array(1.0)) for c, x in zip(*side)]
        parts.append((slope, rows))
    return query_ascent(parameters, choice, of_query, triples) | _summed(parts)


def query_slope(
    parameters: Parameters, choice: Choice, settings: Settings, triples: Triples | None = None
) -> np.ndarray:
    """Return -d loss / d q, for products."""
    f = scores(parameters, choice, settings, triples) - np.array(choice.off or 0.0)
    members = zip(slopes(f, settings.loss), choice.items, choice.sides)
    return np.sum([s * item_side(parameters, i, side, triples)[0] for s, i, side in members], 0)


def query_ascent(
    parameters: Parameters, choice: Choice, slope: np.ndarray, triples: Triples | None = None
) -> dict[tuple[str, int], np.ndarray]:
    """Return -d loss / d(row) for the rows of the query; slope: -d loss / d q."""
    slope = slope if choice.kept is None else slope * choice.kept
    return _summed([(1.0, _query_gradients(parameters, choice, slope, triples))])


def _summed(parts: list[tuple[float, Gradients]]) -> dict[tuple[str, int], np.ndarray]:
    """Return the sum of the gradients of every row, each list times its factor."""
    out: dict[tuple[str, int], np.ndarray] = {}
    for factor, gradients in parts:
        for table, row, value, gradient in gradients:
            out[table, row] = out.get((table, row), 0.0) + factor * value * gradient
    return out


def item_slopes(
    parameters: Parameters, choice: Choice, settings: Settings
) -> list[tuple[float, np.ndarray]]:
    """Return (-d loss / d score, d score / d vector) of every item, of order two."""
    f = scores(parameters, choice, settings) - np.array(choice.off or 0.0)
    q, cosine = query_side(parameters, choice), settings.temperature > 0
    sides = [item_side(parameters, *member)[0] for member in zip(choice.items, choice.sides)]
    gradients = [_cosine_slope(q, p, settings.temperature) if cosine else q for p in sides]
    return list(zip(slopes(f, settings.loss), gradients))


def _query_gradients(
    parameters: Parameters, choice: Choice, gradient: np.ndarray, triples: Triples | None
) -> Gradients:
    """Return the gradients of query features, given d score / d (the query's vector)."""
    rows = [("users", choice.u, 1.0), *(("query", int(c), x) for c, x in zip(*choice.query))]
    if triples is None:
        return [(*row, gradient) for row in rows]
    parts = _parts(parameters.users[choice.u], parameters.query, choice.query)
    others = _second(parts, choice.query, triples.factors, triples.query)[1]
    pairs, k = pair_columns(parts.shape[1], triples), triples.factors
    of_second, of_first = gradient[pairs : pairs + k], gradient[pairs + k :]
    return [
        (
            *row,
            np.append(
                gradient[:pairs], of_second * other + (of_first if triples.mirrored else 0.0)
            ),
        )
        for row, other in zip(rows, others)
    ]


def _item_gradients(
    parameters: Parameters, item: int, side: tuple, gradient: np.ndarray, triples: Triples | None,
    inner: bool,
) -> Gradients:  # fmt: skip
    """Return those of item features; inner: with the pairs within the item."""
    rows = [("items", item, 1.0), *(("features", int(c), x) for c, x in zip(*side))]
    parts = _parts(parameters.items[item], parameters.features, side)
    pairs, k = pair_columns(parts.shape[1], triples), parts.shape[1]
    gradients = np.repeat(gradient[None, :k], len(rows), axis=0)
    if inner:  # no part of an item meets itself
        gradients[:, :pairs] += (parts.sum(axis=0) - parts)[:, :pairs]
    if triples and triples.mirrored:
        others = _second(parts, side, triples.factors, triples.item)[1]
        gradients[:, pairs:] += gradient[k:] * others
    return [(*row, row_gradient) for row, row_gradient in zip(rows, gradients)]


def _cosine(q: np.ndarray, p: np.ndarray) -> float:
    return float(q @ p / (np.linalg.norm(q) * np.linalg.norm(p)))


def _cosine_slope(fixed: np.ndarray, moving: np.ndarray, temperature: float) -> np.ndarray:
    """d (cosine / temperature) / d moving."""
    length = np.linalg.norm(moving)
    gradient = fixed / np.linalg.norm(fixed) - _cosine(fixed, moving) * moving / length
    return gradient / (length * temperature)


def bounded(
    parameters: Parameters, choice: Choice, settings: Settings, rate: float,
    triples: Triples | None = None,
) -> Choice:  # fmt: skip
    """Return the choice with a weight that keeps a step with dropout from overshooting."""
    if choice.kept is None:
        return choice
    q = query_side(parameters, choice, triples)
    return replace(
        choice, weight=choice.weight / (1 + STEEPEST * rate * settings.item_rate * q @ q)
    )


def take_step(
    parameters: Parameters, choice: Choice, settings: Settings, rate: float, feature_rates: dict,
    accumulators: Accumulators | None = None, triples: Triples | None = None,
    unweighted: dict[tuple[str, int], np.ndarray] | None = None,
) -> None:  # fmt: skip
    """Update all rows: theta <- theta + rate * (weight * ascent - lambda * theta).

    feature_rates: relative step lengths of features by row. accumulators: AdaGrad's, or None.
    Regularisation takes no more than the whole row. unweighted: `ascent` at other parameters.
    """
    strength = choice.weight * choice.warp_weight
    if unweighted is None:
        unweighted = ascent(parameters, choice, settings, triples)
    gradients = {row: strength * gradient for row, gradient in unweighted.items()}
    if accumulators:
        _add_squares(accumulators, gradients)
    for (table, row), gradient in gradients.items():
        decay, speed = _decay_and_speed(settings, table, row, row == choice.i)
        home = ROWS.get(table, table)
        step = rate * speed * (feature_rates[home][row] if home in feature_rates else 1.0)
        if accumulators:
            step /= math.sqrt(getattr(accumulators, home)[row])
        target = getattr(parameters, table)
        if triples and target.ndim > 1:
            pairs = target.shape[1] - triples.factors
            of_triples = _triple_decay(settings, table, row)
            decay = np.repeat([decay, of_triples], [pairs, triples.factors])
        shrink = np.minimum(step * _due(choice, table, row) * decay, 1.0)
        target[row] += step * gradient - shrink * target[row]


def _add_squares(accumulators: Accumulators, gradients: dict[tuple[str, int], np.ndarray]) -> None:
    """AdaGrad: add the mean square of every row's gradient, including its bias."""
    for (table, row), gradient in gradients.items():
        counts = accumulators.bias if table in ROWS else 1.0
        getattr(accumulators, ROWS.get(table, table))[row] += (
            counts * accumulators.mean * np.square(gradient).sum()
        )


def _due(choice: Choice, table: str, row: int) -> float:
    """Return the share of its regularisation a row is due: n candidates share that of one."""
    if table in ("users", "query"):
        return 1.0
    if table in ("items", "item_bias"):
        has = [item == row for item in choice.items]
    else:
        has = [row in side[0] for side in choice.sides]
    return min(has[0] + sum(has[1:]) / (len(has) - 1), 1.0)


def _triple_decay(settings: Settings, table: str, row: int) -> float:
    """Return the L2 of one row's triple vector."""
    assert settings.triples is not None
    if table in ("query", "features"):
        return getattr(settings.triples, table)[row]
    l2_scale = getattr(settings.l2_scale, table)[row] if settings.l2_scale else 1.0
    return l2_scale * (settings.triples.user if table == "users" else settings.triples.item)


def _decay_and_speed(settings: Settings, table: str, row: int, positive: bool) -> tuple:
    """Return L2 and relative rate of one row."""
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
