"""The reference engine: plain NumPy, one pair at a time. It is the definition; `cpu` follows it.

Same plan, same draws, same updates as the fast engine, in original numbering and without a thought
for speed. Its gradients are checked against finite differences of `pair_loss`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine import plan
from fmpair.engine.decay import centre, decay, item_pace, query_pace
from fmpair.engine.draws import GOLDEN, MASK, mixed, stream
from fmpair.engine.problem import Parameters, Problem, Settings

TRIES = 32


@dataclass
class State:
    """Training under way, by original numbers."""

    problem: Problem
    settings: Settings
    events: plan.Events
    parameters: Parameters
    deal: plan.Deal | None = None


@dataclass(frozen=True)
class Pair:
    """One step's data: user u, positive i, negative j, and the features of each side.

    query, good, bad: (columns, values) of the query, of item i and of item j.
    """

    u: int
    i: int
    j: int
    query: tuple[np.ndarray, np.ndarray]
    good: tuple[np.ndarray, np.ndarray]
    bad: tuple[np.ndarray, np.ndarray]
    weight: float = 1.0


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> State:
    """Training that starts from the given parameters."""
    copy = Parameters(*(np.array(table, np.float64) for table in parameters))
    return State(problem, settings, plan.by_user(problem, numbered=True), copy)


def epoch(state: State, number: int, rate: float) -> float:
    """One epoch (counted from 1) at a learning rate; the mean of -ln sigma(g) over its steps."""
    settings, blocks = state.settings, state.settings.blocks
    if state.deal is None or (number - 1) % settings.deal_every == 0:
        state.deal = plan.deal(state.events, blocks, settings.seed, number)
    losses: list[float] = []
    settings, problem = _with_decays(state), state.problem
    paces = {
        "query": query_pace(len(state.parameters.query), problem.contexts, problem.user_rows),
        "features": item_pace(len(state.parameters.features), problem.item_rows),
    }
    for turn in range(blocks):
        copies, moves = [], []
        for t in range(blocks):
            own = state.parameters._replace(
                query=state.parameters.query.copy(), features=state.parameters.features.copy(),
                feature_bias=state.parameters.feature_bias.copy(),
            )  # fmt: skip
            moved = (np.zeros(len(own.query)), np.zeros(len(own.features)))
            for pair in _pairs(state, t, (t + turn) % blocks, number):
                losses.append(pair_loss(own, pair))
                take_step(own, pair, settings, rate, paces)
                moved[0][pair.query[0]] += 1
                moved[1][np.union1d(pair.good[0], pair.bad[0])] += 1
            copies.append(own)
            moves.append(moved)
        _merge(state.parameters, copies, moves)
    if state.problem.has_query_features:
        centre(state.parameters.query, state.problem.query_groups)
    return float(np.mean(losses)) if losses else 0.0


def _with_decays(state: State) -> Settings:
    """The settings with the regularisation of adaptive fields settled for an epoch."""
    own, tables, problem = state.settings, state.parameters, state.problem
    return own._replace(
        query=decay(own.query, own.query_threshold, tables.query, problem.query_groups),
        features=decay(own.features, own.feature_threshold, tables.features, problem.item_groups),
    )


def snapshot(state: State) -> Parameters:
    """The parameters as they are now."""
    return Parameters(*(table.astype(np.float32) for table in state.parameters))


def item_side(parameters: Parameters, item: int, features: tuple) -> tuple[np.ndarray, float]:
    """(vector p, constant b) of an item: its own, its attributes', and their inner pairs."""
    column, value = features
    parts = np.vstack([parameters.items[item], value[:, None] * parameters.features[column]])
    p = parts.sum(axis=0)
    pairs = 0.5 * (p @ p - (parts * parts).sum())
    return p, float(parameters.item_bias[item] + value @ parameters.feature_bias[column] + pairs)


def query_side(parameters: Parameters, pair: Pair) -> np.ndarray:
    """q: the user's vector and those of all query features."""
    column, value = pair.query
    return parameters.users[pair.u] + value @ parameters.query[column]


def pair_loss(parameters: Parameters, pair: Pair) -> float:
    """-ln sigma(g), g = q . (p_i - p_j) + b_i - b_j."""
    p, b = item_side(parameters, pair.i, pair.good)
    r, c = item_side(parameters, pair.j, pair.bad)
    g = query_side(parameters, pair) @ (p - r) + b - c
    return math.log1p(math.exp(-g)) if g > 0 else math.log1p(math.exp(g)) - g


def gradients(parameters: Parameters, pair: Pair) -> dict[tuple[str, int], np.ndarray]:
    """dg / d(row) for every row g depends on, by (table, row)."""
    q = query_side(parameters, pair)
    p, _ = item_side(parameters, pair.i, pair.good)
    r, _ = item_side(parameters, pair.j, pair.bad)
    out: dict[tuple[str, int], np.ndarray] = {("users", pair.u): p - r}
    for column, value in zip(*pair.query):
        out["query", int(column)] = value * (p - r)
    out["items", pair.i] = q + p - parameters.items[pair.i]
    out["items", pair.j] = -(q + r - parameters.items[pair.j])
    out["item_bias", pair.i], out["item_bias", pair.j] = np.array(1.0), np.array(-1.0)
    for sign, side, features in ((1, p, pair.good), (-1, r, pair.bad)):
        for column, value in zip(*features):
            vector, bias = ("features", int(column)), ("feature_bias", int(column))
            slope = sign * value * (q + side - value * parameters.features[column])
            out[vector] = out.get(vector, 0.0) + slope
            out[bias] = out.get(bias, 0.0) + sign * value
    return out


def take_step(
    parameters: Parameters, pair: Pair, settings: Settings, rate: float, paces: dict
) -> None:
    """theta <- theta + rate * (weight * sigma(-g) * dg/dtheta - lambda * theta), all at once.

    paces: step lengths of the features of each side, by row.
    """
    strength = pair.weight * -math.expm1(-pair_loss(parameters, pair))
    for (table, row), slope in gradients(parameters, pair).items():
        decay, speed = _decay_and_speed(settings, table, row, row == pair.i)
        step = rate * speed * paces.get(table.replace("feature_bias", "features"), _Ones())[row]
        target = getattr(parameters, table)
        target[row] += step * (strength * slope - decay * target[row])


class _Ones:
    """The pace of ids: one for every row."""

    def __getitem__(self, row: int) -> float:
        return 1.0


def _decay_and_speed(settings: Settings, table: str, row: int, positive: bool) -> tuple:
    """Regularisation and relative rate of one row."""
    if table == "query":
        return settings.query[row], settings.feature_rate
    if table in ("features", "feature_bias"):
        moves = table == "features" or settings.learn_bias
        return settings.features[row], settings.feature_rate * moves
    bias = settings.item_rate if settings.learn_bias else 0.0
    own = settings.positive if positive else settings.negative
    return {
        "users": (settings.user, settings.user_rate),
        "items": (own, settings.item_rate),
        "item_bias": (settings.bias, bias),
    }[table]


def _pairs(state: State, block: int, item_block: int, number: int) -> Iterator[Pair]:
    """The steps of one cell in order, with their negatives drawn."""
    deal, settings, problem = state.deal, state.settings, state.problem
    assert deal is not None
    cell = block * settings.blocks + item_block
    first, last = int(deal.cell[cell]), int(deal.cell[cell + 1])
    edge, end = int(deal.item_edge[item_block]), int(deal.item_edge[item_block + 1])
    visits = plan.visits(settings.positives, problem, state.events, settings.seed, number)
    if first == last or edge == end:
        return
    draws = _Draws(stream(settings.seed, number, cell), end - edge)
    offset = (draws.next() >> 32) * (last - first) >> 32
    for r in range(last - first):
        run = first + (r + offset) % (last - first)
        slots = range(int(deal.run_start[run]), int(deal.run_start[run + 1]))
        taken = {int(deal.item[e]) - edge for e in slots}
        user = int(deal.user_at[deal.run_user[run]])
        for e in slots if len(taken) < end - edge else ():
            event = int(deal.event[e])
            for _ in range(int(visits[event]) if len(visits) else 1):
                j = int(deal.item_at[edge + draws.negative(taken)])
                yield _pair(problem, user, int(deal.item_at[deal.item[e]]), j, event)


def _pair(problem: Problem, user: int, i: int, j: int, event: int) -> Pair:
    profile = _row(problem.user_rows, user)
    situation = _row(problem.contexts, int(problem.situation[event]))
    query = (np.append(profile[0], situation[0]), np.append(profile[1], situation[1]))
    good, bad = _row(problem.item_rows, i), _row(problem.item_rows, j)
    return Pair(user, i, j, query, good, bad, float(problem.weight[event]))


def _row(rows: Rows, number: int) -> tuple[np.ndarray, np.ndarray]:
    entries = slice(rows.start[number], rows.start[number + 1])
    return rows.column[entries], rows.value[entries].astype(np.float64)


class _Draws:
    """A cell's stream of random numbers below `count`."""

    def __init__(self, state: int, count: int):
        self.state, self.count = state, count

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mixed(self.state)

    def negative(self, taken: set[int]) -> int:
        """A number not taken: tried at random, then the next free one."""
        for _ in range(TRIES):
            draw = self.next()
            for half in (draw >> 32, draw & 0xFFFFFFFF):
                j = half * self.count >> 32
                if j not in taken:
                    return j
        while j in taken:
            j = (j + 1) % self.count
        return j


def _merge(parameters: Parameters, copies: list[Parameters], moves: list[tuple]) -> None:
    """Shared rows become the mean of the cells' copies, weighted by how often each moved them."""
    for names, side in ((("query",), 0), (("features", "feature_bias"), 1)):
        times = np.stack([moved[side] for moved in moves])
        touched = times.any(axis=0)
        share = times[:, touched] / times[:, touched].sum(axis=0)
        for name in names:
            stack = np.stack([getattr(copy, name)[touched] for copy in copies])
            weight = share.reshape(share.shape + (1,) * (stack.ndim - 2))
            getattr(parameters, name)[touched] = (weight * stack).sum(axis=0)
