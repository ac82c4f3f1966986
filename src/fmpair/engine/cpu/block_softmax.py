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
from fmpair.engine.cpu.operands import Query, StepSizes, Tables, Work
from fmpair.engine.cpu.simd import aligned, dot, padded
from fmpair.engine.strata.minibatches import LARGEST, CellEvents
from fmpair.engine.strata.sampling_tables import dropped_parts
from fmpair.jit import FAST, kernel

ROWS = 2  # of scratch: the query, and its gradient


class MinibatchBuffers(NamedTuple):
    """A thread's buffers. Rows are events: queries, gradients, kept (their dropout), [., columns].

    scores: float32, flat, for the scores of all items of the block, which become slopes. moved:
    float32 [items of a block, columns], gradients of items. slope: sums by item; curvature: that
    of the loss in an item's constant, and an upper bound of that in its vector. times: how often
    each was chosen. share, square: by event, its weight and its query's squared length.
    """

    scratch: np.ndarray
    queries: np.ndarray
    gradients: np.ndarray
    kept: np.ndarray
    scores: np.ndarray
    moved: np.ndarray
    slope: np.ndarray
    curvature: tuple[np.ndarray, np.ndarray]
    times: np.ndarray
    share: np.ndarray
    square: np.ndarray


class BlockRule(NamedTuple):
    """Options of a minibatch. raised: see `minibatches.raised_by`. dropped: see `draw_dropout`."""

    raised: np.float32
    dropped: int


def buffers_for(settings: Settings, length: int, columns: int, items: int) -> MinibatchBuffers:
    """Return a thread's buffers. length, columns: of vectors; items: of a block at most."""
    size = LARGEST
    scratch = aligned(np.zeros((ROWS, padded(length)), np.float32))
    queries, gradients = (np.zeros((size, columns), np.float32) for _ in range(2))
    kept = np.ones((size if dropped_parts(settings.dropout) else 1, length), np.float32)
    by_item, by_event = np.zeros((3, items), np.float32), np.zeros((2, size), np.float32)
    return MinibatchBuffers(
        scratch, queries, gradients, kept, np.zeros(size * items, np.float32),
        np.zeros((items, columns), np.float32), by_item[0], (by_item[1], by_item[2]),
        np.zeros(items, np.int64), *by_event,
    )


def run_minibatches(
    events: CellEvents, block: tuple[int, int], state: int, work: Work, tables: Tables,
    query: Query | None, step: StepSizes, l2_scale: tuple, rule: BlockRule,
    buffers: MinibatchBuffers, stopped: np.ndarray, width: object,
) -> tuple[float, int]:
    """Learn from the events of a cell with the items of its block: (sum of losses, steps)."""
    first, end = block
    loss, steps, draws, user = 0.0, 0, np.uint64(state), work.run_user[events.run]
    items = tables.items[first:end]
    for begin in range(0, len(events.event), events.size):
        if stopped[0]:
            break
        some = slice(begin, begin + events.size)
        event, users = events.event[some], user[some]
        chosen, count = work.item[event] - np.int32(first), len(event)
        queries, gradients = buffers.queries[:count], buffers.gradients[:count]
        draws = np.uint64(
            _fill(
                event, users, draws, tables.users, query, work.weight, rule, step, buffers, width
            )
        )
        scores = buffers.scores[: count * len(items)].reshape(count, len(items))
        with np.errstate(over="ignore", invalid="ignore"):  # divergence is found after the epoch
            np.matmul(queries, items.T, out=scores)
            loss += _turn(scores, tables.bias[first:end], chosen, rule, buffers)
            np.matmul(scores, items, out=gradients)
            np.matmul(scores.T, queries, out=buffers.moved[: len(items)])
        _move_items(tables, first, len(items), count, step, l2_scale[1], buffers)
        _move_queries(
            event, users, tables.users, query, rule, step, l2_scale[0], buffers, width
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
def _fill(event, user, state, users, query, weight, rule, step, buffers, width):
    """Build the queries of a minibatch, with dropout; return the random state."""
    scratch, queries, _, kept = buffers[:4]
    share, square = buffers[9:11]
    if query is not None:
        shared, _, _, (_, c_column, c_value), _, (_, p_column, p_value) = query
    for n in range(len(event)):
        e, u = np.int64(event[n]), np.int64(user[n])
        if query is not None:
            p, p_end, c, c_end = _entries(query, e, u)
            sides.build_query(
                scratch, users, u, shared.table, p, p_end, p_column, p_value, c, c_end, c_column,
                c_value, None, None, width
            )
        else:
            sides.build_user(scratch, users, u, None, None, width)
        state = draw_dropout(state, rule.dropped, kept[n if rule.dropped > 0 else 0], scratch)
        share[n] = step_share(weight, e, rule.dropped, step.item_rate, scratch, width)
        square[n] = dot(scratch, 0, scratch, 0, width)
        for f in range(queries.shape[1]):
            queries[n, f] = scratch[0, f]
    return state


@kernel(fastmath=FAST)
def _turn(scores, bias, chosen, rule, buffers):
    """Turn scores into slopes and sum them up by item; return the sum of the losses."""
    slope, (of_constant, of_vector), times, share, square = buffers[6:11]
    count, total_loss = scores.shape[1], 0.0
    for m in range(count):
        slope[m], of_constant[m], of_vector[m], times[m] = ZERO, ZERO, ZERO, 0
    for n in range(len(chosen)):
        f, i = scores[n], chosen[n]
        for m in range(count):
            f[m] += bias[m] + rule.raised
        f[i] -= rule.raised
        most, of_chosen, total = f[0], f[i], ZERO
        for m in range(1, count):
            most = max(most, f[m])
        for m in range(count):
            f[m] = exponential(f[m] - most)
        for m in range(count):
            total += f[m]
        total_loss += math.log(np.float64(total)) + np.float64(most - of_chosen)
        inverse, weight = ONE / total, share[n]
        for m in range(count):
            p = f[m] * inverse
            curvature = weight * p * (ONE - p)
            of_constant[m] += curvature
            of_vector[m] += curvature * square[n]
            f[m] = -weight * p
        f[i] += weight
        for m in range(count):
            slope[m] += f[m]
        times[i] += 1
    return total_loss


@kernel(fastmath=FAST)
def _move_items(tables, first, count, events, step, l2_scale, buffers):
    """Move the items of a block along the sums of their gradients.

    An item that many events of a minibatch rank high could overshoot. So a step is no longer than
    the one to the bottom of a parabola with the curvature of the loss. Regularisation, whose shares
    of many events could be more than the whole row, is implicit.
    """
    moved, slope, (of_constant, of_vector), times = buffers[5:9]
    of_others = ONE / np.float32(max(count - 1, 1))
    for m in range(count):
        i, own = first + m, np.float32(times[m])
        others = (np.float32(events) - own) * of_others
        lost = own * (ONE - step.shrink_positive) + others * (ONE - step.shrink_negative)
        if l2_scale is not None:
            lost *= l2_scale[i]
        share = ONE / max(ONE, step.item_rate * of_vector[m])
        kept, rate = ONE / (ONE + share * lost), share * step.item_rate
        for f in range(moved.shape[1]):
            tables.items[i, f] = kept * tables.items[i, f] + rate * moved[m, f]
        lost = (own + others) * (ONE - step.shrink_bias)
        share = ONE / max(ONE, step.bias_rate * of_constant[m])
        kept, rate = ONE / (ONE + share * lost), share * step.bias_rate
        tables.bias[i] = kept * tables.bias[i] + rate * slope[m]


@kernel
def _move_queries(event, user, users, query, rule, step, l2_scale, buffers, width):
    """Move the users and features of a minibatch, event by event."""
    scratch, _, gradients, kept = buffers[:4]
    none = np.float32(0)
    if query is not None:
        shared, _, _, (_, c_column, c_value), _, (_, p_column, p_value) = query
        table, _, moves, rate, shrink = shared
    for n in range(len(event)):
        e, u = np.int64(event[n]), np.int64(user[n])
        for f in range(gradients.shape[1]):
            scratch[0, f] = gradients[n, f]
        if rule.dropped > 0:
            for f in range(kept.shape[1]):
                scratch[0, f] *= kept[n, f]
        optimizer.move_user(
            scratch, users, u, None, l2_scale, none, step, None, None, width
        )
        if query is not None:
            p, p_end, c, c_end = _entries(query, e, u)
            optimizer.move_query(
                scratch, table, None, none, rate, shrink, moves, p, p_end, p_column, p_value, c,
                c_end, c_column, c_value, None, None, width
            )


KERNELS = (_fill, _turn, _move_items, _move_queries)
