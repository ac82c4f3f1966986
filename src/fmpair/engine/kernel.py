"""The training kernel of the CPU engine: one cell of the strata plan.

Compiled once per combination of factors (the length of `width`) and of features that are there
(a part that is None does not exist in the compiled code). Sees arrays only.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fmpair.arrays import Rows
from fmpair.engine.draws import high, low, scramble
from fmpair.engine.rows import (
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

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
AHEAD = 64  # negatives are drawn this many at a time, so that steps need not wait for branches
FAST = {
    "reassoc",
    "contract",
    "arcp",
    "nsz",
    "afn",
}  # not the flags that deny NaN: divergence must be seen
TINY = 1e-300
TRIES = 32  # random tries for a negative before the block is searched in order

# sigmoid(-g) between -16 and 16, 64 entries a unit; between entries a straight line (error 3e-6)
REACH = np.float32(16.0)
ENTRIES = np.float32(64.0)
LAST_ENTRY = 2048
SIGMOID = (1 / (1 + np.exp(np.linspace(-16, 16 + 1 / 64, 2050)))).astype(np.float32)


class Work(NamedTuple):
    """One cell's events: see plan.Deal. visits and weight may be empty (once each, weight 1)."""

    run_user: np.ndarray
    run_start: np.ndarray
    item: np.ndarray
    visits: np.ndarray
    weight: np.ndarray


class Tables(NamedTuple):
    """Users and items in dealt order; users [users, columns], items likewise, bias [items]."""

    users: np.ndarray
    items: np.ndarray
    bias: np.ndarray


class Shared(NamedTuple):
    """A table of features shared by cells: this cell's copy, its bias, how often each row moved.

    rate, keep: step length and the share kept in a step, by row; bias is empty on the query side.
    """

    table: np.ndarray
    bias: np.ndarray
    moves: np.ndarray
    rate: np.ndarray
    keep: np.ndarray


class Query(NamedTuple):
    """Features of the query side: contexts by event (or none), profiles by user.

    situation: int32 [events] in dealt order, or empty; user_at: the user of a position.
    """

    shared: Shared
    situation: np.ndarray
    contexts: Rows
    user_at: np.ndarray
    profiles: Rows


class Attributes(NamedTuple):
    """Features of the item side; item_at: the item of a position.

    bias_share: 1 where attributes have a bias, else 0.
    """

    shared: Shared
    item_at: np.ndarray
    rows: Rows
    bias_share: np.float32


class Step(NamedTuple):
    """Step lengths and kept shares of the id tables."""

    user_rate: np.float32
    item_rate: np.float32
    bias_rate: np.float32
    keep_user: np.float32
    keep_good: np.float32
    keep_bad: np.float32
    keep_bias: np.float32


@njit(inline="always")
def sigmoid_of_minus(g, table):
    """1 / (1 + exp(g)), from the table; whatever g is, no place outside the table is read."""
    x = (min(max(g, -REACH), REACH) + REACH) * ENTRIES
    n = min(max(np.int64(x), 0), LAST_ENTRY)
    left = table[n]
    return left + (x - np.float32(n)) * (table[n + 1] - left)


@njit(inline="always")
def draw_negative(state, count, taken):
    """(new state, an item of the block that is not taken): tried at random, then searched."""
    for _ in range(TRIES):
        state += GOLDEN
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


@njit(nogil=True, cache=True)
def move_features(scratch, table, rate, keep, moves, start, end, column, value, s, width):
    """The features [start, end) along scratch[0], the difference of the two items."""
    for e in range(start, end):
        f = np.int64(column[e])
        blend(table, f, keep[f], scratch, 0, rate[f] * s * value[e], width)
        moves[f] += 1


@njit(nogil=True, cache=True)
def build_item(scratch, row, items, i, table, bias, start, end, column, value, width):
    """scratch[row] = the item's vector plus its attributes'; returns the attributes' constant."""
    constant = gather_pairs(scratch, row, items, i, table, start, end, column, value, width)
    for e in range(start, end):
        constant += value[e] * bias[column[e]]
    return constant


@njit(nogil=True, cache=True)
def move_attributes(scratch, table, bias, rate, keep, moves, other, a, a_end, b, b_end, column,
                    value, s, bias_share, width):  # fmt: skip
    """The attributes [a, a_end) of the positive and [b, b_end) of the negative item.

    One that both have moves once, along the difference of its two gradients: the negative's values
    are laid out in `other` (zeros, one per attribute) and taken up from there by the positive's.
    scratch[1] and scratch[2] hold query + item side of the two.
    """
    zero = np.float32(0.0)
    for e in range(b, b_end):
        other[column[e]] = value[e]
    for e in range(a, a_end):
        f, good = np.int64(column[e]), value[e]
        bad, gain = other[f], rate[f] * s
        other[f] = zero
        kept = keep[f] - gain * (good * good - bad * bad)
        blend_two(table, f, kept, scratch, 1, gain * good, 2, -gain * bad, width)
        bias[f] = bias_share * (keep[f] * bias[f] + gain * (good - bad))
        moves[f] += 1
    for e in range(b, b_end):
        f = np.int64(column[e])
        bad, gain = other[f], rate[f] * s
        if bad != zero:
            other[f] = zero
            blend(table, f, keep[f] + gain * bad * bad, scratch, 2, -gain * bad, width)
            bias[f] = bias_share * (keep[f] * bias[f] - gain * bad)
            moves[f] += 1


@njit(nogil=True, cache=True)
def mark(item, start, end, first_item, taken):
    """Mark a run's items as taken; how many distinct ones there are."""
    distinct = 0
    for e in range(start, end):
        distinct += 1 - np.int64(taken[item[e] - first_item])
        taken[item[e] - first_item] = 1
    return distinct


@njit(nogil=True, cache=True)
def draw_ahead(visits, event, end, left, state, count, taken, ahead):
    """Fill ahead[n] = (event, negative) with the next steps of a run.

    left: visits still due to the event. Returns (event, left, state, steps filled).
    """
    filled = 0
    while event < end and filled < AHEAD:
        if left == 0:
            event += 1
            if event < end:
                left = 1 if len(visits) == 0 else np.int64(visits[event])
        else:
            state, j = draw_negative(state, count, taken)
            ahead[filled, 0] = event
            ahead[filled, 1] = j
            filled += 1
            left -= 1
    return event, left, state, filled


@njit(nogil=True, cache=True, fastmath=FAST)
def run_cell(span, block, state, work, tables, query, attributes, step, taken, scratch, width):
    """Learn from the runs [span[0], span[1]) with the items [block[0], block[1]).

    The runs are walked once round from a random one. taken: uint8, at least a block of zeros.
    Returns (sum of -ln sigma(g), steps).
    """
    # Fields are taken out of their tuples here, once: inside the loop each access would count
    # a reference up and down.
    run_user, run_start, event_item, visits, weight = work
    users, items, item_bias = tables
    if query is not None:
        (q_table, _, q_moves, q_rate, q_keep), situation, contexts, user_at, profiles = query
        c_start, c_column, c_value = contexts
        p_start, p_column, p_value = profiles
    if attributes is not None:
        (a_table, a_bias, a_moves, a_rate, a_keep), item_at, item_rows, bias_share = attributes
        a_start, a_column, a_value = item_rows
        other = np.zeros(len(a_keep), np.float32)
    keep = (step.keep_user, step.keep_good, step.keep_bad)
    keep_bias = step.keep_bias
    ahead = np.empty((AHEAD, 2), np.int64)
    first_item, count = block[0], block[1] - block[0]
    runs = span[1] - span[0]
    logs, steps = 0.0, 0
    if runs == 0 or count == 0:
        return logs, steps
    state += GOLDEN
    offset = high(scramble(state), np.uint64(runs))
    for r in range(runs):
        run = span[0] + (r + offset) % runs
        start, end = np.int64(run_start[run]), np.int64(run_start[run + 1])
        event = end
        if mark(event_item, start, end, first_item, taken) < count:
            event = start - 1
        left = 0
        u = np.int64(run_user[run])
        if query is not None:
            p, p_end = np.int64(0), np.int64(0)
            if len(p_column) > 0:
                p, p_end = p_start[user_at[u]], p_start[user_at[u] + 1]
        while event < end:
            event, left, state, filled = draw_ahead(
                visits, event, end, left, state, np.uint64(count), taken, ahead
            )
            product = 1.0
            for n in range(filled):
                e = ahead[n, 0]
                i, j = np.int64(event_item[e]), ahead[n, 1] + first_item
                g = item_bias[i] - item_bias[j]
                if query is not None:
                    c, c_end = np.int64(0), np.int64(0)
                    if len(situation) > 0:
                        c, c_end = c_start[situation[e]], c_start[situation[e] + 1]
                if attributes is not None:
                    if query is not None:
                        gather(scratch, 0, users, u, q_table, c, c_end, c_column, c_value, width)
                        gather(scratch, 0, scratch, 0, q_table, p, p_end, p_column, p_value, width)
                    else:
                        assign(scratch, 0, users, u, width)
                    a, a_end = a_start[item_at[i]], a_start[item_at[i] + 1]
                    b, b_end = a_start[item_at[j]], a_start[item_at[j] + 1]
                    g += build_item(scratch, 1, items, i, a_table, a_bias, a, a_end, a_column,
                                    a_value, width)  # fmt: skip
                    g -= build_item(scratch, 2, items, j, a_table, a_bias, b, b_end, a_column,
                                    a_value, width)  # fmt: skip
                    g += dot_difference(scratch, 0, scratch, 1, 2, width)
                elif query is None:
                    g += dot_difference(users, u, items, i, j, width)
                elif p < p_end:
                    gather(scratch, 0, users, u, q_table, p, p_end, p_column, p_value, width)
                    g += gather_dot(scratch, 0, scratch, 0, q_table, c, c_end, c_column, c_value,
                                    items, i, j, width)  # fmt: skip
                else:
                    g += gather_dot(scratch, 0, users, u, q_table, c, c_end, c_column, c_value,
                                    items, i, j, width)  # fmt: skip
                s = sigmoid_of_minus(g, SIGMOID)
                product *= 1.0 - np.float64(s)
                if n & 15 == 15:
                    logs -= math.log(product + TINY)
                    product = 1.0
                if len(weight) > 0:
                    s *= weight[e]
                gain = (step.user_rate * s, step.item_rate * s)
                if attributes is not None:
                    side_step(users, u, items, i, j, scratch, keep, gain, width)
                    move_attributes(
                        scratch, a_table, a_bias, a_rate, a_keep, a_moves, other, a, a_end, b,
                        b_end, a_column, a_value, s, bias_share, width,
                    )  # fmt: skip
                elif query is None:
                    pair_step(users, u, users, u, items, i, j, keep, gain, width)
                elif c + 1 == c_end and p == p_end:
                    f = np.int64(c_column[c])
                    pair_step_one(users, u, scratch, 0, items, i, j, q_table, f, q_keep[f],
                                  q_rate[f] * s * c_value[c], keep, gain, width)  # fmt: skip
                    q_moves[f] += 1
                    c = c_end
                else:
                    pair_step_apart(users, u, scratch, 0, items, i, j, keep, gain, width)
                if query is not None:
                    move_features(scratch, q_table, q_rate, q_keep, q_moves, p, p_end, p_column,
                                  p_value, s, width)  # fmt: skip
                    move_features(scratch, q_table, q_rate, q_keep, q_moves, c, c_end, c_column,
                                  c_value, s, width)  # fmt: skip
                item_bias[i] = keep_bias * item_bias[i] + step.bias_rate * s
                item_bias[j] = keep_bias * item_bias[j] - step.bias_rate * s
            logs -= math.log(product + TINY)
            steps += filled
        for e in range(start, end):
            taken[event_item[e] - first_item] = 0
    return logs, steps
