"""Kernels of BPR pairs: one cell of the strata plan, or pairs that are given.

Compiled once per number of factors (the length of `width`) and combination of features (arguments
that are None do not exist in the compiled code).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.cpu.losses import SIGMOID, TINY, sigmoid_of_minus
from fmpair.engine.cpu.operands import Shared
from fmpair.engine.cpu.simd import (
    assign,
    blend,
    blend_two,
    dot_difference,
    gather,
    gather_dot,
    gather_pairs,
    pair_step,
    pair_step_apart,
    pair_step_one,
    side_step,
)
from fmpair.jit import FAST, inline, kernel
from fmpair.rng import STEP, high, low, scramble

AHEAD = 64  # negatives drawn at a time, so that steps need not wait for branches
TRIES = 32  # random tries for a negative before the block is searched in order


@inline
def draw_negative(state, count, taken):
    """Return (new state, an item of the block that is not taken): at random, then by search."""
    for _ in range(TRIES):
        state += STEP
        draw = scramble(state)
        j = high(draw, count)
        if not taken[j]:
            return state, j
        j = low(draw, count)
        if not taken[j]:
            return state, j
    while taken[j]:
        j = j + 1 if j + 1 < np.int64(count) else 0
    return state, j


@kernel
def move_features(scratch, table, rate, shrink, moves, start, end, column, value, s, width):
    """Move the features [start, end) along scratch[0], the difference of the two items."""
    for e in range(start, end):
        f = np.int64(column[e])
        blend(table, f, shrink[f], scratch, 0, rate[f] * s * value[e], width)
        moves[f] += 1


@kernel
def build_item(scratch, row, items, i, table, bias, start, end, column, value, width):
    """Set scratch[row] to the item's vector plus its attributes'; return their constant."""
    constant = gather_pairs(scratch, row, items, i, table, start, end, column, value, width)
    for e in range(start, end):
        constant += value[e] * bias[column[e]]
    return constant


@kernel
def move_attributes(
    scratch, table, bias, rate, shrink, moves, other, a, a_end, b, b_end, column, value, s,
    bias_share, width,
):
    """Move the attributes [a, a_end) of the positive and [b, b_end) of the negative item.

    An attribute of both moves once, along the difference of its gradients: `other` (zeros, one per
    attribute) holds the values of the negative item meanwhile. scratch[1] and scratch[2] hold query
    + item side of the two.
    """
    zero = np.float32(0.0)
    for e in range(b, b_end):
        other[column[e]] = value[e]
    for e in range(a, a_end):
        f, positive = np.int64(column[e]), value[e]
        negative, gain = other[f], rate[f] * s
        other[f] = zero
        kept = shrink[f] - gain * (positive * positive - negative * negative)
        blend_two(table, f, kept, scratch, 1, gain * positive, 2, -gain * negative, width)
        bias[f] = bias_share * (shrink[f] * bias[f] + gain * (positive - negative))
        moves[f] += 1
    for e in range(b, b_end):
        f = np.int64(column[e])
        negative, gain = other[f], rate[f] * s
        if negative != zero:
            other[f] = zero
            blend(
                table, f, shrink[f] + gain * negative * negative, scratch, 2, -gain * negative,
                width
            )
            bias[f] = bias_share * (shrink[f] * bias[f] - gain * negative)
            moves[f] += 1


@kernel
def mark(item, start, end, first_item, taken):
    """Mark a run's items as taken; return how many are distinct."""
    distinct = 0
    for e in range(start, end):
        distinct += 1 - np.int64(taken[item[e] - first_item])
        taken[item[e] - first_item] = 1
    return distinct


@kernel
def draw_ahead(at, runs, state, work, first_item, count, taken, ahead):
    """Fill ahead[n] = (event, negative, user) with the next steps of a cell.

    at: (run, event, left): the current run; its event, negative before it has begun; remaining
    visits of the event. runs: (from, to). Returns (at, state, steps filled).
    """
    run_user, run_start, item, visits, _ = work
    run, event, left = at
    filled = 0
    while run < runs[1]:
        start, end = np.int64(run_start[run]), np.int64(run_start[run + 1])
        if event < 0:
            event = start if mark(item, start, end, first_item, taken) < count else end
            left = 1 if len(visits) == 0 else np.int64(visits[start])
        while event < end:
            while left > 0:
                if filled == AHEAD:
                    return (run, event, left), state, filled
                state, j = draw_negative(state, np.uint64(count), taken)
                ahead[filled, 0] = event
                ahead[filled, 1] = j + first_item
                ahead[filled, 2] = run_user[run]
                filled += 1
                left -= 1
            event += 1
            if event < end:
                left = 1 if len(visits) == 0 else np.int64(visits[event])
        for e in range(start, end):
            taken[item[e] - first_item] = 0
        run, event = run + 1, -1
    return (run, event, left), state, filled


@kernel(fastmath=FAST)
def run_cell(span, block, state, work, tables, query, attributes, step, taken, scratch, width):
    """Learn from the runs [span[0], span[1]) with the items [block[0], block[1]).

    The runs are walked once, from a random one. taken: uint8, zeros for each item of a block.
    Returns (sum of -ln sigma(g), steps).
    """
    # Unpack once: inside the loop each access of a field would count a reference up and down.
    run_user, run_start, event_item, visits, weight = work
    users, items, item_bias = tables
    if query is not None:
        shared, situation, first, contexts, user_at, profiles = query
        q_table, _, q_moves, q_rate, q_shrink = shared
        c_start, c_column, c_value = contexts
        p_start, p_column, p_value = profiles
    if attributes is not None:
        (a_table, a_bias, a_moves, a_rate, a_shrink), item_at, item_rows, bias_share = attributes
        a_start, a_column, a_value = item_rows
        other = np.zeros(len(a_shrink), np.float32)
    shrink = (step.shrink_user, step.shrink_positive, step.shrink_negative)
    shrink_bias = step.shrink_bias
    ahead = np.empty((AHEAD, 3), np.int64)
    first_item, count = block[0], block[1] - block[0]
    logs, steps, product = 0.0, 0, 1.0
    if span[0] == span[1] or count == 0:
        return logs, steps
    state += STEP
    middle = span[0] + high(scramble(state), np.uint64(span[1] - span[0]))
    for runs in ((middle, span[1]), (span[0], middle)):
        next_step = (runs[0], np.int64(-1), np.int64(0))
        while next_step[0] < runs[1]:
            next_step, state, filled = draw_ahead(
                next_step, runs, state, work, first_item, count, taken, ahead
            )
            for n in range(filled):
                e, u = ahead[n, 0], ahead[n, 2]
                i, j = np.int64(event_item[e]), ahead[n, 1]
                g = item_bias[i] - item_bias[j]
                if query is not None:
                    p, p_end, c, c_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
                    if len(p_column) > 0:
                        p, p_end = p_start[user_at[u]], p_start[user_at[u] + 1]
                    if len(c_column) > 0:
                        at = np.int64(situation[e]) if len(situation) > 0 else e - first
                        c, c_end = c_start[at], c_start[at + 1]
                if attributes is not None:
                    if query is not None:
                        gather(scratch, 0, users, u, q_table, c, c_end, c_column, c_value, width)
                        gather(scratch, 0, scratch, 0, q_table, p, p_end, p_column, p_value, width)
                    else:
                        assign(scratch, 0, users, u, width)
                    a, a_end = a_start[item_at[i]], a_start[item_at[i] + 1]
                    b, b_end = a_start[item_at[j]], a_start[item_at[j] + 1]
                    g += build_item(
                        scratch, 1, items, i, a_table, a_bias, a, a_end, a_column, a_value, width
                    )
                    g -= build_item(
                        scratch, 2, items, j, a_table, a_bias, b, b_end, a_column, a_value, width
                    )
                    g += dot_difference(scratch, 0, scratch, 1, 2, width)
                elif query is None:
                    g += dot_difference(users, u, items, i, j, width)
                elif p < p_end:
                    gather(scratch, 0, users, u, q_table, p, p_end, p_column, p_value, width)
                    g += gather_dot(
                        scratch, 0, scratch, 0, q_table, c, c_end, c_column, c_value, items, i, j,
                        width
                    )
                else:
                    g += gather_dot(
                        scratch, 0, users, u, q_table, c, c_end, c_column, c_value, items, i, j,
                        width
                    )
                s = sigmoid_of_minus(g, SIGMOID)
                product *= 1.0 - np.float64(s)
                if n & 15 == 15:
                    logs -= math.log(product + TINY)
                    product = 1.0
                if len(weight) > 0:
                    s *= weight[e]
                gain = (step.user_rate * s, step.item_rate * s)
                if attributes is not None:
                    side_step(users, u, items, i, j, scratch, shrink, gain, width)
                    move_attributes(
                        scratch, a_table, a_bias, a_rate, a_shrink, a_moves, other, a, a_end, b,
                        b_end, a_column, a_value, s, bias_share, width
                    )
                elif query is None:
                    pair_step(users, u, users, u, items, i, j, shrink, gain, width)
                elif c + 1 == c_end and p == p_end:
                    f = np.int64(c_column[c])
                    pair_step_one(
                        users, u, scratch, 0, items, i, j, q_table, f, q_shrink[f], q_rate[f] * s *
                        c_value[c], shrink, gain, width
                    )
                    q_moves[f] += 1
                    c = c_end
                else:
                    pair_step_apart(users, u, scratch, 0, items, i, j, shrink, gain, width)
                if query is not None:
                    move_features(
                        scratch, q_table, q_rate, q_shrink, q_moves, p, p_end, p_column, p_value,
                        s, width
                    )
                    move_features(
                        scratch, q_table, q_rate, q_shrink, q_moves, c, c_end, c_column, c_value,
                        s, width
                    )
                item_bias[i] = shrink_bias * item_bias[i] + step.bias_rate * s
                item_bias[j] = shrink_bias * item_bias[j] - step.bias_rate * s
            steps += filled
    return logs - math.log(product + TINY), steps


class PairFeatures(NamedTuple):
    """The shared tables of both sides, and the rows over them, numbered as in the problem."""

    query: Shared
    contexts: Rows
    profiles: Rows
    attributes: Shared
    item_rows: Rows


@kernel(fastmath=FAST)
def run_pairs(pairs, positions, tables, features, step, bias_share, scratch, width):
    """Take a step on each pair in order, at these positions in tables; return sum of -ln sigma(g).
    """
    users, items, item_bias = tables
    user_row, item_row = positions
    (q_table, _, q_moves, q_rate, q_shrink), contexts, profiles, attributes, item_rows = features
    (a_table, a_bias, a_moves, a_rate, a_shrink) = attributes
    c_start, c_column, c_value = contexts
    p_start, p_column, p_value = profiles
    a_start, a_column, a_value = item_rows
    other = np.zeros(len(a_shrink), np.float32)
    shrink, logs = (step.shrink_user, step.shrink_positive, step.shrink_negative), 0.0
    for n in range(len(pairs.user)):
        user, positive, negative = pairs.user[n], pairs.positive[n], pairs.negative[n]
        u, i, j = user_row[user], item_row[positive], item_row[negative]
        c, c_end = c_start[pairs.situation[n]], c_start[pairs.situation[n] + 1]
        p, p_end = p_start[user], p_start[user + 1]
        a, a_end = a_start[positive], a_start[positive + 1]
        b, b_end = a_start[negative], a_start[negative + 1]
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
