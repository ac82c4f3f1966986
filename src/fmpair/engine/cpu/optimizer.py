"""Step lengths and kept shares of every row in the kernel of lists.

With SGD all rows of a table have the same step length. AdaGrad sums up the mean squares of a row's
gradients, including the current one, and divides the step length by the square root. A row is a
vector and, for items and attributes, its bias. Regularisation uses the same step lengths but is no
part of the gradient, and never takes more than the whole row.

Accumulators and scales that are None do not exist in the compiled code. Everything is inlined
(forceinline): a called function would be compiled separately, and rounded differently, where the
kernel is loaded from disk.
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
    """Set norm[m] to the squared length of d score / d item."""
    if norm is None:
        return
    for m in range(size):
        norm[m] = query_square
        if sharpness > ZERO:  # a cosine's gradient stands at a right angle to the item
            norm[m] = max(sharpness * sharpness - score[m] * score[m], ZERO) / square[m]


@kernel(forceinline=True)
def turn_sides(
    scratch, rows, coef, along, own_coef, lost, twice, q_triples, i_triples, size, width
):
    """Set scratch[m + 1] to the gradient of item m, and the last row but one to that of the user.
    """
    user, zeros = len(scratch) - 2, len(scratch) - 1
    gather(scratch, user, scratch, zeros, scratch, 0, size, rows, coef, width)
    blend(scratch, user, ONE, scratch, 0, -lost, width)
    for m in range(size):
        blend(scratch, m + 1, own_coef[m], scratch, 0, along[m], width)
    turn_triples(q_triples, i_triples, scratch, twice, size)


@kernel(fastmath=FAST, forceinline=True)
def side_norms(scratch, items, member, twice, norm, q_triples, i_triples, size, width):
    """Set norm[m] for items with attributes, whose gradients are in scratch[m + 1].

    twice: 1 where that includes the item's own vector, which is no part of the gradient.
    """
    if norm is None:
        return
    if q_triples is not None:
        triple_norms(q_triples, i_triples, scratch, items, member, twice, norm, size)
        return
    for m in range(size):
        i = np.int64(member[m])
        norm[m] = dot(scratch, m + 1, scratch, m + 1, width)
        if twice > ZERO:
            norm[m] -= TWO * dot(scratch, m + 1, items, i, width) - dot(items, i, items, i, width)
        norm[m] = max(norm[m], ZERO)


@kernel(forceinline=True)
def turn_list(
    attributes, scratch, rows, items, member, coef, along, own_coef, lost, twice, q_triples,
    i_triples, sharpness, score, square, query_square, norm, size, width,
):
    """Compute norm[m] and, for items with attributes, gradients."""
    if attributes is None:
        list_norms(sharpness, score, square, query_square, norm, size)
        return
    turn_sides(scratch, rows, coef, along, own_coef, lost, twice, q_triples, i_triples, size, width)
    side_norms(scratch, items, member, twice, norm, q_triples, i_triples, size, width)


@kernel(fastmath=FAST, forceinline=True)
def _rate_list(accumulators, l2_scale, mean, bias, member, slope, norm, own_rate, own_l2, size):
    """Set own_rate[m] and own_l2[m], factors on step length and L2."""
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
    accumulators, l2_scale, mean, bias, step, member, slope, norm, own_coef, own_rate, own_l2,
    twice, item_bias, shrink, alone, q_triples, triple_shrink, size,
):
    """Set shrink[m] and triple_shrink[m], the kept shares of items, and move their biases.

    The candidates share the regularisation of one. alone: there are no attributes, and the gradient
    does not yet include the item's own vector.
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
        shrink[m] = kept + (gain * (own_coef[m] - twice) if alone else -gain * twice)
        if q_triples is not None:
            loss = (ONE - q_triples.shrink_item) * (ONE if m == 0 else share)
            if own_rate is not None:
                loss *= own_l2[m]
            left = max(ONE - loss, ZERO)
            triple_shrink[m] = left + (gain * (own_coef[m] - twice) if alone else ZERO)


@kernel(forceinline=True)
def move_sides(
    scratch, items, member, shrink, slope, own_rate, q_triples, i_triples, triple_shrink, size,
    rate, width,
):
    """Move the items along their gradients; scratch[0] becomes the user's."""
    for m in range(size):
        gain, i = rate * slope[m], np.int64(member[m])
        if own_rate is not None:
            gain *= own_rate[m]
        if q_triples is not None:
            move_item(q_triples, i_triples, scratch, items, i, m, shrink[m], triple_shrink[m], gain)
        else:
            blend(items, i, shrink[m], scratch, m + 1, gain, width)
    assign(scratch, 0, scratch, len(scratch) - 2, width)


@kernel(fastmath=FAST, forceinline=True)
def move_user(scratch, users, u, accumulators, l2_scale, mean, step, q_triples, i_triples, width):
    """Move the user's vector along scratch[0]."""
    rate, lost = step.user_rate, ONE - step.shrink_user
    if q_triples is not None:
        scale = ONE
        if l2_scale is not None:
            scale = l2_scale[u]
        move_row(
            q_triples, i_triples, scratch, users, u, q_triples.user, ONE, accumulators, mean, rate,
            lost * scale, (ONE - q_triples.shrink_user) * scale
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
    c_column, c_value, q_triples, i_triples, width,
):
    """Move the user's attributes [p, p_end) and the context [c, c_end) along scratch[0]."""
    _move_entries(
        scratch, table, accumulators, mean, rate, shrink, moves, p, p_end, p_column, p_value,
        q_triples, i_triples, width
    )
    _move_entries(
        scratch, table, accumulators, mean, rate, shrink, moves, c, c_end, c_column, c_value,
        q_triples, i_triples, width
    )


@kernel(forceinline=True)
def _move_entries(
    scratch, table, accumulators, mean, rate, shrink, moves, start, end, column, value, q_triples,
    i_triples, width,
):
    """Move the features [start, end) along scratch[0]."""
    if q_triples is not None:
        for e in range(start, end):
            f = np.int64(column[e])
            move_row(
                q_triples, i_triples, scratch, table, f, np.int64(q_triples.group[f]), value[e],
                accumulators, mean, rate[f], ONE - shrink[f], ONE - q_triples.query_shrink[f]
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
    scratch, table, bias, accumulators, mean, rate, shrink, moves, grads, gather_up, gather_bias,
    due, member, item_at, start, column, value, slope, size, twice, bias_share, q_triples,
    i_triples, width,
):
    """Move the attributes of a list's items, each once, along the sum of its gradients.

    scratch[m + 1]: the gradient of item m. twice: 1 where that includes an attribute's own vector,
    which is then subtracted. An attribute of some of n candidates gets their share of
    regularisation. grads, gather_up, gather_bias, due: zeros, one (row) per attribute.
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
                blend(grads, f, ONE, scratch, m + 1, slope[m] * value[e], width)
                gather_triples(q_triples, i_triples, grads, f, m, slope[m] * value[e])
    for m in range(size):
        item = item_at[member[m]]
        for e in range(start[item], start[item + 1]):
            f = np.int64(column[e])
            if accumulators is not None:
                if due[f] > ZERO:
                    _move_whole(
                        f, table, bias, accumulators, mean, rate, shrink, grads, gather_up,
                        gather_bias, due, bias_share, q_triples, i_triples, width
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
            if q_triples is not None:
                move_attribute(
                    q_triples, i_triples, scratch, table, f, m, gain, up, kept,
                    ONE - (ONE - q_triples.feature_shrink[f]) * first_due
                )
            else:
                blend(table, f, kept, scratch, m + 1, gain, width)
            bias[f] += bias_share * gain


@kernel(forceinline=True)
def _move_whole(
    f, table, bias, accumulators, mean, rate, shrink, grads, gather_up, gather_bias, due,
    bias_share, q_triples, i_triples, width,
):
    """Take the AdaGrad step of one attribute, and reset its gathered gradient to zero."""
    if q_triples is not None:
        without_own(q_triples, i_triples, grads, table, f, gather_up[f])
    else:
        blend(grads, f, ONE, table, f, -gather_up[f], width)
    square = dot(grads, f, grads, f, width) + gather_bias[f] * gather_bias[f]
    accumulators[f] += mean * square
    own_rate = ONE / math.sqrt(accumulators[f])
    held = min(due[f], ONE) * own_rate
    kept = max(ONE - (ONE - shrink[f]) * held, ZERO)
    if q_triples is not None:
        kept_triples = max(ONE - (ONE - q_triples.feature_shrink[f]) * held, ZERO)
        blend_apart(q_triples, table, f, kept, kept_triples, grads, rate[f] * own_rate)
    else:
        blend(table, f, kept, grads, f, rate[f] * own_rate, width)
    bias[f] += bias_share * (kept - ONE) * bias[f] + rate[f] * own_rate * gather_bias[f]
    blend(grads, f, ZERO, grads, f, ZERO, width)
    gather_up[f], gather_bias[f], due[f] = ZERO, ZERO, ZERO
