"""Items that stand for their whole sides while a cell is learned from: see `engine.strata.folding`.

As in `optimizer`, what is None does not exist in the compiled code, and all becomes a part of the
kernel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.cpu.operands import Attributes, Copies, Step
from fmpair.engine.cpu.pairs import build_item
from fmpair.engine.cpu.sides import add_four
from fmpair.engine.cpu.simd import aligned, assign, blend
from fmpair.engine.strata.sampling_tables import steps_between
from fmpair.jit import FAST, kernel

ONE, ZERO = np.float32(1.0), np.float32(0.0)
EIGHT = (0, 0)  # the width of rows of `tally` and `sums`; the first four columns go together
SLOPE, STEEP, CHOSEN, OTHERS, BIAS, CONSTANT, SQUARES = range(7)  # columns of `tally`
UP, PULL, HELD, DUE, SQUARE = range(5)  # columns of `sums`


class Folding(NamedTuple):
    """What a thread needs to fold the items of a block, and to pass on what they were moved by.

    attributes: those of the cell at work, or None. step: with the regularisation of items, which is
    settled when sums are passed on.
    own, start: float32 [items of a block, columns], their own rows, and their sides when folded.
    tally: float32 [items of a block, 8]: since then the sum of slopes, that of their sizes times
    squared lengths of d score / d side, how often the item was chosen, and what it was due of the
    regularisation of candidates; when folded, its own bias, its constant, its accumulator.
    ways: float32 [attributes, columns], sums: [attributes, 8], touched: int32 [attributes]: what is
    passed on: zeros in between.
    """

    attributes: Attributes | None
    step: Step
    own: np.ndarray
    start: np.ndarray
    tally: np.ndarray
    ways: np.ndarray
    sums: np.ndarray
    touched: np.ndarray


def folding_for(copies: Copies, step: Step, items: int) -> Folding:
    """A thread's arrays for blocks of at most so many items; copies: of the attributes' table."""
    _, features, columns = copies.table.shape
    shapes = ((items, columns), (items, columns), (items, 8), (features, columns), (features, 8))
    rows = (aligned(np.zeros(shape, np.float32)) for shape in shapes)
    return Folding(None, step, *rows, np.zeros(features, np.int32))


def without_item_l2(step: Step) -> Step:
    """Step lengths of the steps in between."""
    one = np.float32(1)
    return step._replace(shrink_positive=one, shrink_negative=one, shrink_bias=one)


@kernel(fastmath=FAST, forceinline=True)
def note(folding, member, slope, score, square, query_square, sharpness, block, size):
    """Sum up what a step moves its items by, before it does."""
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
    """Before run r of a walk and after its last: where it is time, pass on what was summed up.

    Then fold anew, unless it is over. folded: after how many steps that was done before; returns
    the same of now.
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
    """The rows and constants of a block's items become those of their sides."""
    attributes, own, start, tally = (
        folding.attributes, folding.own, folding.start, folding.tally
    )
    (table, bias, _, _, _), item_at, rows, _ = attributes
    a_start, column, value = rows
    for j in range(block[1] - block[0]):
        i = block[0] + j
        a, a_end = a_start[item_at[i]], a_start[item_at[i] + 1]
        assign(own, j, items, i, width)
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
    """Items and biases are their own again, moved and shrunk; attributes' ways are summed up.

    twice: 1 where the features of an item meet each other, else 0. Returns how many are touched.
    """
    attributes, step, own, start, tally, ways, sums, touched = folding
    shared, item_at, rows, _ = attributes
    a_start, column, value = rows
    lost_chosen, lost_other, lost_bias = (
        ONE - step.shrink_positive, ONE - step.shrink_negative, ONE - step.shrink_bias
    )
    way, count = len(scratch) - 2, 0
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
                assign(scratch, way, items, i, width)
                blend(scratch, way, ONE / rate, start, j, twice * slope, width)
                for e in range(a_start[item_at[i]], a_start[item_at[i] + 1]):
                    f, x = np.int64(column[e]), value[e]
                    if sums[f, DUE] == ZERO:
                        touched[count] = f
                        count += 1
                    blend(ways, f, ONE, scratch, way, x, width)
                    add_four(
                        sums, f, twice * x * x * slope, x * slope, x * x * tally[j, STEEP],
                        chosen + others, EIGHT
                    )
                    if item_sums is not None:
                        sums[f, SQUARE] += x * x * square
                    shared.moves[f] += 1 + np.int32(chosen)
            gain = twice * rate * slope
            blend(own, j, max(ONE - lost, ZERO) - gain, items, i, ONE, width)
            blend(own, j, ONE, start, j, gain, width)
        assign(items, i, own, j, width)
        item_bias[i] = bias
    return count


@kernel(fastmath=FAST, forceinline=True)
def _move(folding, count, a_sums, steps, width):
    """Every attribute that anything was passed on to moves once."""
    attributes, _, _, _, _, ways, sums, touched = folding
    (table, bias, _, rates, shrink), _, _, bias_share = attributes
    for n in range(count):
        f, own_rate = np.int64(touched[n]), ONE
        if a_sums is not None:
            a_sums[f] += sums[f, SQUARE]
            own_rate = ONE / math.sqrt(a_sums[f])
        rate = rates[f] * own_rate
        lost = (ONE - shrink[f]) * own_rate * min(sums[f, DUE], steps)
        share = ONE / (ONE + rate * sums[f, HELD] + lost)
        blend(ways, f, ONE, table, f, -sums[f, UP], width)
        blend(table, f, ONE - share * lost, ways, f, share * rate, width)
        bias[f] += bias_share * share * (rate * sums[f, PULL] - lost * bias[f])
        blend(ways, f, ZERO, ways, f, ZERO, width)
        for c in range(SQUARE + 1):
            sums[f, c] = ZERO
