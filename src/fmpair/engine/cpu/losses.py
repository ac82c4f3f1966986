"""Losses of the kernels, as slopes by the scores of a chosen item and its candidates."""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from fmpair.engine.contract import LOSSES
from fmpair.engine.cpu.simd import FLOAT, INT32
from fmpair.jit import FAST, inline, kernel

TINY = 1e-300  # added before a logarithm is taken
# sigmoid(-g) between -16 and 16, 64 entries per unit, linearly interpolated (error 3e-6)
REACH = np.float32(16.0)
ENTRIES = np.float32(64.0)
LAST_ENTRY = 2048
SIGMOID = (1 / (1 + np.exp(np.linspace(-16, 16 + 1 / 64, 2050)))).astype(np.float32)


@inline
def sigmoid_of_minus(g, table):
    """Return 1 / (1 + exp(g)) from the table; any g stays inside the table."""
    x = (min(max(g, -REACH), REACH) + REACH) * ENTRIES
    n = min(max(np.int64(x), 0), LAST_ENTRY)
    left = table[n]
    return left + (x - np.float32(n)) * (table[n + 1] - left)


BPR, HINGE, LOGISTIC, SOFTMAX, WARP = range(len(LOSSES))
MARGIN = np.float32(1.0)
# e ** x = 2 ** n * e ** f with |f| <= ln(2) / 2: a Taylor series is accurate enough
LOWEST, LOG2_E, LN_2, HALF = (np.float32(c) for c in (-87.0, math.log2(math.e), math.log(2), 0.5))
C0, C1, C2, C3, C4, C5, C6 = (np.float32(1 / math.factorial(n)) for n in range(7))
ONE, ZERO = np.float32(1.0), np.float32(0.0)


@kernel(fastmath=FAST)
def correct(score, corrected, log_chance, raised, first_drawn, member, first_item, size):
    """Set corrected to the scores less log_chance by item of the block, if not empty.

    raised: added to the scores of uniform negatives, which begin at first_drawn.
    """
    for m in range(size):
        corrected[m] = score[m]
    for m in range(first_drawn, size):
        corrected[m] += raised
    for m in range(size if len(log_chance) > 0 else 0):
        corrected[m] -= log_chance[member[m] - first_item]


@kernel(fastmath=FAST)
def warp_weight(items, tries):
    """Return the weight of a WARP step whose candidate was found after `tries` draws."""
    return np.float32(math.log1p((items - 1) // tries) / math.log1p(items - 1))


@kernel(fastmath=FAST)
def weigh(loss, score, slope, size):
    """Set slope[m] = -d loss / d score[m], the chosen item first; return the loss."""
    if loss == SOFTMAX:
        return _softmax(score, slope, size)
    if loss == LOGISTIC:
        return _logistic(score, slope, size)
    g = score[0] - score[1]
    if loss == BPR:
        s = sigmoid_of_minus(g, SIGMOID)
        value = -math.log(1.0 - np.float64(s) + TINY)
    else:
        s = ONE if g < MARGIN else ZERO
        value = np.float64(s * (MARGIN - g))
    slope[0], slope[1] = s, -s
    return value


@intrinsic
def _two_to(typing, n):
    """Return 2 ** n of a whole float32 from -126 to 127, by its exponent bits."""

    def generate(context, builder, signature, arguments):
        bits = builder.fptosi(arguments[0], INT32)
        bits = builder.shl(builder.add(bits, ir.Constant(INT32, 127)), ir.Constant(INT32, 23))
        return builder.bitcast(bits, FLOAT)

    return types.float32(types.float32), generate


@inline
def exponential(x):
    """Return e ** x of a float32 not above 0; unlike a call it is vectorised."""
    y = max(x, LOWEST) * LOG2_E
    n = np.floor(y + HALF)
    f = (y - n) * LN_2
    p = C0 + f * (C1 + f * (C2 + f * (C3 + f * (C4 + f * (C5 + f * C6)))))
    return p * _two_to(n)


@kernel(fastmath=FAST)
def _softmax(score, slope, size):
    """Compute -ln of the chosen item's softmax probability."""
    most = score[0]
    for m in range(1, size):
        most = max(most, score[m])
    for m in range(size):
        slope[m] = exponential(score[m] - most)
    total = ZERO
    for m in range(size):
        total += slope[m]
    share = -ONE / total
    for m in range(size):
        slope[m] *= share
    slope[0] += ONE
    return math.log(np.float64(total)) + np.float64(most - score[0])


@kernel(fastmath=FAST)
def _logistic(score, slope, size):
    """Compute -ln sigma(score) of the chosen item plus -ln sigma(-score) of the others."""
    slope[0] = sigmoid_of_minus(score[0], SIGMOID)
    value = -math.log(1.0 - np.float64(slope[0]) + TINY)
    for m in range(1, size):
        s = sigmoid_of_minus(-score[m], SIGMOID)
        slope[m] = -s
        value -= math.log(1.0 - np.float64(s) + TINY)
    return value
