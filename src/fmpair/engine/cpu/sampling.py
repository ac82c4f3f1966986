"""Random draws inside a block of items: negatives of every sampler, and dropout of the query."""

from __future__ import annotations

import math

import numpy as np

from fmpair.engine.cpu.pairs import TRIES, draw_negative
from fmpair.engine.strata.sampling_tables import PARTS, PER_DRAW
from fmpair.jit import kernel
from fmpair.rng import STEP, high, scramble

HALF = 1 / 2**32  # converts half a draw to a share


@kernel
def weigh_factors(scratch, order, spread, chances):
    """For adaptive negatives, set chances to running sums of |query| * spread."""
    if order is not None:
        total, last = np.float32(0.0), len(spread) - 1
        for f in range(last):
            total += abs(scratch[0, f]) * spread[f]
            chances[f] = total
        chances[last] = total + spread[last]


@kernel
def pick(draw, count, accept, other, order, chances, scratch, depth):
    """Return an item of the block from one draw of 64 bits, taken or not."""
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
    """Return (new state, an item of the block that is not taken): at random, then by search."""
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
    """Mark a run's items as taken and list each once; return how many there are."""
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
    """List the items of the block shown to a run's user; return how many there are."""
    if len(start) == 0:
        return np.int64(0)
    first, end = start[run], start[run + 1]
    for e in range(first, end):
        impressions[e - first] = item[e]
    return end - first


@kernel
def draw_known(state, listed, count, wanted, member, first):
    """Put up to `wanted` distinct listed items, without the chosen one, into member[first:].

    `listed` is shuffled. Returns (new state, how many were put).
    """
    drawn = 0
    for n in range(min(wanted, count)):
        state += STEP
        other = n + high(scramble(state), np.uint64(count - n))
        listed[n], listed[other] = listed[other], listed[n]
        if listed[n] != member[0]:
            member[first + drawn] = listed[n]
            drawn += 1
    return state, drawn


@kernel
def draw_shares(state, most, shares, mine, had, impressions, offered, member):
    """Fill member[1:] with the user's items and then impressions, about these shares of `most`.

    shares: of own items, and of both together; rounded up or down at random, both by the same draw.
    Returns (new state, where impressions begin, where they end).
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
    """Fill member[first:] up to member[most] with distinct items not taken or, if blind, any items.

    free: how many are not taken; member[fresh:first] are among them and not drawn again. Items
    count from first_item. Returns (new state, the size of the list).
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


@kernel
def drop_anew(state, dropped, kept, scratch):
    """Draw new factors of scratch[0] to drop; return the new random state.

    dropped: out of PARTS. kept: float32 [factors], 0 or the factor by which the rest is scaled up.
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
    """Multiply scratch[0] by `kept`."""
    if dropped > 0:
        for f in range(len(kept)):
            scratch[0, f] *= kept[f]
