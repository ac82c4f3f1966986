"""The training kernel of every loss and sampler but plain pairs: one cell of the strata plan.

A step scores a chosen item and its candidates against a query built once. The kernel of `pairs` is
the special case of one uniform candidate, and several times as fast.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine import contract
from fmpair.engine.cpu import optimizer, sides
from fmpair.engine.cpu.folded_items import refold, sum_up
from fmpair.engine.cpu.losses import MARGIN, ONE, WARP, ZERO, correct, warp_weight, weigh
from fmpair.engine.cpu.pairs import TRIES, draw_negative
from fmpair.engine.cpu.sides import dots
from fmpair.engine.cpu.simd import dot
from fmpair.engine.cpu.synchronization import load
from fmpair.engine.cpu.triples import first_column, keep_query_sums
from fmpair.engine.strata.sampling_tables import PARTS, PER_DRAW
from fmpair.jit import FAST, kernel
from fmpair.rng import STEP, high, scramble

SHORTEST = np.float32(1e-12)  # added to squared lengths that cosines divide by
STEEPEST = np.float32(contract.STEEPEST)
HALF = 1 / 2**32  # converts half a draw to a share


class Rule(NamedTuple):
    """Options of a step. loss: a number of `losses`; n_negatives: the largest number of candidates.

    sharpness: 1 / temperature for cosines, 0 for products. items: their number in all blocks.
    shares: the share of candidates that are other items of the user, and the share that are either
    these or impressions. dropped: see `draw_dropout`. raised: see `sampling_tables.raised_by`.
    """

    loss: int
    n_negatives: int
    sharpness: np.float32
    items: int
    shares: tuple[float, float]
    dropped: int
    raised: np.float32



@kernel(fastmath=FAST)
def finish(sharpness, score, constant, square, query_square, start, end):
    """Turn products into scores: add constants, or divide by lengths for cosines."""
    for m in range(start, end):
        if sharpness > ZERO:
            square[m] += SHORTEST
            score[m] *= sharpness / math.sqrt(query_square * square[m])
        else:
            score[m] += constant[m]


@kernel(fastmath=FAST)
def settle(sharpness, score, slope, square, query_square, strength, coef, along, own_coef, size):
    """Turn slopes by score into the coefficients of each vector in the gradients.

    A product moves a side p along q + p (without the vector that moves), a cosine moves it along q
    and against p. Returns the coefficient of the query in its own gradient.
    """
    lost = ZERO
    for m in range(size):
        slope[m] *= strength
        coef[m] = slope[m]
    if sharpness > ZERO:  # else along and own are ones, and stay so
        for m in range(size):
            along[m] = sharpness / math.sqrt(query_square * square[m])
            own_coef[m] = -score[m] / square[m]
            lost += slope[m] * score[m] / query_square
            coef[m] *= along[m]
    return lost


@kernel(forceinline=True)
def step_share(weight, e, dropped, rate, scratch, width):
    """Return the weight of event e; less with dropout, whose scaled-up steps could overshoot."""
    share = weight[e] if len(weight) > 0 else ONE
    if dropped > 0:
        share /= ONE + STEEPEST * rate * dot(scratch, 0, scratch, 0, width)
    return share


@kernel(fastmath=FAST)
def run_lists(
    span, walk, block, state, work, tables, query, attributes, folding, sampler, step, l2_scale,
    accumulators, rule, q_triples, i_triples, taken, buffers, width,
):
    """Learn from runs of [span[0], span[1]) with the items [block[0], block[1]).

    walk: the first run and the one after the last; a number beyond the span begins at its first
    run again. taken: as in run_cell. attributes: of items, if every step moves them; folding: if
    items are folded with them; else None.
    l2_scale, accumulators: in partition order, or operands.NO_L2_SCALE and NO_ACCUMULATORS.
    q_triples, i_triples: of both sides, or None. Returns (sum of losses, steps, random state).
    """
    run_user, run_start, event_item, visits, weight = work
    users, items, item_bias = tables
    accept, other, order, spread, depth, log_chance, impression_start, impression_item = sampler
    (
        scratch, rows, member, score, constant, slope, square, coef, along, own_coef, shrink,
        chances, mine, impressions, kept, own_rate, own_l2, norm, grads, triple_shrink, stopped
    ) = buffers
    loss, most, sharpness, all_items, shares, dropped, raised = rule
    user_scale, item_scale = l2_scale
    user_sums, item_sums, q_sums, a_sums, mean, bias = accumulators
    if query is not None:
        shared, situation, first, contexts, user_at, profiles = query
        q_table, _, q_moves, q_rate, q_shrink = shared
        c_start, c_column, c_value = contexts
        p_start, p_column, p_value = profiles
    if attributes is not None:
        (a_table, a_bias, a_moves, a_rate, a_shrink), item_at, item_rows, bias_share = attributes
        a_start, a_column, a_value = item_rows
        gather_up, due = np.zeros(len(a_shrink), np.float32), np.zeros(len(a_shrink), np.float32)
        gather_bias = np.zeros(len(a_shrink), np.float32)
    twice = ZERO if sharpness > ZERO else ONE
    first_item, count = block[0], block[1] - block[0]
    query_square, logs, steps, folded = ONE, 0.0, 0, 0
    for r in range(walk[0], walk[1] + 1):
        folded = refold(
            folding, r, walk, folded, steps, most, scratch, items, item_bias, item_sums, item_scale,
            a_sums, block, twice, width
        )
        if r == walk[1]:
            break
        run = span[0] + r % (span[1] - span[0])
        start, stop = np.int64(run_start[run]), np.int64(run_start[run + 1])
        had = list_own(event_item, start, stop, first_item, taken, mine)
        offered = list_impressions(impression_start, impression_item, run, impressions)
        free, u = 0 if load(stopped, 0) else count - had, np.int64(run_user[run])
        for e in range(start, stop if free > 0 else start):
            for _ in range(1 if len(visits) == 0 else np.int64(visits[e])):
                if query is not None:
                    p, p_end, c, c_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
                    if len(p_column) > 0:
                        p, p_end = p_start[user_at[u]], p_start[user_at[u] + 1]
                    if len(c_column) > 0:
                        at = np.int64(situation[e]) if len(situation) > 0 else e - first
                        c, c_end = c_start[at], c_start[at + 1]
                    sides.build_query(
                        scratch, users, u, q_table, p, p_end, p_column, p_value, c, c_end, c_column,
                        c_value, q_triples, i_triples, width
                    )
                else:
                    sides.build_user(scratch, users, u, q_triples, i_triples, width)
                state = draw_dropout(state, dropped, kept, scratch)
                keep_query_sums(q_triples, i_triples, scratch)
                weigh_factors(scratch, order, spread, chances)
                if sharpness > ZERO or item_sums is not None or folding is not None:
                    query_square = dot(scratch, 0, scratch, 0, width) + SHORTEST
                member[0], fresh, known, tries = event_item[e], 1, 1, 0
                if shares[1] > 0:
                    state, fresh, known = draw_shares(
                        state, most, shares, mine, had, impressions, offered, member
                    )
                state, size = draw_list(
                    state, np.uint64(count), taken, loss == WARP, member, fresh, known, most, free,
                    first_item, accept, other, order, chances, scratch, depth
                )
                # All are scored at once; WARP scores until one violates the margin.
                for n in range(size if loss == WARP else 1):
                    here, end = (n, n + 1) if loss == WARP else (0, size)
                    if attributes is not None:
                        sides.build_sides(
                            scratch, items, item_bias, member, constant, a_table, a_bias, item_at,
                            a_start, a_column, a_value, q_triples, i_triples, here, end, width
                        )
                        dots(scratch, rows, score, square, scratch, sharpness, here, end, width)
                    else:
                        sides.take_constants(item_bias, member, constant, here, end)
                        dots(items, member, score, square, scratch, sharpness, here, end, width)
                    finish(sharpness, score, constant, square, query_square, here, end)
                    if n > 0 and score[0] - score[n] < MARGIN and not taken[member[n] - first_item]:
                        tries = n
                        break
                steps, strength = steps + 1, ONE
                if loss == WARP:
                    if tries == 0:
                        continue
                    size, member[1], score[1], square[1] = 2, member[n], score[n], square[n]
                    sides.bring_up(scratch, i_triples, tries, width)
                    strength = warp_weight(all_items, tries)
                correct(score, constant, log_chance, raised, known, member, first_item, size)
                logs += strength * weigh(loss, constant, slope, size)
                strength *= step_share(weight, e, dropped, step.item_rate, scratch, width)
                lost = settle(
                    sharpness, score, slope, square, query_square, strength, coef, along, own_coef,
                    size
                )
                sum_up(folding, member, slope, score, square, query_square, sharpness, block, size)
                optimizer.turn_list(
                    attributes, scratch, rows, items, member, coef, along, own_coef, lost, twice,
                    q_triples, i_triples, sharpness, score, square, query_square, norm, size, width
                )
                optimizer.shrink_list(
                    item_sums, item_scale, mean, bias, step, member, slope, norm, own_coef,
                    own_rate, own_l2, twice, item_bias, shrink, attributes is None, q_triples,
                    triple_shrink, size
                )
                if attributes is not None:
                    optimizer.move_sides(
                        scratch, items, member, shrink, slope, own_rate, q_triples, i_triples,
                        triple_shrink, size, step.item_rate, width
                    )
                    optimizer.move_listed(
                        scratch, a_table, a_bias, a_sums, mean, a_rate, a_shrink, a_moves, grads,
                        gather_up, gather_bias, due, member, item_at, a_start, a_column, a_value,
                        slope, size, twice, bias_share, q_triples, i_triples, width
                    )
                else:
                    sides.list_step(
                        scratch, items, member, coef, own_rate, shrink, size, step.item_rate,
                        lost, triple_shrink, first_column(q_triples), width
                    )
                drop(scratch, kept, dropped)
                optimizer.move_user(
                    scratch, users, u, user_sums, user_scale, mean, step, q_triples, i_triples,
                    width
                )
                if query is not None:
                    optimizer.move_query(
                        scratch, q_table, q_sums, mean, q_rate, q_shrink, q_moves, p, p_end,
                        p_column, p_value, c, c_end, c_column, c_value, q_triples, i_triples, width
                    )
        release(event_item, start, stop, first_item, taken)
    return logs, steps, state


# Random draws inside a block of items: negatives of every sampler, and dropout of the query.


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
    n_drawn = 0
    for n in range(min(wanted, count)):
        state += STEP
        other = n + high(scramble(state), np.uint64(count - n))
        listed[n], listed[other] = listed[other], listed[n]
        if listed[n] != member[0]:
            member[first + n_drawn] = listed[n]
            n_drawn += 1
    return state, n_drawn


@kernel
def draw_shares(state, most, shares, mine, had, impressions, offered, member):
    """Fill member[1:] with the user's items and then impressions, about these shares of `most`.

    shares: of own items, and of both together; rounded up or down at random, both by the same draw.
    Returns (new state, where impressions begin, where they end).
    """
    state += STEP
    chance = np.float64(scramble(state) >> np.uint64(32)) * HALF
    wanted, both = np.int64(most * shares[0] + chance), np.int64(most * shares[1] + chance)
    state, n_own = draw_known(state, mine, had, wanted, member, 1)
    state, n_shown = draw_known(state, impressions, offered, both - wanted, member, 1 + n_own)
    return state, 1 + n_own, 1 + n_own + n_shown


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
def draw_dropout(state, dropped, kept, scratch):
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
