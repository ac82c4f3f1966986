"""Where negatives come from, inside a block of items: uniform, by popularity, batch, or adaptive.

Popularity draws from an alias table, batch an event of the cell. Adaptive (Rendle and Freudenthaler
2014) draws a factor that matters to the query, and an item that stands high by that factor: one the
query now likes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fmpair.arrays import Rows
from fmpair.engine.draws import high, scramble
from fmpair.engine.kernel import GOLDEN, TRIES, draw_negative
from fmpair.engine.plan import Deal
from fmpair.engine.problem import Settings

HALF = 1 / 2**32  # one unit of half a draw, as a share


class Sampler(NamedTuple):
    """The negatives of one block; all None: uniform.

    accept: uint32, other: int32 [items]: an alias table; other alone: the items of a cell's events,
    one of which is drawn. order: int32 [factors + 1, items], the items by each factor, lowest
    first, the last by their constants; spread: float32 [factors + 1], standard deviations.
    depth: (mean rank, share of ranks inside the block). log_chance: float32 [items], logarithms of
    how often each is drawn, up to a constant, where scores are corrected by them; else empty.
    shown_start, shown_item: see plan.shown_by_run; empty where nothing shown is drawn.
    """

    accept: np.ndarray | None = None
    other: np.ndarray | None = None
    order: np.ndarray | None = None
    spread: np.ndarray | None = None
    depth: tuple[float, float] = (1.0, 1.0)
    log_chance: np.ndarray = np.zeros(0, np.float32)
    shown_start: np.ndarray = np.zeros(0, np.int64)
    shown_item: np.ndarray = np.zeros(0, np.int32)


def alias_table(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(accept uint32, other int32) [items]: keep slot n where half a draw is below accept[n]."""
    size = len(weight)
    accept, other = np.full(size, 2**32 - 1, np.uint32), np.arange(size, dtype=np.int32)
    if weight.max(initial=0) > 0:
        share = weight / weight.max()  # a mean of the tiniest numbers would be zero
        _fill_alias(share / share.mean(), accept, other)
    return accept, other


def samplers(deal: Deal, times: np.ndarray, settings: Settings) -> list[Sampler]:
    """The sampler of every item block as it stands until the next deal; times: [items]."""
    found, edges = [], deal.item_edge
    for a, b in zip(edges[:-1], edges[1:]):
        own, sampler = times[deal.item_at[a:b]], Sampler()
        if settings.negatives == "popularity":
            sampler = Sampler(*alias_table(own**settings.drawn_power))
        if settings.correction:
            sampler = sampler._replace(log_chance=log_chances(own, settings))
        found.append(sampler)
    return found


def log_chances(times: np.ndarray, settings: Settings) -> np.ndarray:
    """Logarithms of how often items with so many events are drawn, up to a constant: float32."""
    return (settings.drawn_power * np.log(np.maximum(times, 1))).astype(np.float32)


@njit(cache=True, nogil=True)
def _fill_alias(share, accept, other):
    """Vose's way: slots that are short are filled up by one that has more than it needs."""
    short, long = np.empty(len(share), np.int64), np.empty(len(share), np.int64)
    shorts, longs = 0, 0
    for n in range(len(share)):
        if share[n] < 1:
            short[shorts] = n
            shorts += 1
        else:
            long[longs] = n
            longs += 1
    while shorts > 0 and longs > 0:
        shorts -= 1
        low_one, high_one = short[shorts], long[longs - 1]
        accept[low_one] = np.uint32(share[low_one] * 4294967295.0)
        other[low_one] = high_one
        share[high_one] -= 1 - share[low_one]
        if share[high_one] < 1:
            longs -= 1
            short[shorts] = high_one
            shorts += 1


def ordering(vectors: np.ndarray, constants: np.ndarray, settings: Settings) -> Sampler:
    """A block's items by each factor and by their constants, as they are now."""
    if settings.temperature:
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        vectors, constants = vectors / np.maximum(lengths, 1e-6), np.zeros_like(constants)
    table = np.vstack([vectors.T, constants[None]])
    order = np.argsort(table, axis=1).astype(np.int32)
    mean = max(settings.rank_share * len(constants), 1e-9)
    depth = (mean, -math.expm1(-len(constants) / mean))
    return Sampler(order=order, spread=table.std(axis=1).astype(np.float32), depth=depth)


def item_sides(
    items: np.ndarray, bias: np.ndarray, rows: Rows, table: np.ndarray, table_bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(vectors [items, factors], constants [items]) of items with the attributes `rows`."""
    vectors = items + rows.dot(table)
    squares = (table * table).sum(axis=1, keepdims=True)
    alone = (items * items).sum(axis=1) + rows._replace(value=rows.value**2).dot(squares)[:, 0]
    pairs = 0.5 * ((vectors * vectors).sum(axis=1) - alone)
    return vectors, bias + rows.dot(table_bias[:, None])[:, 0] + pairs


def pieces(runs: int, events: int, items: int) -> np.ndarray:
    """Edges in a cell's walk of `runs` at which its items are ordered anew: int64.

    About every items * log2(items) events, which is what ordering by one factor costs.
    """
    often = max(round(events / (items * math.log2(items + 1))), 1)
    return np.linspace(0, runs, min(often, max(runs, 1)) + 1).astype(np.int64)


@njit(nogil=True, cache=True)
def weigh_factors(scratch, order, spread, chances):
    """Where items are ordered, chances: running sums of |query| * spread, the constants' last."""
    if order is not None:
        total, last = np.float32(0.0), len(spread) - 1
        for f in range(last):
            total += abs(scratch[0, f]) * spread[f]
            chances[f] = total
        chances[last] = total + spread[last]


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def draw_unseen(state, count, taken, accept, other, order, chances, scratch, depth):
    """(new state, an item of the block that is not taken): tried at random, then searched."""
    j = 0
    for _ in range(TRIES):
        state += GOLDEN
        j = pick(scramble(state), count, accept, other, order, chances, scratch, depth)
        if not taken[j]:
            return state, j
    while taken[j]:
        j = j + 1 if j + 1 < np.int64(count) else 0
    return state, j


@njit(nogil=True, cache=True)
def list_own(item, start, end, first_item, taken, mine):
    """Mark a run's items as taken and list each once; how many there are."""
    count = 0
    for e in range(start, end):
        if not taken[item[e] - first_item]:
            taken[item[e] - first_item] = 1
            mine[count] = item[e]
            count += 1
    return count


@njit(nogil=True, cache=True)
def release(item, start, end, first_item, taken):
    """Mark a run's items as free again."""
    for e in range(start, end):
        taken[item[e] - first_item] = 0


@njit(nogil=True, cache=True)
def list_shown(start, item, run, shown):
    """List the items of its block that a run's user was shown; how many there are."""
    if len(start) == 0:
        return np.int64(0)
    first, end = start[run], start[run + 1]
    for e in range(first, end):
        shown[e - first] = item[e]
    return end - first


@njit(nogil=True, cache=True)
def draw_known(state, listed, count, wanted, member, first):
    """Put `wanted` of the `count` listed items into member[first:], but for the chosen one.

    Returns (new state, how many were put). They are distinct; `listed` is shuffled.
    """
    drawn = 0
    for n in range(min(wanted, count)):
        state += GOLDEN
        place = n + high(scramble(state), np.uint64(count - n))
        listed[n], listed[place] = listed[place], listed[n]
        if listed[n] != member[0]:
            member[first + drawn] = listed[n]
            drawn += 1
    return state, drawn


@njit(nogil=True, cache=True)
def draw_shares(state, most, shares, mine, had, shown, offered, member):
    """Fill member[1:] with own items and then shown ones, about these shares of `most`.

    shares: of own ones, and of both together. Broken numbers are rounded up or down by chance, both
    by the same. Returns (new state, where shown ones begin, where they end).
    """
    state += GOLDEN
    chance = np.float64(scramble(state) >> np.uint64(32)) * HALF
    wanted, both = np.int64(most * shares[0] + chance), np.int64(most * shares[1] + chance)
    state, own = draw_known(state, mine, had, wanted, member, 1)
    state, more = draw_known(state, shown, offered, both - wanted, member, 1 + own)
    return state, 1 + own, 1 + own + more


@njit(nogil=True, cache=True)
def draw_list(state, count, taken, blind, member, fresh, first, most, free, first_item, accept,
              other, order, chances, scratch, depth):  # fmt: skip
    """Fill member[first:] up to member[most] with distinct items not taken, or, blind, any items.

    free: how many are not taken; member[fresh:first] are of them, and are not drawn again. Items
    count from first_item on. Returns (new state, the size of the list).
    """
    size = first + (most if blind else min(most + 1 - first, free + fresh - first))
    for m in range(fresh, first):
        taken[member[m] - first_item] = 1
    for m in range(first, size):
        if blind:
            state += GOLDEN
            j = pick(scramble(state), count, accept, other, order, chances, scratch, depth)
        else:
            if other is None and order is None:
                state, j = draw_negative(state, count, taken)
            else:
                state, j = draw_unseen(state, count, taken, accept, other, order, chances, scratch,
                                       depth)  # fmt: skip
            taken[j] = 1
        member[m] = first_item + j
    for m in range(fresh, size if not blind else fresh):
        taken[member[m] - first_item] = 0
    return state, size
