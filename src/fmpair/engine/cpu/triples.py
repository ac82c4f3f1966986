"""Terms of order three in the kernel of lists: see `engine.item_side`.

A row of a table is a pair vector followed by a triple vector t. Of a side, A1 is the sum of x t and
A2 the sum of the products of its pairs; the query's vector is [q | A2 | A1] and an item's [p | A1 |
A2], the last parts only where item features form pairs (`ItemTriples`). As in `optimizer`,
arguments that are None do not exist in the compiled code.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Meeting, TripleL2, Triples
from fmpair.jit import FAST, kernel

ONE, HALF, ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)


class QueryTriples(NamedTuple):
    """Arrays of a thread for triples. first: the first column of triple vectors.

    user: the group of users; group: int8, of every row of the cell's query table; meets: see
    `Meeting`. shrink_user, shrink_item, query_shrink, feature_shrink: kept shares per step.
    Buffers: sums, met: float32 [groups, factors], of the features of each group, and of all that
    they form pairs with; square, grad: [factors].
    """

    first: np.int64
    user: np.int64
    group: np.ndarray
    meets: np.ndarray
    shrink_user: np.float32
    shrink_item: np.float32
    query_shrink: np.ndarray
    feature_shrink: np.ndarray
    sums: np.ndarray
    met: np.ndarray
    square: np.ndarray
    grad: np.ndarray


class ItemTriples(NamedTuple):
    """The same for the item side. item: the group of items; group: int8 [item features].

    met: float32 [members, groups, factors]; held: [factors], A1 of the query.
    """

    item: np.int64
    group: np.ndarray
    meets: np.ndarray
    sums: np.ndarray
    met: np.ndarray
    square: np.ndarray
    held: np.ndarray


def query_triples_for(
    triples: Triples, l2: TripleL2, rates: tuple[float, float],
    shares: tuple[np.ndarray, np.ndarray], columns: int,
) -> QueryTriples:
    """Return the arrays of a thread. rates: of users and of items; columns: of the tables.

    shares: kept shares of query features and of item features.
    """
    user, item = (np.float32(1 - rate * side) for rate, side in zip(rates, (l2.user, l2.item)))
    meets = np.ascontiguousarray(triples.query.meets, np.float32)
    buffers, grad = _buffers(triples.query, triples.factors), np.zeros(triples.factors, np.float32)
    groups = (np.int64(triples.query.own), triples.query.group)
    first = np.int64(columns - triples.factors)
    return QueryTriples(first, *groups, meets, user, item, *shares, *buffers, grad)


def item_triples_for(triples: Triples, members: int) -> ItemTriples | None:
    """Return the arrays of a thread; None where item features form no pairs."""
    if not triples.mirrored:
        return None
    sums, met, square = _buffers(triples.item, triples.factors)
    every = np.zeros((members, *met.shape), np.float32)
    held = np.zeros(triples.factors, np.float32)
    meets = np.ascontiguousarray(triples.item.meets, np.float32)
    return ItemTriples(
        np.int64(triples.item.own), triples.item.group, meets, sums, every, square, held
    )


def _buffers(meeting: Meeting, factors: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (len(meeting.meets), factors)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(factors, np.float32)


@kernel(forceinline=True)
def _at(first, c):
    """Return first + c, unsigned: loops over indices that may be negative are not vectorised."""
    return np.uintp(first + c)


@kernel(fastmath=FAST, forceinline=True)
def _add(sums, square, meets, group, x, table, row, first):
    """Add one feature of a side: x times the row's triple vector."""
    alone = meets[group, group]
    for c in range(len(square)):
        part = x * table[row, _at(first, c)]
        sums[group, c] += part
        square[c] += alone * part * part


@kernel(fastmath=FAST, forceinline=True)
def _meet(sums, square, meets, met, target, row, column):
    """Set target[row, column:] to A2 of the features added, and reset sums and square to zero."""
    for g in range(len(sums)):
        for c in range(len(square)):
            met[g, c] = ZERO
        for h in range(len(sums)):
            if meets[g, h] > ZERO:
                for c in range(len(square)):
                    met[g, c] += meets[g, h] * sums[h, c]
    for c in range(len(square)):
        total = -square[c]
        for g in range(len(sums)):
            total += sums[g, c] * met[g, c]
        target[row, _at(column, c)] = HALF * total
        square[c] = ZERO
    for g in range(len(sums)):
        for c in range(len(square)):
            sums[g, c] = ZERO


@kernel(forceinline=True)
def first_column(q_triples):
    """Return the first column of triple vectors, 0 if there are none."""
    if q_triples is None:
        return 0
    return q_triples.first


@kernel(fastmath=FAST, forceinline=True)
def begin_query(q_triples, i_triples, scratch, users, u):
    """Add user u; scratch[0], the sum of the query rows, becomes [q | A1 | A1]."""
    if i_triples is not None:
        first, factors = q_triples.first, len(q_triples.square)
        for f in range(factors):
            scratch[0, _at(first + factors, f)] = scratch[0, _at(first, f)]
    _add(
        q_triples.sums, q_triples.square, q_triples.meets, q_triples.user, ONE, users, u,
        q_triples.first
    )


@kernel(fastmath=FAST, forceinline=True)
def add_features(q_triples, table, start, end, column, value):
    """Add the query features [start, end)."""
    sums, square, meets, group, first = (
        q_triples.sums, q_triples.square, q_triples.meets, q_triples.group, q_triples.first
    )
    for e in range(start, end):
        _add(sums, square, meets, group[column[e]], value[e], table, column[e], first)


@kernel(fastmath=FAST, forceinline=True)
def end_query(q_triples, scratch):
    """Turn scratch[0] into [q | A2 | A1]."""
    _meet(
        q_triples.sums, q_triples.square, q_triples.meets, q_triples.met, scratch, 0,
        q_triples.first
    )


@kernel(forceinline=True)
def meet_query(
    q_triples, i_triples, scratch, users, u, table, p, p_end, p_column, p_value, c, c_end, c_column,
    c_value,
):
    """Set what each feature of a query forms pairs with; scratch[0] becomes [q | A2 | A1]."""
    begin_query(q_triples, i_triples, scratch, users, u)
    add_features(q_triples, table, p, p_end, p_column, p_value)
    add_features(q_triples, table, c, c_end, c_column, c_value)
    end_query(q_triples, scratch)


@kernel(fastmath=FAST, forceinline=True)
def keep_query_sums(q_triples, i_triples, scratch):
    """Keep the query's A1 after dropout: items move along it after scratch[0] has changed."""
    if i_triples is not None:
        held, first = i_triples.held, q_triples.first + len(i_triples.held)
        for f in range(len(held)):
            held[f] = scratch[0, _at(first, f)]


@kernel(fastmath=FAST, forceinline=True)
def meet_item(q_triples, i_triples, scratch, m, items, i, table, start, end, column, value):
    """Append item m's A2 to its sums; return the part of its constant that comes from triples."""
    if q_triples is None:
        return ZERO
    first, factors, lost = q_triples.first, len(q_triples.square), ZERO
    for f in range(factors):
        whole, item_value = scratch[m + 1, _at(first, f)], items[i, _at(first, f)]
        lost += whole * whole - item_value * item_value
    for e in range(start, end):
        x, row = value[e], np.int64(column[e])
        for f in range(factors):
            part = x * table[row, _at(first, f)]
            lost -= part * part
    if i_triples is not None:
        _, group, meets, sums, _, square, _ = i_triples
        _add(sums, square, meets, i_triples.item, ONE, items, i, first)
        for e in range(start, end):
            _add(sums, square, meets, group[column[e]], value[e], table, column[e], first)
        _meet(sums, square, meets, i_triples.met[m], scratch, m + 1, first + factors)
    return HALF * lost


@kernel(fastmath=FAST, forceinline=True)
def turn_triples(q_triples, i_triples, scratch, twice, size):
    """Fix the gradients of items as far as they are the same for all features of an item.

    With pairs within items (twice), triple vectors move along the query's A2 alone.
    """
    if q_triples is None:
        return
    first, factors = q_triples.first, len(q_triples.square)
    for m in range(size):
        if twice > ZERO:
            for f in range(factors):
                scratch[m + 1, _at(first, f)] = scratch[0, _at(first, f)]
        if i_triples is not None:
            for f in range(factors):
                scratch[m + 1, _at(first + factors, f)] = ZERO


@kernel(fastmath=FAST, forceinline=True)
def triple_norms(q_triples, i_triples, scratch, items, member, twice, norm, size):
    """Set norm[m] to the squared length of d score / d item, for items with attributes."""
    if norm is None:
        return
    first, factors = q_triples.first, len(q_triples.square)
    for m in range(size):
        i, total = np.int64(member[m]), ZERO
        for f in range(first):
            grad = scratch[m + 1, f] - twice * items[i, f]
            total += grad * grad
        norm[m] = total
    if i_triples is None:
        for m in range(size):
            for f in range(first, first + factors):
                norm[m] += scratch[m + 1, f] * scratch[m + 1, f]
        return
    group, held, met, alone = _of_items(i_triples)
    for m in range(size):
        i = np.int64(member[m])
        for f in range(factors):
            grad = held[f] * (met[m, group, f] - alone * items[i, _at(first, f)])
            grad += scratch[m + 1, _at(first, f)]
            norm[m] += grad * grad


@kernel(forceinline=True)
def _of_items(i_triples):
    """Return (the group of items, A1 of the query, met, whether items pair with their own group).
    """
    item, _, meets, _, met, _, held = i_triples
    return item, held, met, meets[item, item]


@kernel(fastmath=FAST, forceinline=True)
def move_item(q_triples, i_triples, scratch, items, i, m, kept, kept_triples, gain):
    """Move item i, at position m of the list, along its gradient."""
    first, factors = q_triples.first, len(q_triples.square)
    for f in range(first):
        items[i, f] = kept * items[i, f] + gain * scratch[m + 1, f]
    if i_triples is None:
        for f in range(first, first + factors):
            items[i, f] = kept_triples * items[i, f] + gain * scratch[m + 1, f]
        return
    group, held, met, alone = _of_items(i_triples)
    for f in range(factors):
        old = items[i, _at(first, f)]
        grad = scratch[m + 1, _at(first, f)] + held[f] * (met[m, group, f] - alone * old)
        items[i, _at(first, f)] = kept_triples * old + gain * grad


@kernel(fastmath=FAST, forceinline=True)
def move_row(
    q_triples, i_triples, scratch, table, row, group, x, sums, mean, rate, lost, lost_triples
):
    """Move a user or a query feature of value x along scratch[0], the gradient of the query.

    lost, lost_triples: what regularisation takes from both vectors; sums: AdaGrad's, or None.
    """
    first, grad, met, factors = q_triples.first, q_triples.grad, q_triples.met, len(
        q_triples.square
    )
    alone = q_triples.meets[group, group] * x
    for f in range(factors):
        old = table[row, _at(first, f)]
        grad[f] = x * scratch[0, _at(first, f)] * (met[group, f] - alone * old)
    if i_triples is not None:
        for f in range(factors):
            grad[f] += x * scratch[0, _at(first + factors, f)]
    if sums is not None:
        square = ZERO
        for f in range(first):
            square += x * x * scratch[0, f] * scratch[0, f]
        for f in range(factors):
            square += grad[f] * grad[f]
        sums[row] += mean * square
        own_rate = ONE / math.sqrt(sums[row])
        rate, lost, lost_triples = rate * own_rate, lost * own_rate, lost_triples * own_rate
    kept, kept_triples = max(ONE - lost, ZERO), max(ONE - lost_triples, ZERO)
    for f in range(first):
        table[row, f] = kept * table[row, f] + rate * x * scratch[0, f]
    for f in range(factors):
        table[row, _at(first, f)] = kept_triples * table[row, _at(first, f)] + rate * grad[f]


@kernel(fastmath=FAST, forceinline=True)
def move_attribute(q_triples, i_triples, scratch, table, f, m, gain, up, kept, kept_triples):
    """Move an attribute along the gradient of item m; kept: its share kept before this step.

    up: how much its own vector counts in the gradients of the list, already subtracted from `kept`.
    """
    first, factors = q_triples.first, len(q_triples.square)
    for c in range(first):
        table[f, c] = kept * table[f, c] + gain * scratch[m + 1, c]
    if i_triples is None:
        for c in range(first, first + factors):
            table[f, c] = kept_triples * table[f, c] + gain * scratch[m + 1, c]
        return
    group, held, met = np.int64(i_triples.group[f]), i_triples.held, i_triples.met
    alone = up * i_triples.meets[group, group]
    for c in range(factors):
        old = table[f, _at(first, c)]
        grad = gain * (scratch[m + 1, _at(first, c)] + held[c] * met[m, group, c])
        table[f, _at(first, c)] = (kept_triples - alone * held[c]) * old + grad


@kernel(fastmath=FAST, forceinline=True)
def gather_triples(q_triples, i_triples, grads, f, m, slope):
    """Add the pairs of the item to an attribute's gradient, for AdaGrad."""
    if i_triples is not None:
        first, factors, group = q_triples.first, len(q_triples.square), np.int64(i_triples.group[f])
        held, met = i_triples.held, i_triples.met
        for c in range(factors):
            grads[f, _at(first, c)] += slope * held[c] * met[m, group, c]


@kernel(fastmath=FAST, forceinline=True)
def without_own(q_triples, i_triples, grads, table, f, up):
    """Subtract the attribute's own vector from grads[f]; up: how often it was counted."""
    first = q_triples.first
    for c in range(first):
        grads[f, c] -= up * table[f, c]
    if i_triples is not None:
        group, held, factors = np.int64(i_triples.group[f]), i_triples.held, len(q_triples.square)
        alone = up * i_triples.meets[group, group]
        for c in range(factors):
            grads[f, _at(first, c)] -= alone * held[c] * table[f, _at(first, c)]


@kernel(fastmath=FAST, forceinline=True)
def blend_apart(q_triples, table, f, kept, kept_triples, grads, gain):
    """Set table[f] to its kept shares + gain * grads[f]."""
    first = q_triples.first
    for c in range(first):
        table[f, c] = kept * table[f, c] + gain * grads[f, c]
    for c in range(first, first + len(q_triples.square)):
        table[f, c] = kept_triples * table[f, c] + gain * grads[f, c]
