"""Folded items: while a cell is trained, an item's row is the sum with its attributes' vectors.

See `strata.sampling_tables` for the method. As in `optimizer`, arguments that are None do not exist
in the compiled code, and everything is inlined.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.cpu.operands import Attributes, Copies, StepSizes
from fmpair.engine.cpu.pairs import build_item
from fmpair.engine.cpu.sides import add_four
from fmpair.engine.cpu.simd import aligned, assign, blend
from fmpair.engine.strata.sampling_tables import steps_between
from fmpair.jit import FAST, kernel

ONE, ZERO = np.float32(1.0), np.float32(0.0)
EIGHT = (0, 0)  # the width of rows of `tally` and `sums`; the first four columns go together
SLOPE, STEEP, CHOSEN, OTHERS, BIAS, CONSTANT, SQUARES = range(7)  # columns of `tally`
UP, PULL, HELD, DUE, SQUARE = range(5)  # columns of `sums`


class FoldedItems(NamedTuple):
    """Arrays of a thread to fold the items of a block and to pass their moves on to attributes.

    attributes: of the current cell, or None. step: with the regularisation of items, which is
    applied when sums are passed on. item_rows: float32 [items of a block, columns], the items' own
    rows. start: the same shape, the sums at the last folding.
    tally: float32 [items of a block, 8]. Four columns count since the last folding: the sum of
    slopes; the sum of |slope| times the squared length of d score / d side; how often the item was
    chosen; its share of the regularisation of candidates. The others are the item's bias, constant
    and accumulator at the last folding.
    grads: float32 [attributes, columns], sums: [attributes, 8], touched: int32 [attributes]: what
    is passed on to attributes; zeros in between. joint: see `item_side.joint_steepness`.
    """

    attributes: Attributes | None
    step: StepSizes
    item_rows: np.ndarray
    start: np.ndarray
    tally: np.ndarray
    grads: np.ndarray
    sums: np.ndarray
    touched: np.ndarray
    joint: np.ndarray


def folding_for(
    copies: Copies, step: StepSizes, items: int, joint: np.ndarray
) -> FoldedItems:
    """Return the arrays of a thread for blocks of at most `items` items."""
    _, features, columns = copies.table.shape
    shapes = ((items, columns), (items, columns), (items, 8), (features, columns), (features, 8))
    rows = (aligned(np.zeros(shape, np.float32)) for shape in shapes)
    return FoldedItems(None, step, *rows, np.zeros(features, np.int32), joint)


def without_item_l2(step: StepSizes) -> StepSizes:
    """Return the step sizes between two foldings, without the regularisation of items."""
    whole = np.float32(1)
    return step._replace(shrink_positive=whole, shrink_negative=whole, shrink_bias=whole)


@kernel(fastmath=FAST, forceinline=True)
def sum_up(folding, member, slope, score, square, query_square, sharpness, block, size):
    """Add the slopes of a step to the tallies of its items, before the step moves them."""
    if folding is None:
        return
    tally, share = folding.tally, ONE / np.float32(max(size - 1, 1))
    for m in range(size):
        j, norm = member[m] - block[0], query_square
        if sharpness > ZERO:
            norm = max(sharpness * sharpness - score[m] * score[m], ZERO) / square[m]
        chosen, other = (ONE, ZERO) if m == 0 else (ZERO, share)
        add_four(tally, j, slope[m], abs(slope[m]) * norm, chosen, other, EIGHT)


@kernel(forceinline=True)
def refold(
    folding, r, walk, folded, steps, most, scratch, items, item_bias, item_sums, item_scale, a_sums,
    block, twice, width,
):
    """Update the attributes and fold the items again, if that is due before run r of a walk.

    It is always due before the first run and after the last. folded: the number of steps at the
    last folding; the returned number is its new value.
    """
    if folding is None:
        return folded
    begun, over = r > walk[0], r == walk[1]
    if begun and not over and steps - folded < steps_between(block[1] - block[0], most):
        return folded
    if begun:
        count = _unfold(
            folding, scratch, items, item_bias, item_sums, item_scale, block, twice, width
        )
        _move(folding, count, a_sums, np.float32(steps - folded), width)
    if not over:
        _fold(folding, items, item_bias, item_sums, block, width)
    return steps


@kernel(forceinline=True)
def _fold(folding, items, item_bias, item_sums, block, width):
    """Replace the rows and constants of a block's items by those of the items with attributes."""
    attributes, item_rows, start, tally = (
        folding.attributes, folding.item_rows, folding.start, folding.tally
    )
    (table, bias, _, _, _), item_at, rows, _ = attributes
    a_start, column, value = rows
    for j in range(block[1] - block[0]):
        i = block[0] + j
        a, a_end = a_start[item_at[i]], a_start[item_at[i] + 1]
        assign(item_rows, j, items, i, width)
        tally[j, SLOPE], tally[j, STEEP] = ZERO, ZERO
        tally[j, CHOSEN], tally[j, OTHERS] = ZERO, ZERO
        tally[j, BIAS] = item_bias[i]
        item_bias[i] += build_item(
            items, i, items, i, table, bias, a, a_end, column, value, width
        )
        tally[j, CONSTANT] = item_bias[i]
        if item_sums is not None:
            tally[j, SQUARES] = item_sums[i]
        assign(start, j, items, i, width)


@kernel(fastmath=FAST, forceinline=True)
def _unfold(folding, scratch, items, item_bias, item_sums, item_scale, block, twice, width):
    """Restore the items' own rows, moved and shrunk, and sum up the gradients of attributes.

    twice: 1 where the features of an item form pairs, else 0. Returns the number of attributes
    touched.
    """
    attributes, step, item_rows, start, tally, grads, sums, touched, joint = folding
    shared, item_at, rows, _ = attributes
    a_start, column, value = rows
    lost_chosen, lost_other, lost_bias = (
        ONE - step.shrink_positive, ONE - step.shrink_negative, ONE - step.shrink_bias
    )
    grad, count = len(scratch) - 2, 0
    for j in range(block[1] - block[0]):
        i, chosen, others = block[0] + j, tally[j, CHOSEN], tally[j, OTHERS]
        moved, bias = item_bias[i] - tally[j, CONSTANT], tally[j, BIAS]
        if chosen + others > ZERO:
            rate, square, slope = ONE, ZERO, tally[j, SLOPE]
            if item_sums is not None:
                rate, square = ONE / math.sqrt(item_sums[i]), item_sums[i] - tally[j, SQUARES]
            lost = rate * (lost_chosen * chosen + lost_other * others)
            if item_scale is not None:
                lost *= item_scale[i]
            bias = max(ONE - rate * lost_bias * (chosen + others), ZERO) * bias + moved
            rate *= step.item_rate
            blend(items, i, ONE, start, j, -ONE, width)
            if rate > ZERO:
                assign(scratch, grad, items, i, width)
                blend(scratch, grad, ONE / rate, start, j, twice * slope, width)
                for e in range(a_start[item_at[i]], a_start[item_at[i] + 1]):
                    f, x = np.int64(column[e]), value[e]
                    if sums[f, DUE] == ZERO:
                        touched[count] = f
                        count += 1
                    blend(grads, f, ONE, scratch, grad, x, width)
                    add_four(
                        sums, f, twice * x * x * slope, x * slope,
                        max(x * x, joint[f]) * tally[j, STEEP], chosen + others, EIGHT
                    )
                    if item_sums is not None:
                        sums[f, SQUARE] += x * x * square
                    shared.moves[f] += 1 + np.int32(chosen)
            gain = twice * rate * slope
            blend(item_rows, j, max(ONE - lost, ZERO) - gain, items, i, ONE, width)
            blend(item_rows, j, ONE, start, j, gain, width)
        assign(items, i, item_rows, j, width)
        item_bias[i] = bias
    return count


@kernel(fastmath=FAST, forceinline=True)
def _move(folding, count, a_sums, steps, width):
    """Move every touched attribute once."""
    attributes, _, _, _, _, grads, sums, touched, _ = folding
    (table, bias, _, rates, shrink), _, _, bias_share = attributes
    for n in range(count):
        f, own_rate = np.int64(touched[n]), ONE
        if a_sums is not None:
            a_sums[f] += sums[f, SQUARE]
            own_rate = ONE / math.sqrt(a_sums[f])
        rate = rates[f] * own_rate
        lost = (ONE - shrink[f]) * own_rate * min(sums[f, DUE], steps)
        share = ONE / (ONE + rate * sums[f, HELD] + lost)
        blend(grads, f, ONE, table, f, -sums[f, UP], width)
        blend(table, f, ONE - share * lost, grads, f, share * rate, width)
        bias[f] += bias_share * share * (rate * sums[f, PULL] - lost * bias[f])
        blend(grads, f, ZERO, grads, f, ZERO, width)
        for c in range(SQUARE + 1):
            sums[f, c] = ZERO
