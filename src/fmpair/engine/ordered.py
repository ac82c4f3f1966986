"""Steps on pairs that are given, not drawn: the better and the worse of two items of a user."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fmpair.arrays import Rows, empty_rows
from fmpair.engine.cpu import State
from fmpair.engine.decay import centre
from fmpair.engine.kernel import (
    FAST,
    SIGMOID,
    TINY,
    Shared,
    Tables,
    build_item,
    move_attributes,
    move_features,
    sigmoid_of_minus,
)
from fmpair.engine.lane import SCRATCH_ROWS, _step
from fmpair.engine.rows import aligned, dot_difference, gather, padded, side_step, width_of

NOTHING = np.zeros(0, np.float32)


class Pairs(NamedTuple):
    """user, good, bad, situation: int32 [pairs], by original numbers; weight: float32 [pairs]."""

    user: np.ndarray
    good: np.ndarray
    bad: np.ndarray
    situation: np.ndarray
    weight: np.ndarray


class Numbering(NamedTuple):
    """Where a user or an item stands in the dealt tables: int [users], int [items]."""

    user: np.ndarray
    item: np.ndarray


class Features(NamedTuple):
    """The shared tables of both sides, and the rows over them by original numbers."""

    query: Shared
    contexts: Rows
    profiles: Rows
    attributes: Shared
    item_rows: Rows


def learn_pairs(state: State, pairs: Pairs, rate: float) -> float:
    """A step on each pair in their order, after an epoch at that rate; the mean loss."""
    assert state.deal is not None
    query, attributes = (_one_copy(s, state.factors) for s in (state.query, state.features))
    problem = state.problem
    contexts = problem.contexts if len(problem.contexts.column) else empty_rows(1)
    if not len(contexts.column):
        pairs = pairs._replace(situation=np.zeros(len(pairs.user), np.int32))
    place = Numbering(np.argsort(state.deal.user_at), np.argsort(state.deal.item_at))
    scratch = aligned(np.zeros((SCRATCH_ROWS, padded(state.factors)), np.float32))
    logs = _run(
        pairs, place, Tables(*state.parameters[:3]),
        Features(query, contexts, problem.user_rows, attributes, problem.item_rows),
        _step(state.settings, rate), np.float32(state.settings.has_bias), scratch,
        width_of(state.factors),
    )  # fmt: skip
    for copies in (state.query, state.features):
        for copy in copies[1:]:  # the cells of the next round start from the same tables
            copy.table[:], copy.bias[:] = copies[0].table, copies[0].bias
        for copy in copies:
            copy.moves[:] = 0
    for copy in state.query:
        centre(copy.table, problem.query_groups)
    return logs / max(len(pairs.user), 1)


def _one_copy(copies: list[Shared], factors: int) -> Shared:
    """The first copy of a shared table, or one without rows."""
    if copies:
        return copies[0]
    return Shared(
        aligned(np.zeros((1, factors), np.float32)), NOTHING, np.zeros(0, np.int32), NOTHING,
        NOTHING,
    )  # fmt: skip


@njit(nogil=True, cache=True, fastmath=FAST)
def _run(pairs, place, tables, features, step, bias_share, scratch, width):
    """The steps in order; the sum of -ln sigma(g)."""
    users, items, item_bias = tables
    (q_table, _, q_moves, q_rate, q_keep), contexts, profiles, attributes, item_rows = features
    (a_table, a_bias, a_moves, a_rate, a_keep) = attributes
    c_start, c_column, c_value = contexts
    p_start, p_column, p_value = profiles
    a_start, a_column, a_value = item_rows
    other = np.zeros(len(a_keep), np.float32)
    keep, logs = (step.keep_user, step.keep_good, step.keep_bad), 0.0
    for n in range(len(pairs.user)):
        user, good, bad = pairs.user[n], pairs.good[n], pairs.bad[n]
        u, i, j = place.user[user], place.item[good], place.item[bad]
        c, c_end = c_start[pairs.situation[n]], c_start[pairs.situation[n] + 1]
        p, p_end = p_start[user], p_start[user + 1]
        a, a_end, b, b_end = a_start[good], a_start[good + 1], a_start[bad], a_start[bad + 1]
        gather(scratch, 0, users, u, q_table, c, c_end, c_column, c_value, width)
        gather(scratch, 0, scratch, 0, q_table, p, p_end, p_column, p_value, width)
        g = item_bias[i] - item_bias[j]
        g += build_item(scratch, 1, items, i, a_table, a_bias, a, a_end, a_column, a_value, width)
        g -= build_item(scratch, 2, items, j, a_table, a_bias, b, b_end, a_column, a_value, width)
        g += dot_difference(scratch, 0, scratch, 1, 2, width)
        s = sigmoid_of_minus(g, SIGMOID)
        logs -= math.log(1.0 - np.float64(s) + TINY)
        s *= pairs.weight[n]
        side_step(users, u, items, i, j, scratch, keep, (step.user_rate * s, step.item_rate * s),
                  width)  # fmt: skip
        move_attributes(scratch, a_table, a_bias, a_rate, a_keep, a_moves, other, a, a_end, b,
                        b_end, a_column, a_value, s, bias_share, width)  # fmt: skip
        move_features(scratch, q_table, q_rate, q_keep, q_moves, p, p_end, p_column, p_value, s,
                      width)  # fmt: skip
        move_features(scratch, q_table, q_rate, q_keep, q_moves, c, c_end, c_column, c_value, s,
                      width)  # fmt: skip
        item_bias[i] = step.keep_bias * item_bias[i] + step.bias_rate * s
        item_bias[j] = step.keep_bias * item_bias[j] - step.bias_rate * s
    return logs
