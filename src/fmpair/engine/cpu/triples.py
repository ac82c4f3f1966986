"""Terms of order three in the kernel of lists: what `engine.triples` says, a step at a time.

A row of a table is a vector of pairs and then one of triples, t. Of a side, A1 is the sum of x t,
A2 that of the products of all pairs that meet; the query's vector is [q | A2 | A1] and an item's
[p | A1 | A2], the last parts only where two features of an item meet (`Mirror`).

As in `optimizer`, what is None does not exist in the compiled code, and all becomes a part of the
kernel.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Meeting, TripleL2, Triples
from fmpair.jit import FAST, kernel

ONE, HALF, ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)


class Third(NamedTuple):
    """What a thread needs of triples. first: the first column of their vectors.

    user: the group of users; group: int8, that of every row of the cell's query table; meets: see
    `Meeting`. shrink_user, shrink_item, query_shrink, feature_shrink: kept shares of a step.
    The thread's own: sums, met: float32 [groups, factors], of the features of each group, and of
    all that they meet; square, way: [factors].
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
    way: np.ndarray


class Mirror(NamedTuple):
    """The same of the item side. item: the group of items; group: int8 [item features].

    met: float32 [members, groups, factors]; held: [factors], A1 of the query.
    """

    item: np.int64
    group: np.ndarray
    meets: np.ndarray
    sums: np.ndarray
    met: np.ndarray
    square: np.ndarray
    held: np.ndarray


def third_for(
    triples: Triples,
    l2: TripleL2,
    rates: tuple[float, float],
    shares: tuple[np.ndarray, np.ndarray],
    columns: int,
) -> Third:
    """A thread's own. rates: of users and of items; columns: of the tables.

    shares: what a step keeps of the rows of query features, and of item features.
    """
    user, item = (np.float32(1 - rate * own) for rate, own in zip(rates, (l2.user, l2.item)))
    meets = np.ascontiguousarray(triples.query.meets, np.float32)
    rooms, way = _rooms(triples.query, triples.factors), np.zeros(triples.factors, np.float32)
    groups = (np.int64(triples.query.own), triples.query.group)
    first = np.int64(columns - triples.factors)
    return Third(first, *groups, meets, user, item, *shares, *rooms, way)


def mirror_for(triples: Triples, members: int) -> Mirror | None:
    """A thread's own; None where no two features of an item meet."""
    if not triples.mirrored:
        return None
    sums, met, square = _rooms(triples.item, triples.factors)
    every = np.zeros((members, *met.shape), np.float32)
    held = np.zeros(triples.factors, np.float32)
    meets = np.ascontiguousarray(triples.item.meets, np.float32)
    return Mirror(np.int64(triples.item.own), triples.item.group, meets, sums, every, square, held)


def _rooms(meeting: Meeting, factors: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = (len(meeting.meets), factors)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32), np.zeros(factors, np.float32)


@kernel(fastmath=FAST, forceinline=True)
def _add(sums, square, meets, group, x, table, row, first):
    """Take up one feature of a side: x times the row's vector of triples."""
    alone = meets[group, group]
    for c in range(len(square)):
        part = x * table[row, first + c]
        sums[group, c] += part
        square[c] += alone * part * part


@kernel(fastmath=FAST, forceinline=True)
def _meet(sums, square, meets, met, target, row, column):
    """target[row, column:] = A2 of what was taken up; sums and square are zero again."""
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
        target[row, column + c] = HALF * total
        square[c] = ZERO
    for g in range(len(sums)):
        for c in range(len(square)):
            sums[g, c] = ZERO


@kernel(fastmath=FAST, forceinline=True)
def begin_query(third, mirror, scratch, users, u):
    """Take up user u; scratch[0], the sum of the query's rows, becomes [q | A1 | A1]."""
    if mirror is not None:
        first, factors = third.first, len(third.square)
        for f in range(factors):
            scratch[0, first + factors + f] = scratch[0, first + f]
    _add(third.sums, third.square, third.meets, third.user, ONE, users, u, third.first)


@kernel(fastmath=FAST, forceinline=True)
def add_features(third, table, start, end, column, value):
    """Take up the query features [start, end)."""
    sums, square, meets, group, first = (
        third.sums, third.square, third.meets, third.group, third.first
    )
    for e in range(start, end):
        _add(sums, square, meets, group[column[e]], value[e], table, column[e], first)


@kernel(fastmath=FAST, forceinline=True)
def end_query(third, scratch):
    """scratch[0] becomes [q | A2 | A1]."""
    _meet(third.sums, third.square, third.meets, third.met, scratch, 0, third.first)


@kernel(fastmath=FAST, forceinline=True)
def hold(third, mirror, scratch):
    """Keep the query's A1 as dropout has left it: items go along it when scratch[0] has changed."""
    if mirror is not None:
        held, first = mirror.held, third.first + len(mirror.held)
        for f in range(len(held)):
            held[f] = scratch[0, first + f]


@kernel(fastmath=FAST, forceinline=True)
def meet_item(third, mirror, scratch, m, items, i, table, start, end, column, value):
    """Item m's A2 behind its sums; what its pairs' constant must lose, which counted triples too.
    """
    if third is None:
        return ZERO
    first, factors, lost = third.first, len(third.square), ZERO
    for f in range(factors):
        whole, own = scratch[m + 1, first + f], items[i, first + f]
        lost += whole * whole - own * own
    for e in range(start, end):
        x, row = value[e], np.int64(column[e])
        for f in range(factors):
            part = x * table[row, first + f]
            lost -= part * part
    if mirror is not None:
        group, meets, sums, square = mirror.group, mirror.meets, mirror.sums, mirror.square
        _add(sums, square, meets, mirror.item, ONE, items, i, first)
        for e in range(start, end):
            _add(sums, square, meets, group[column[e]], value[e], table, column[e], first)
        _meet(sums, square, meets, mirror.met[m], scratch, m + 1, first + factors)
    return HALF * lost


@kernel(fastmath=FAST, forceinline=True)
def turn_triples(third, mirror, scratch, twice, size):
    """The ways of items as far as they are the same for all of its features.

    Where a way is that of pairs (twice), vectors of triples go along the query's A2 alone.
    """
    if third is None:
        return
    first, factors = third.first, len(third.square)
    for m in range(size):
        if twice > ZERO:
            for f in range(factors):
                scratch[m + 1, first + f] = scratch[0, first + f]
        if mirror is not None:
            for f in range(factors):
                scratch[m + 1, first + factors + f] = ZERO


@kernel(fastmath=FAST, forceinline=True)
def triple_norms(third, mirror, scratch, items, member, twice, norm, size):
    """norm[m]: the squared length of d score / d item, of items with attributes."""
    if norm is None:
        return
    first, factors = third.first, len(third.square)
    for m in range(size):
        i, total = np.int64(member[m]), ZERO
        for f in range(first):
            way = scratch[m + 1, f] - twice * items[i, f]
            total += way * way
        norm[m] = total
    if mirror is None:
        for m in range(size):
            for f in range(first, first + factors):
                norm[m] += scratch[m + 1, f] * scratch[m + 1, f]
        return
    group, held, met, alone = _of_items(mirror)
    for m in range(size):
        i = np.int64(member[m])
        for f in range(factors):
            way = held[f] * (met[m, group, f] - alone * items[i, first + f])
            way += scratch[m + 1, first + f]
            norm[m] += way * way


@kernel(forceinline=True)
def _of_items(mirror):
    """(the group of items, A1 of the query, what is met, whether items meet their own group)."""
    return mirror.item, mirror.held, mirror.met, mirror.meets[mirror.item, mirror.item]


@kernel(fastmath=FAST, forceinline=True)
def move_item(third, mirror, scratch, items, i, m, kept, kept_triples, gain):
    """Item i along its way, where m is its place in the list."""
    first, factors = third.first, len(third.square)
    for f in range(first):
        items[i, f] = kept * items[i, f] + gain * scratch[m + 1, f]
    if mirror is None:
        for f in range(first, first + factors):
            items[i, f] = kept_triples * items[i, f] + gain * scratch[m + 1, f]
        return
    group, held, met, alone = _of_items(mirror)
    for f in range(factors):
        own = items[i, first + f]
        way = scratch[m + 1, first + f] + held[f] * (met[m, group, f] - alone * own)
        items[i, first + f] = kept_triples * own + gain * way


@kernel(fastmath=FAST, forceinline=True)
def move_row(third, mirror, scratch, table, row, group, x, sums, mean, rate, lost, lost_triples):
    """A user or a query feature of value x along scratch[0], the way of the query's vector.

    lost, lost_triples: what regularisation takes of both vectors; sums: AdaGrad's, or None.
    """
    first, way, met, factors = third.first, third.way, third.met, len(third.square)
    alone = third.meets[group, group] * x
    for f in range(factors):
        own = table[row, first + f]
        way[f] = x * scratch[0, first + f] * (met[group, f] - alone * own)
    if mirror is not None:
        for f in range(factors):
            way[f] += x * scratch[0, first + factors + f]
    if sums is not None:
        square = ZERO
        for f in range(first):
            square += x * x * scratch[0, f] * scratch[0, f]
        for f in range(factors):
            square += way[f] * way[f]
        sums[row] += mean * square
        own_rate = ONE / math.sqrt(sums[row])
        rate, lost, lost_triples = rate * own_rate, lost * own_rate, lost_triples * own_rate
    kept, kept_triples = max(ONE - lost, ZERO), max(ONE - lost_triples, ZERO)
    for f in range(first):
        table[row, f] = kept * table[row, f] + rate * x * scratch[0, f]
    for f in range(factors):
        table[row, first + f] = kept_triples * table[row, first + f] + rate * way[f]


@kernel(fastmath=FAST, forceinline=True)
def move_attribute(third, mirror, scratch, table, f, m, gain, up, kept, kept_triples):
    """An attribute along the way of item m; kept: of it, before this step.

    up: what its own vector counts in all ways of the list, which `kept` is less by already.
    """
    first, factors = third.first, len(third.square)
    for c in range(first):
        table[f, c] = kept * table[f, c] + gain * scratch[m + 1, c]
    if mirror is None:
        for c in range(first, first + factors):
            table[f, c] = kept_triples * table[f, c] + gain * scratch[m + 1, c]
        return
    group, held, met = np.int64(mirror.group[f]), mirror.held, mirror.met
    alone = up * mirror.meets[group, group]
    for c in range(factors):
        own = table[f, first + c]
        way = gain * (scratch[m + 1, first + c] + held[c] * met[m, group, c])
        table[f, first + c] = (kept_triples - alone * held[c]) * own + way


@kernel(fastmath=FAST, forceinline=True)
def gather_triples(third, mirror, ways, f, m, slope):
    """What AdaGrad gathers of an attribute's way beside scratch[m + 1]: the pairs of the item."""
    if mirror is not None:
        first, factors, group = third.first, len(third.square), np.int64(mirror.group[f])
        held, met = mirror.held, mirror.met
        for c in range(factors):
            ways[f, first + c] += slope * held[c] * met[m, group, c]


@kernel(fastmath=FAST, forceinline=True)
def without_own(third, mirror, ways, table, f, up):
    """ways[f] less the attribute's own vector; up: how often it was counted."""
    first = third.first
    for c in range(first):
        ways[f, c] -= up * table[f, c]
    if mirror is not None:
        group, held, factors = np.int64(mirror.group[f]), mirror.held, len(third.square)
        alone = up * mirror.meets[group, group]
        for c in range(factors):
            ways[f, first + c] -= alone * held[c] * table[f, first + c]


@kernel(fastmath=FAST, forceinline=True)
def blend_apart(third, table, f, kept, kept_triples, ways, gain):
    """table[f] = its kept shares + gain * ways[f]."""
    first = third.first
    for c in range(first):
        table[f, c] = kept * table[f, c] + gain * ways[f, c]
    for c in range(first, first + len(third.square)):
        table[f, c] = kept_triples * table[f, c] + gain * ways[f, c]
