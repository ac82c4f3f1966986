"""Drawing negatives inside a block of items: uniform, by popularity, batch, or adaptive."""

from __future__ import annotations

import math

import numpy as np

from fmpair.engine.cpu.pairs import TRIES, draw_negative
from fmpair.engine.strata.sampling_tables import PARTS, PER_DRAW
from fmpair.jit import kernel
from fmpair.rng import STEP, high, scramble

# Dropout of the query: in every step other factors are left out, and the rest count for more.


@kernel
def drop_anew(state, dropped, kept, scratch):
    """Drop other factors of scratch[0] than before; the new state of the random stream.

    dropped: so many of PARTS. kept: float32 [factors], 0 or what a factor counts for from now on.
    """
    if dropped == 0:
        return state
    worth = np.float32(PARTS / (PARTS - dropped))
    draw = np.uint64(0)
    for f in range(len(kept)):
        if f % PER_DRAW == 0:
            state += STEP
            draw = scramble(state)
        kept[f] = worth if np.int64(draw & np.uint64(PARTS - 1)) >= dropped else np.float32(0)
        draw = draw >> np.uint64(8)
    drop(scratch, kept, dropped)
    return state


@kernel
def drop(scratch, kept, dropped):
    """scratch[0] without what is dropped in this step."""
    if dropped > 0:
        for f in range(len(kept)):
            scratch[0, f] *= kept[f]


HALF = 1 / 2**32  # one unit of half a draw, as a share


@kernel
def weigh_factors(scratch, order, spread, chances):
    """Where items are ordered, chances: running sums of |query| * spread, the constants' last."""
    if order is not None:
        total, last = np.float32(0.0), len(spread) - 1
        for f in range(last):
            total += abs(scratch[0, f]) * spread[f]
            chances[f] = total
        chances[last] = total + spread[last]


@kernel
def pick(draw, count, accept, other, order, chances, scratch, depth):
    """An item of the block from one draw of 64 bits, seen or not."""
    if accept is not None:
        j = high(draw, count)
        return j if np.uint32(draw & np.uint64(0xFFFFFFFF)) <= accept[j] else np.int64(other[j])
    if other is not None:
        return np.int64(other[high(draw, np.uint64(len(other)))])
    if order is not None:
        last = order.shape[0] - 1
        goal = np.float32(np.float64(draw >> np.uint64(32)) * HALF) * chances[last]
        f, end = 0, last
        while f < end:
            middle = (f + end) // 2
            if chances[middle] > goal:
                end = middle
            else:
                f = middle + 1
        share = np.float64(draw & np.uint64(0xFFFFFFFF)) * HALF
        rank = min(np.int64(-depth[0] * math.log(1 - share * depth[1])), order.shape[1] - 1)
        if f == last or scratch[0, f] > 0:
            rank = order.shape[1] - 1 - rank
        return np.int64(order[f, rank])
    return high(draw, count)


@kernel
def draw_unseen(state, count, taken, accept, other, order, chances, scratch, depth):
    """(new state, an item of the block that is not taken): tried at random, then searched."""
    j = 0
    for _ in range(TRIES):
        state += STEP
        j = pick(scramble(state), count, accept, other, order, chances, scratch, depth)
        if not taken[j]:
            return state, j
    while taken[j]:
        j = j + 1 if j + 1 < np.int64(count) else 0
    return state, j


@kernel
def list_own(item, start, end, first_item, taken, mine):
    """Mark a run's items as taken and list each once; how many there are."""
    count = 0
    for e in range(start, end):
        if not taken[item[e] - first_item]:
            taken[item[e] - first_item] = 1
            mine[count] = item[e]
            count += 1
    return count


@kernel
def release(item, start, end, first_item, taken):
    """Mark a run's items as free again."""
    for e in range(start, end):
        taken[item[e] - first_item] = 0


@kernel
def list_impressions(start, item, run, impressions):
    """List the items of its block that a run's user was shown; how many there are."""
    if len(start) == 0:
        return np.int64(0)
    first, end = start[run], start[run + 1]
    for e in range(first, end):
        impressions[e - first] = item[e]
    return end - first


@kernel
def draw_known(state, listed, count, wanted, member, first):
    """Put `wanted` of the `count` listed items into member[first:], but for the chosen one.

    Returns (new state, how many were put). They are distinct; `listed` is shuffled.
    """
    drawn = 0
    for n in range(min(wanted, count)):
        state += STEP
        place = n + high(scramble(state), np.uint64(count - n))
        listed[n], listed[place] = listed[place], listed[n]
        if listed[n] != member[0]:
            member[first + drawn] = listed[n]
            drawn += 1
    return state, drawn


@kernel
def draw_shares(state, most, shares, mine, had, impressions, offered, member):
    """Fill member[1:] with own items and then shown ones, about these shares of `most`.

    shares: of own ones, and of both together. Broken numbers are rounded up or down by chance, both
    by the same. Returns (new state, where shown ones begin, where they end).
    """
    state += STEP
    chance = np.float64(scramble(state) >> np.uint64(32)) * HALF
    wanted, both = np.int64(most * shares[0] + chance), np.int64(most * shares[1] + chance)
    state, own = draw_known(state, mine, had, wanted, member, 1)
    state, more = draw_known(state, impressions, offered, both - wanted, member, 1 + own)
    return state, 1 + own, 1 + own + more


@kernel
def draw_list(
    state, count, taken, blind, member, fresh, first, most, free, first_item, accept, other, order,
    chances, scratch, depth,
):
    """Fill member[first:] up to member[most] with distinct items not taken, or, blind, any items.

    free: how many are not taken; member[fresh:first] are of them, and are not drawn again. Items
    count from first_item on. Returns (new state, the size of the list).
    """
    size = first + (most if blind else min(most + 1 - first, free + fresh - first))
    for m in range(fresh, first):
        taken[member[m] - first_item] = 1
    for m in range(first, size):
        if blind:
            state += STEP
            j = pick(scramble(state), count, accept, other, order, chances, scratch, depth)
        else:
            if other is None and order is None:
                state, j = draw_negative(state, count, taken)
            else:
                state, j = draw_unseen(
                    state, count, taken, accept, other, order, chances, scratch, depth
                )
            taken[j] = 1
        member[m] = first_item + j
    for m in range(fresh, size if not blind else fresh):
        taken[member[m] - first_item] = 0
    return state, size
