"""Softmax over all items of a block: the minibatches of one cell of the strata plan.

The scores of a minibatch are one product of matrices, and so are the gradients of its queries and
of the items. Kernels do the rest: they build queries, turn scores into slopes and move the rows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Settings
from fmpair.engine.cpu import optimizer, sides
from fmpair.engine.cpu.lists import draw_dropout, step_share
from fmpair.engine.cpu.losses import ONE, ZERO, exponential
from fmpair.engine.cpu.products import pack, rounded, weighted_sums, with_packed
from fmpair.engine.cpu.simd import assign, blank, dot, padded
from fmpair.engine.cpu.triples import meet_query
from fmpair.engine.strata.minibatches import LARGEST, events_of, raised_by
from fmpair.engine.strata.sampling_tables import dropped_parts
from fmpair.jit import FAST, kernel

ROWS = 2  # of scratch: the query, and its gradient


class MinibatchBuffers(NamedTuple):
    """A thread's buffers. Rows are events: queries, gradients, kept (their dropout), [., columns].

    scores: float32, flat, for the scores of all items of the block, which become slopes. packed:
    see `products.pack`. moved: float32 [items of a block, columns], gradients of items. slope: sums
    by item; curvature: that of the loss in an item's constant, and an upper bound of that in its
    vector. times: how often each was chosen. share, square: by event, its weight and its query's
    squared length.
    """

    scratch: np.ndarray
    queries: np.ndarray
    gradients: np.ndarray
    kept: np.ndarray
    scores: np.ndarray
    packed: np.ndarray
    moved: np.ndarray
    slope: np.ndarray
    curvature: tuple[np.ndarray, np.ndarray]
    times: np.ndarray
    share: np.ndarray
    square: np.ndarray
    stopped: np.ndarray


class BlockRule(NamedTuple):
    """Options of a minibatch. items: see `minibatches.raised_by`; dropped: `draw_dropout`."""

    items: int
    dropped: int


def minibatch_buffers(
    settings: Settings, length: int, items: int, stopped: np.ndarray
) -> MinibatchBuffers:
    """Return a thread's buffers. length: of vectors; items: of a block at most.

    stopped: int64, shared by threads: above 0 to stop.
    """
    columns, size, most = padded(length), rounded(LARGEST), rounded(items)
    kept = np.ones((LARGEST if dropped_parts(settings.dropout) else 1, length), np.float32)
    by_item, by_event = np.zeros((3, items), np.float32), np.zeros((2, LARGEST), np.float32)
    return MinibatchBuffers(
        blank(ROWS, columns), blank(size, columns), blank(size, columns), kept,
        blank(size, most).reshape(-1), blank(most, columns).reshape(-1), blank(most, columns),
        by_item[0], (by_item[1], by_item[2]), np.zeros(items, np.int64), by_event[0], by_event[1],
        stopped,
    )


@kernel
def run_minibatches(
    runs, block, state, work, tables, query, step, l2_scale, rule, q_triples, buffers, width
):
    """Learn from the events of a cell with the items of its block: (sum of losses, steps).

    q_triples: of order three, or None.
    """
    first, items = block[0], block[1] - block[0]
    loss, steps = 0.0, 0
    if runs[0] == runs[1] or items < 2:
        return loss, steps
    of_users, of_items = l2_scale
    queries, gradients, scores, moved = (
        buffers.queries, buffers.gradients, buffers.scores, buffers.moved
    )
    events = events_of(runs, items, work.run_start, work.visits, state)
    raised, row = np.float32(raised_by(rule.items, items)), rounded(items)
    for begin in range(0, len(events.event), events.size):
        if buffers.stopped[0] > 0:
            break
        event = events.event[begin : begin + events.size]
        run, count = events.run[begin : begin + events.size], len(event)
        state = _fill(
            event, run, state, tables.users, query, work, rule, step, q_triples, buffers, width
        )
        pack(tables.items, first, items, buffers.packed)
        with_packed(scores, row, queries, buffers.packed, count, items)
        loss += _turn(scores, row, event, first, items, work.item, tables.bias, raised, buffers)
        weighted_sums(gradients, count, scores, row, 1, tables.items, first, items)
        weighted_sums(moved, items, scores, 1, row, queries, 0, count)
        _move_items(tables, first, items, count, step, of_items, q_triples, buffers)
        _move_queries(
            event, run, work.run_user, tables.users, query, rule, step, of_users, q_triples,
            buffers, width
        )
        steps += count
    return loss, steps


@kernel(forceinline=True)
def _entries(query, e, u):
    """Return the bounds of the attributes of user u and of the context of event e."""
    _, situation, first, contexts, user_at, profiles = query
    p, p_end, c, c_end = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    if len(profiles.column) > 0:
        p, p_end = profiles.start[user_at[u]], profiles.start[user_at[u] + 1]
    if len(contexts.column) > 0:
        at = np.int64(situation[e]) if len(situation) > 0 else e - first
        c, c_end = contexts.start[at], contexts.start[at + 1]
    return p, p_end, c, c_end


@kernel
def _fill(event, run, state, users, query, work, rule, step, q_triples, buffers, width):
    """Build the queries of a minibatch, with dropout; return the random state."""
    scratch, queries, kept = buffers.scratch, buffers.queries, buffers.kept
    if query is not None:
        shared, _, _, (_, c_column, c_value), _, (_, p_column, p_value) = query
    for n in range(len(event)):
        e, u = event[n], np.int64(work.run_user[run[n]])
        if query is not None:
            p, p_end, c, c_end = _entries(query, e, u)
            sides.build_query(
                scratch, users, u, shared.table, p, p_end, p_column, p_value, c, c_end, c_column,
                c_value, q_triples, None, width
            )
        else:
            sides.build_user(scratch, users, u, q_triples, None, width)
        state = draw_dropout(state, rule.dropped, kept[n if rule.dropped > 0 else 0], scratch)
        weight = step_share(work.weight, e, rule.dropped, step.item_rate, scratch, width)
        buffers.share[n], buffers.square[n] = weight, dot(scratch, 0, scratch, 0, width)
        assign(queries, n, scratch, 0, width)
    return state


@kernel(fastmath=FAST)
def _turn(scores, row, event, first, count, item, bias, raised, buffers):
    """Turn scores into slopes and sum them up by item; return the sum of the losses.

    row: columns of the scores, of which `count` are of items. raised: see `minibatches.raised_by`.
    """
    slope, (of_constant, of_vector), times = buffers.slope, buffers.curvature, buffers.times
    total_loss = 0.0
    for m in range(count):
        slope[m], of_constant[m], of_vector[m], times[m] = ZERO, ZERO, ZERO, 0
    for n in range(len(event)):
        f, i = scores[n * row : n * row + count], item[event[n]] - first
        for m in range(count):
            f[m] += bias[first + m] + raised
        f[i] -= raised
        most, of_chosen, total = f[0], f[i], ZERO
        for m in range(1, count):
            most = max(most, f[m])
        for m in range(count):
            f[m] = exponential(f[m] - most)
        for m in range(count):
            total += f[m]
        total_loss += math.log(np.float64(total)) + np.float64(most - of_chosen)
        inverse, weight, square = ONE / total, buffers.share[n], buffers.square[n]
        for m in range(count):
            p = f[m] * inverse
            curvature = weight * p * (ONE - p)
            of_constant[m] += curvature
            of_vector[m] += curvature * square
            f[m] = -weight * p
        f[i] += weight
        for m in range(count):
            slope[m] += f[m]
        times[i] += 1
    return total_loss


@kernel(fastmath=FAST)
def _move_items(tables, first, count, events, step, l2_scale, q_triples, buffers):
    """Move the items of a block along the sums of their gradients.

    An item that many events of a minibatch rank high could overshoot. So a step is no longer than
    the one to the bottom of a parabola with the curvature of the loss. Regularisation, whose shares
    of many events could be more than the whole row, is implicit.
    """
    moved, slope, times = buffers.moved, buffers.slope, buffers.times
    of_constant, of_vector = buffers.curvature
    of_others = ONE / np.float32(max(count - 1, 1))
    pairs = moved.shape[1]
    if q_triples is not None:
        pairs = q_triples.first
    for m in range(count):
        i, own = first + m, np.float32(times[m])
        others = (np.float32(events) - own) * of_others
        lost = own * (ONE - step.shrink_positive) + others * (ONE - step.shrink_negative)
        scale = ONE
        if l2_scale is not None:
            scale = l2_scale[i]
        share = ONE / max(ONE, step.item_rate * of_vector[m])
        kept, rate = ONE / (ONE + share * (lost * scale)), share * step.item_rate
        for f in range(pairs):
            tables.items[i, f] = kept * tables.items[i, f] + rate * moved[m, f]
        if q_triples is not None:
            lost = (own + others) * (ONE - q_triples.shrink_item)
            kept = ONE / (ONE + share * (lost * scale))
            for f in range(pairs, moved.shape[1]):
                tables.items[i, f] = kept * tables.items[i, f] + rate * moved[m, f]
        lost = (own + others) * (ONE - step.shrink_bias)
        share = ONE / max(ONE, step.bias_rate * of_constant[m])
        kept, rate = ONE / (ONE + share * lost), share * step.bias_rate
        tables.bias[i] = kept * tables.bias[i] + rate * slope[m]


@kernel
def _move_queries(
    event, run, run_user, users, query, rule, step, l2_scale, q_triples, buffers, width
):
    """Move the users and features of a minibatch, event by event.

    The pairs that a feature forms are those with the vectors as they are now.
    """
    scratch, gradients, kept = buffers.scratch, buffers.gradients, buffers.kept
    none = np.float32(0)
    if query is not None:
        shared, _, _, (_, c_column, c_value), _, (_, p_column, p_value) = query
        table, _, moves, rate, shrink = shared
    for n in range(len(event)):
        e, u = event[n], np.int64(run_user[run[n]])
        if q_triples is not None:
            if query is not None:
                p, p_end, c, c_end = _entries(query, e, u)
                meet_query(
                    q_triples, None, scratch, users, u, table, p, p_end, p_column, p_value, c,
                    c_end, c_column, c_value
                )
        assign(scratch, 0, gradients, n, width)
        if rule.dropped > 0:
            for f in range(kept.shape[1]):
                scratch[0, f] *= kept[n, f]
        optimizer.move_user(
            scratch, users, u, None, l2_scale, none, step, q_triples, None, width
        )
        if query is not None:
            p, p_end, c, c_end = _entries(query, e, u)
            optimizer.move_query(
                scratch, table, None, none, rate, shrink, moves, p, p_end, p_column, p_value, c,
                c_end, c_column, c_value, q_triples, None, width
            )
