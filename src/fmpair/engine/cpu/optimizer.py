"""How far every row goes in a step of the kernel of lists, and how much of it is kept.

Plainly (SGD) all rows of a table go alike. With AdaGrad the mean squares of a row's gradients are
summed up, and its step length is divided by the square root of that sum, which holds this step's
too. A row is a vector and, of an item or an attribute, its bias. Regularisation takes the same
steps, but is no part of the gradient; nothing is ever held back by more than all of itself.

Accumulators and scales that are None do not exist in the compiled code, which is why they are
arguments. All become a part of the kernel (forceinline): called, they would be one copy in the
process that compiles the kernel and another, rounded otherwise, where it is found on disk.
"""

from __future__ import annotations

import math

import numpy as np

from fmpair.engine.cpu.pairs import move_features
from fmpair.engine.cpu.simd import assign, blend, dot, gather
from fmpair.engine.cpu.triples import (
    blend_apart,
    gather_triples,
    move_attribute,
    move_item,
    move_row,
    triple_norms,
    turn_triples,
    without_own,
)
from fmpair.jit import FAST, kernel

ONE, TWO, ZERO = np.float32(1.0), np.float32(2.0), np.float32(0.0)


@kernel(fastmath=FAST, forceinline=True)
def list_norms(sharpness, score, square, query_square, norm, size):
    """norm[m] = the squared length of d score / d item of every item of a list."""
    if norm is None:
        return
    for m in range(size):
        norm[m] = query_square
        if sharpness > ZERO:  # a cosine's gradient stands at a right angle to the item
            norm[m] = max(sharpness * sharpness - score[m] * score[m], ZERO) / square[m]


@kernel(forceinline=True)
def turn_sides(scratch, places, coef, along, own, lost, twice, third, mirror, size, width):
    """scratch[m + 1] becomes the way of item m, and the last row but one that of the user."""
    user, zeros = len(scratch) - 2, len(scratch) - 1
    gather(scratch, user, scratch, zeros, scratch, 0, size, places, coef, width)
    blend(scratch, user, ONE, scratch, 0, -lost, width)
    for m in range(size):
        blend(scratch, m + 1, own[m], scratch, 0, along[m], width)
    turn_triples(third, mirror, scratch, twice, size)


@kernel(fastmath=FAST, forceinline=True)
def side_norms(scratch, items, member, twice, norm, third, mirror, size, width):
    """The same of items with attributes, whose ways stand in scratch[m + 1].

    twice: 1 where a way counts the item's own vector, which is not in the gradient.
    """
    if norm is None:
        return
    if third is not None:
        triple_norms(third, mirror, scratch, items, member, twice, norm, size)
        return
    for m in range(size):
        i = np.int64(member[m])
        norm[m] = dot(scratch, m + 1, scratch, m + 1, width)
        if twice > ZERO:
            norm[m] -= TWO * dot(scratch, m + 1, items, i, width) - dot(items, i, items, i, width)
        norm[m] = max(norm[m], ZERO)


@kernel(forceinline=True)
def turn_list(
    attributes, scratch, places, items, member, coef, along, own, lost, twice, third, mirror,
    sharpness, score, square, query_square, norm, size, width,
):
    """The ways of items whose attributes move with them; norm[m] of all."""
    if attributes is None:
        list_norms(sharpness, score, square, query_square, norm, size)
        return
    turn_sides(scratch, places, coef, along, own, lost, twice, third, mirror, size, width)
    side_norms(scratch, items, member, twice, norm, third, mirror, size, width)


@kernel(fastmath=FAST, forceinline=True)
def _rate_list(accumulators, l2_scale, mean, bias, member, slope, norm, own_rate, own_l2, size):
    """own_rate[m], own_l2[m]: multiples of step length and L2; ones where not asked for."""
    if accumulators is not None:
        for m in range(size):
            i = np.int64(member[m])
            accumulators[i] += mean * slope[m] * slope[m] * (norm[m] + bias)
            own_rate[m] = ONE / math.sqrt(accumulators[i])
            own_l2[m] = own_rate[m]
    if l2_scale is not None:
        for m in range(size):
            own_l2[m] = own_rate[m] * l2_scale[member[m]]


@kernel(fastmath=FAST, forceinline=True)
def shrink_list(
    accumulators, l2_scale, mean, bias, step, member, slope, norm, own, own_rate, own_l2, twice,
    item_bias, shrink, alone, third, triple_shrink, size,
):
    """shrink[m]: every item's kept share, triple_shrink[m] of its triples; its bias moves.

    The candidates share the regularisation of one. alone: there are no attributes, and an item's
    own vector is not yet in its way.
    """
    _rate_list(accumulators, l2_scale, mean, bias, member, slope, norm, own_rate, own_l2, size)
    share = ONE / np.float32(size - 1)
    negative = ONE - (ONE - step.shrink_negative) * share
    negative_bias = ONE - (ONE - step.shrink_bias) * share
    for m in range(size):
        i, rate, bias_rate = np.int64(member[m]), step.item_rate, step.bias_rate
        kept = step.shrink_positive if m == 0 else negative
        shrunk_bias = step.shrink_bias if m == 0 else negative_bias
        if own_rate is not None:
            rate, bias_rate = rate * own_rate[m], bias_rate * own_rate[m]
            kept = max(ONE - (ONE - kept) * own_l2[m], ZERO)
            shrunk_bias = max(ONE - (ONE - shrunk_bias) * own_rate[m], ZERO)
        item_bias[i] = shrunk_bias * item_bias[i] + bias_rate * slope[m]
        gain = rate * slope[m]
        shrink[m] = kept + (gain * (own[m] - twice) if alone else -gain * twice)
        if third is not None:
            loss = (ONE - third.shrink_item) * (ONE if m == 0 else share)
            if own_rate is not None:
                loss *= own_l2[m]
            triple_shrink[m] = max(ONE - loss, ZERO) + (gain * (own[m] - twice) if alone else ZERO)


@kernel(forceinline=True)
def move_sides(
    scratch, items, member, shrink, slope, own_rate, third, mirror, triple_shrink, size, rate,
    width,
):
    """The items along their ways; scratch[0] becomes the user's."""
    for m in range(size):
        gain, i = rate * slope[m], np.int64(member[m])
        if own_rate is not None:
            gain *= own_rate[m]
        if third is not None:
            move_item(third, mirror, scratch, items, i, m, shrink[m], triple_shrink[m], gain)
        else:
            blend(items, i, shrink[m], scratch, m + 1, gain, width)
    assign(scratch, 0, scratch, len(scratch) - 2, width)


@kernel(fastmath=FAST, forceinline=True)
def move_user(scratch, users, u, accumulators, l2_scale, mean, step, third, mirror, width):
    """The user's vector along scratch[0]."""
    rate, lost = step.user_rate, ONE - step.shrink_user
    if third is not None:
        scale = ONE
        if l2_scale is not None:
            scale = l2_scale[u]
        move_row(
            third, mirror, scratch, users, u, third.user, ONE, accumulators, mean, rate,
            lost * scale, (ONE - third.shrink_user) * scale
        )
        return
    if accumulators is not None:
        accumulators[u] += mean * dot(scratch, 0, scratch, 0, width)
        own_rate = ONE / math.sqrt(accumulators[u])
        rate, lost = rate * own_rate, lost * own_rate
    if l2_scale is not None:
        lost *= l2_scale[u]
    blend(users, u, max(ONE - lost, ZERO), scratch, 0, rate, width)


@kernel(forceinline=True)
def move_query(
    scratch, table, accumulators, mean, rate, shrink, moves, p, p_end, p_column, p_value, c, c_end,
    c_column, c_value, third, mirror, width,
):
    """The user's attributes [p, p_end) and the context [c, c_end) along scratch[0]."""
    _move_entries(
        scratch, table, accumulators, mean, rate, shrink, moves, p, p_end, p_column, p_value,
        third, mirror, width
    )
    _move_entries(
        scratch, table, accumulators, mean, rate, shrink, moves, c, c_end, c_column, c_value,
        third, mirror, width
    )


@kernel(forceinline=True)
def _move_entries(
    scratch, table, accumulators, mean, rate, shrink, moves, start, end, column, value, third,
    mirror, width,
):
    """The features [start, end) along scratch[0]."""
    if third is not None:
        for e in range(start, end):
            f = np.int64(column[e])
            move_row(
                third, mirror, scratch, table, f, np.int64(third.group[f]), value[e], accumulators,
                mean, rate[f], ONE - shrink[f], ONE - third.query_shrink[f]
            )
            moves[f] += 1
        return
    if accumulators is None:
        move_features(scratch, table, rate, shrink, moves, start, end, column, value, ONE, width)
        return
    square = mean * dot(scratch, 0, scratch, 0, width)
    for e in range(start, end):
        f = np.int64(column[e])
        accumulators[f] += square * value[e] * value[e]
        own_rate = ONE / math.sqrt(accumulators[f])
        kept = max(ONE - (ONE - shrink[f]) * own_rate, ZERO)
        blend(table, f, kept, scratch, 0, rate[f] * own_rate * value[e], width)
        moves[f] += 1


@kernel(forceinline=True)
def move_listed(
    scratch, table, bias, accumulators, mean, rate, shrink, moves, ways, gather_up, gather_bias,
    due, member, item_at, start, column, value, slope, size, twice, bias_share, third, mirror,
    width,
):
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
            if accumulators is not None:  # a gradient must be known whole before its row moves
                gather_bias[f] += bias_share * slope[m] * value[e]
                blend(ways, f, ONE, scratch, m + 1, slope[m] * value[e], width)
                gather_triples(third, mirror, ways, f, m, slope[m] * value[e])
    for m in range(size):
        item = item_at[member[m]]
        for e in range(start[item], start[item + 1]):
            f = np.int64(column[e])
            if accumulators is not None:
                if due[f] > ZERO:
                    _move_whole(
                        f, table, bias, accumulators, mean, rate, shrink, ways, gather_up,
                        gather_bias, due, bias_share, third, mirror, width
                    )
                    moves[f] += 1
                continue
            kept, up, first_due = ONE, ZERO, ZERO
            if due[f] > ZERO:
                first_due = min(due[f], ONE)
                own_l2 = (ONE - shrink[f]) * first_due
                bias[f] -= bias_share * own_l2 * bias[f]
                up = rate[f] * gather_up[f]
                kept = ONE - own_l2 - up
                due[f], gather_up[f] = ZERO, ZERO
                moves[f] += 1
            gain = rate[f] * slope[m] * value[e]
            if third is not None:
                move_attribute(
                    third, mirror, scratch, table, f, m, gain, up, kept,
                    ONE - (ONE - third.feature_shrink[f]) * first_due
                )
            else:
                blend(table, f, kept, scratch, m + 1, gain, width)
            bias[f] += bias_share * gain


@kernel(forceinline=True)
def _move_whole(
    f, table, bias, accumulators, mean, rate, shrink, ways, gather_up, gather_bias, due,
    bias_share, third, mirror, width,
):
    """AdaGrad's step of one attribute, whose gradient was gathered; what gathered it is zero."""
    if third is not None:
        without_own(third, mirror, ways, table, f, gather_up[f])
    else:
        blend(ways, f, ONE, table, f, -gather_up[f], width)
    square = dot(ways, f, ways, f, width) + gather_bias[f] * gather_bias[f]
    accumulators[f] += mean * square
    own_rate = ONE / math.sqrt(accumulators[f])
    held = min(due[f], ONE) * own_rate
    kept = max(ONE - (ONE - shrink[f]) * held, ZERO)
    if third is not None:
        kept_triples = max(ONE - (ONE - third.feature_shrink[f]) * held, ZERO)
        blend_apart(third, table, f, kept, kept_triples, ways, rate[f] * own_rate)
    else:
        blend(table, f, kept, ways, f, rate[f] * own_rate, width)
    bias[f] += bias_share * (kept - ONE) * bias[f] + rate[f] * own_rate * gather_bias[f]
    blend(ways, f, ZERO, ways, f, ZERO, width)
    gather_up[f], gather_bias[f], due[f] = ZERO, ZERO, ZERO
