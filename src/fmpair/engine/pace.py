"""How far every row goes in a step of the kernel of lists, and how much of it is kept.

Plainly (SGD) all rows of a table go alike. With AdaGrad the mean squares of a row's gradients are
summed up, and its step length is divided by the square root of that sum, which holds this step's
too. A row is a vector and, of an item or an attribute, its bias. Regularisation takes the same
steps, but is no part of the gradient; nothing is ever held back by more than all of itself.

Sums and pulls that are None do not exist in the compiled code, which is why they are arguments.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fmpair.engine.kernel import FAST, move_features
from fmpair.engine.problem import Parameters, Pull, Settings
from fmpair.engine.rows import assign, blend, dot, gather

FIRST = 0.1  # where sums begin
ONE, TWO, ZERO = np.float32(1.0), np.float32(2.0), np.float32(0.0)


class Sums(NamedTuple):
    """Per row, the sum of the mean squares of its gradients. query, features: a cell's own copy.

    mean: 1 / factors, what a sum of squares is multiplied by; bias: 1 where biases are learned,
    else 0.
    """

    users: np.ndarray
    items: np.ndarray
    query: np.ndarray
    features: np.ndarray
    mean: np.floating
    bias: np.floating


NO_PULL, NO_SUMS = Pull(None, None), Sums(None, None, None, None, ZERO, ZERO)


def first_sums(tables: Parameters, settings: Settings, kind: type = np.float32) -> Sums:
    """The sums of all rows before the first step."""
    rows = (tables.users, tables.items, tables.query, tables.features)
    mean = kind(1 / tables.users.shape[1])
    return Sums(*(np.full(len(r), FIRST, kind) for r in rows), mean, kind(settings.has_bias))


@njit(nogil=True, cache=True, fastmath=FAST)
def list_norms(sharpness, score, square, query_square, norm, size):
    """norm[m] = the squared length of d score / d item of every item of a list."""
    if norm is None:
        return
    for m in range(size):
        norm[m] = query_square
        if sharpness > ZERO:  # a cosine's gradient stands at a right angle to the item
            norm[m] = max(sharpness * sharpness - score[m] * score[m], ZERO) / square[m]


@njit(nogil=True, cache=True)
def turn_sides(scratch, places, coef, along, own, pull_back, size, width):
    """scratch[m + 1] becomes the way of item m, and the last row but one that of the user."""
    user, zeros = len(scratch) - 2, len(scratch) - 1
    gather(scratch, user, scratch, zeros, scratch, 0, size, places, coef, width)
    blend(scratch, user, ONE, scratch, 0, -pull_back, width)
    for m in range(size):
        blend(scratch, m + 1, own[m], scratch, 0, along[m], width)


@njit(nogil=True, cache=True, fastmath=FAST)
def side_norms(scratch, items, member, twice, norm, size, width):
    """The same of items with attributes, whose ways stand in scratch[m + 1].

    twice: 1 where a way counts the item's own vector, which is not in the gradient.
    """
    if norm is None:
        return
    for m in range(size):
        i = np.int64(member[m])
        norm[m] = dot(scratch, m + 1, scratch, m + 1, width)
        if twice > ZERO:
            norm[m] -= TWO * dot(scratch, m + 1, items, i, width) - dot(items, i, items, i, width)
        norm[m] = max(norm[m], ZERO)


@njit(nogil=True, cache=True, fastmath=FAST)
def pace_list(sums, pull, mean, bias, member, slope, norm, pace, held, size):
    """pace[m], held[m]: multiples of step length and regularisation; ones where not asked for."""
    if sums is not None:
        for m in range(size):
            i = np.int64(member[m])
            sums[i] += mean * slope[m] * slope[m] * (norm[m] + bias)
            pace[m] = ONE / math.sqrt(sums[i])
            held[m] = pace[m]
    if pull is not None:
        for m in range(size):
            held[m] = pace[m] * pull[member[m]]


@njit(nogil=True, cache=True, fastmath=FAST)
def hold_list(step, member, slope, own, twice, pace, held, item_bias, keep, alone, size):
    """keep[m]: every item's kept share; its bias moves.

    The candidates share the regularisation of one. alone: there are no attributes, and an item's
    own vector is not yet in its way.
    """
    share = ONE / np.float32(size - 1)
    bad = ONE - (ONE - step.keep_bad) * share
    bad_bias = ONE - (ONE - step.keep_bias) * share
    for m in range(size):
        i, rate, bias_rate = np.int64(member[m]), step.item_rate, step.bias_rate
        kept = step.keep_good if m == 0 else bad
        kept_bias = step.keep_bias if m == 0 else bad_bias
        if pace is not None:
            rate, bias_rate = rate * pace[m], bias_rate * pace[m]
            kept = max(ONE - (ONE - kept) * held[m], ZERO)
            kept_bias = max(ONE - (ONE - kept_bias) * pace[m], ZERO)
        item_bias[i] = kept_bias * item_bias[i] + bias_rate * slope[m]
        gain = rate * slope[m]
        keep[m] = kept + (gain * (own[m] - twice) if alone else -gain * twice)


@njit(nogil=True, cache=True)
def move_sides(scratch, items, member, keep, slope, pace, size, rate, width):
    """The items along their ways; scratch[0] becomes the user's."""
    for m in range(size):
        gain = rate * slope[m]
        if pace is not None:
            gain *= pace[m]
        blend(items, np.int64(member[m]), keep[m], scratch, m + 1, gain, width)
    assign(scratch, 0, scratch, len(scratch) - 2, width)


@njit(nogil=True, cache=True, fastmath=FAST)
def move_user(scratch, users, u, sums, pull, mean, step, width):
    """The user's vector along scratch[0]."""
    rate, lost = step.user_rate, ONE - step.keep_user
    if sums is not None:
        sums[u] += mean * dot(scratch, 0, scratch, 0, width)
        pace = ONE / math.sqrt(sums[u])
        rate, lost = rate * pace, lost * pace
    if pull is not None:
        lost *= pull[u]
    blend(users, u, max(ONE - lost, ZERO), scratch, 0, rate, width)


@njit(nogil=True, cache=True)
def move_query(scratch, table, sums, mean, rate, keep, moves, start, end, column, value, width):
    """The features [start, end) along scratch[0]."""
    if sums is None:
        move_features(
            scratch, table, rate, keep, moves, start, end, column, value, ONE, width
        )  # fmt: skip
        return
    square = mean * dot(scratch, 0, scratch, 0, width)
    for e in range(start, end):
        f = np.int64(column[e])
        sums[f] += square * value[e] * value[e]
        pace = ONE / math.sqrt(sums[f])
        kept = max(ONE - (ONE - keep[f]) * pace, ZERO)
        blend(table, f, kept, scratch, 0, rate[f] * pace * value[e], width)
        moves[f] += 1


@njit(nogil=True, cache=True)
def move_listed(scratch, table, bias, sums, mean, rate, keep, moves, ways, gather_up, gather_bias,
                due, member, item_at, start, column, value, slope, size, twice, bias_share,
                width):  # fmt: skip
    """The attributes of a list's items, each once, along the sum of its gradients.

    scratch[m + 1]: the way of item m. twice: 1 where that way counts an attribute's own vector,
    which then is taken out. An attribute that only some of n candidates have is held back by
    their share. ways, gather_up, gather_bias, due: zeros, one (row) per attribute.
    """
    share = ONE / np.float32(max(size - 1, 1))
    for m in range(size):
        item = item_at[member[m]]
        for e in range(start[item], start[item + 1]):
            f = np.int64(column[e])
            gather_up[f] += twice * slope[m] * value[e] * value[e]
            due[f] += ONE if m == 0 else share
            if sums is not None:  # a gradient must be known whole before its row moves
                gather_bias[f] += bias_share * slope[m] * value[e]
                blend(ways, f, ONE, scratch, m + 1, slope[m] * value[e], width)
    for m in range(size):
        item = item_at[member[m]]
        for e in range(start[item], start[item + 1]):
            f = np.int64(column[e])
            if sums is not None:
                if due[f] > ZERO:
                    _move_whole(f, table, bias, sums, mean, rate, keep, ways, gather_up,
                                gather_bias, due, bias_share, width)  # fmt: skip
                    moves[f] += 1
                continue
            kept = ONE
            if due[f] > ZERO:
                held = (ONE - keep[f]) * min(due[f], ONE)
                bias[f] -= bias_share * held * bias[f]
                kept = ONE - held - rate[f] * gather_up[f]
                due[f], gather_up[f] = ZERO, ZERO
                moves[f] += 1
            gain = rate[f] * slope[m] * value[e]
            blend(table, f, kept, scratch, m + 1, gain, width)
            bias[f] += bias_share * gain


@njit(nogil=True, cache=True)
def _move_whole(f, table, bias, sums, mean, rate, keep, ways, gather_up, gather_bias, due,
                bias_share, width):  # fmt: skip
    """AdaGrad's step of one attribute, whose gradient was gathered; what gathered it is zero."""
    blend(ways, f, ONE, table, f, -gather_up[f], width)
    square = dot(ways, f, ways, f, width) + gather_bias[f] * gather_bias[f]
    sums[f] += mean * square
    pace = ONE / math.sqrt(sums[f])
    kept = max(ONE - (ONE - keep[f]) * min(due[f], ONE) * pace, ZERO)
    blend(table, f, kept, ways, f, rate[f] * pace, width)
    bias[f] += bias_share * (kept - ONE) * bias[f] + rate[f] * pace * gather_bias[f]
    blend(ways, f, ZERO, ways, f, ZERO, width)
    gather_up[f], gather_bias[f], due[f] = ZERO, ZERO, ZERO
