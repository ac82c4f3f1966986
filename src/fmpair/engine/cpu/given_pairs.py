"""Steps on pairs that are given, not drawn: the better and the worse of two items of a user."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, empty_rows
from fmpair.engine.contract import Pairs
from fmpair.engine.cpu.layout import State
from fmpair.engine.cpu.losses import SIGMOID, TINY, sigmoid_of_minus
from fmpair.engine.cpu.operands import Copies, Shared
from fmpair.engine.cpu.pairs import build_item, move_attributes, move_features
from fmpair.engine.cpu.simd import aligned, dot_difference, gather, padded, side_step, width_of
from fmpair.engine.cpu.worker import SCRATCH_ROWS, step_of
from fmpair.engine.strata.partition import places
from fmpair.jit import FAST, kernel

# The largest number of a table, in one pass: it is asked after every epoch.


VALUE = np.uint32(0x7FFFFFFF)  # all bits of a float32 but its sign


def largest(table: np.ndarray) -> float:
    """The largest absolute value of a float32 table in one piece; NaN if there is one."""
    bits = _largest_bits(table.reshape(-1).view(np.uint32))
    return float(np.uint32(bits).view(np.float32))


@kernel
def _largest_bits(bits):
    """Without the sign, bits stand in the order of the numbers; after all of them NaN."""
    most = np.uint32(0)
    for n in range(len(bits)):
        value = np.uint32(bits[n] & VALUE)
        most = value if value > most else most
    return most


NOTHING = np.zeros(0, np.float32)


class Numbering(NamedTuple):
    """Where a user or an item stands in the partitioned tables: int [users], int [items]."""

    user: np.ndarray
    item: np.ndarray


class Features(NamedTuple):
    """The shared tables of both sides, and the rows over them by original numbers."""

    query: Shared
    contexts: Rows
    profiles: Rows
    attributes: Shared
    item_rows: Rows


def run_ordered(state: State, pairs: Pairs, rate: float) -> float:
    """A step on each pair in their order, on the first copy of shared tables; the sum of losses."""
    problem, settings, factors = state.problem, state.settings, state.factors
    query, attributes = (_one_copy(s, factors) for s in (state.query, state.features))
    contexts = problem.contexts if len(problem.contexts.column) else empty_rows(1)
    if not len(contexts.column):
        pairs = pairs._replace(situation=np.zeros(len(pairs.user), np.int32))
    partition = state.layout.partition
    place = Numbering(places(partition.user_at), places(partition.item_at))
    scratch = aligned(np.zeros((SCRATCH_ROWS, padded(factors)), np.float32))
    features = Features(query, contexts, problem.user_rows, attributes, problem.item_rows)
    return _run(
        pairs, place, state.tables, features, step_of(settings, rate),
        np.float32(settings.has_bias), scratch, width_of(factors),
    )


def _one_copy(copies: Copies | None, factors: int) -> Shared:
    """The first copy of a shared table, or one without rows."""
    if copies is not None:
        return copies.of(0)
    return Shared(
        aligned(np.zeros((1, factors), np.float32)),
        NOTHING,
        np.zeros(0, np.int32),
        NOTHING,
        NOTHING,
    )


@kernel(fastmath=FAST)
def _run(pairs, place, tables, features, step, bias_share, scratch, width):
    """The steps in order; the sum of -ln sigma(g)."""
    users, items, item_bias = tables
    (q_table, _, q_moves, q_rate, q_shrink), contexts, profiles, attributes, item_rows = features
    (a_table, a_bias, a_moves, a_rate, a_shrink) = attributes
    c_start, c_column, c_value = contexts
    p_start, p_column, p_value = profiles
    a_start, a_column, a_value = item_rows
    other = np.zeros(len(a_shrink), np.float32)
    shrink, logs = (step.shrink_user, step.shrink_positive, step.shrink_negative), 0.0
    for n in range(len(pairs.user)):
        user, positive, negative = pairs.user[n], pairs.positive[n], pairs.negative[n]
        u, i, j = place.user[user], place.item[positive], place.item[negative]
        c, c_end = c_start[pairs.situation[n]], c_start[pairs.situation[n] + 1]
        p, p_end = p_start[user], p_start[user + 1]
        a, a_end, b, b_end = (
            a_start[positive],
            a_start[positive + 1],
            a_start[negative],
            a_start[negative + 1],
        )
        gather(scratch, 0, users, u, q_table, c, c_end, c_column, c_value, width)
        gather(scratch, 0, scratch, 0, q_table, p, p_end, p_column, p_value, width)
        g = item_bias[i] - item_bias[j]
        g += build_item(scratch, 1, items, i, a_table, a_bias, a, a_end, a_column, a_value, width)
        g -= build_item(scratch, 2, items, j, a_table, a_bias, b, b_end, a_column, a_value, width)
        g += dot_difference(scratch, 0, scratch, 1, 2, width)
        s = sigmoid_of_minus(g, SIGMOID)
        logs -= math.log(1.0 - np.float64(s) + TINY)
        s *= pairs.weight[n]
        side_step(
            users, u, items, i, j, scratch, shrink, (step.user_rate * s, step.item_rate * s), width
        )
        move_attributes(
            scratch, a_table, a_bias, a_rate, a_shrink, a_moves, other, a, a_end, b, b_end,
            a_column, a_value, s, bias_share, width
        )
        move_features(
            scratch, q_table, q_rate, q_shrink, q_moves, p, p_end, p_column, p_value, s, width
        )
        move_features(
            scratch, q_table, q_rate, q_shrink, q_moves, c, c_end, c_column, c_value, s, width
        )
        item_bias[i] = step.shrink_bias * item_bias[i] + step.bias_rate * s
        item_bias[j] = step.shrink_bias * item_bias[j] - step.bias_rate * s
    return logs
