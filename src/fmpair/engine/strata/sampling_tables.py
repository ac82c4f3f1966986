"""Sampling tables of all engines: negatives inside a block, dropout, and when items are folded.

The popularity sampler draws from an alias table. The batch sampler draws the item of an event of
the cell. The adaptive sampler (Rendle and Freudenthaler 2014) draws a factor with a large value
in the query, and then an item that ranks high by this factor.

Unless steps are plain pairs (see `folds`), items are folded with their attributes: the sum of an
item's vectors becomes one vector and one constant, and gradient steps update it as if the item had
no attributes. At intervals, the updates of items are passed on to their attributes, each attribute
is updated once, and the items are folded again. Longer intervals are faster, but steps use older
attribute vectors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.engine.contract import Problem, Settings
from fmpair.engine.strata.partition import Partition
from fmpair.jit import inline, kernel

PARTS = 256  # dropout is rounded to multiples of 1 / PARTS: one byte of a draw decides on a factor
PER_DRAW = 8  # factors that one draw of 64 bits decides on, from its lowest byte on
# The mean number of lists of an item between two foldings. 12 and 24 rank alike; twelve attributes
# per item cost 1.2 to 1.5 and 0.7 times as much as ids alone: docs/LOG.md.
TIMES = 20


class Sampler(NamedTuple):
    """The negatives of one block, or of all blocks in order; all None: uniform.

    accept: uint32, other: int32 [items]: an alias table; other alone: the items of a cell's events.
    order: int32 [factors + 1, items], the items by each factor, lowest first, the last by
    constants; spread: float32 [factors + 1], standard deviations. depth: (mean rank, share of ranks
    inside the block). log_chance: float32 [items], log sampling probabilities up to a constant, or
    empty. impression_start, impression_item: see partition.impressions_by_run, or empty.
    """

    accept: np.ndarray | None = None
    other: np.ndarray | None = None
    order: np.ndarray | None = None
    spread: np.ndarray | None = None
    depth: tuple[float, float] = (1.0, 1.0)
    log_chance: np.ndarray = np.zeros(0, np.float32)
    impression_start: np.ndarray = np.zeros(0, np.int64)
    impression_item: np.ndarray = np.zeros(0, np.int32)


def sampler_of(partition: Partition, times: np.ndarray, settings: Settings) -> Sampler:
    """Return the samplers of all item blocks in order, until the next partition.

    times: [items]. For batch negatives, `other` has an entry per event of the partition.
    """
    edges, sampler = partition.item_edge, Sampler()
    times_in_order = times[partition.item_at[: edges[-1]]]
    if settings.negative_sampler == "popularity":
        weight = times_in_order**settings.drawn_power
        tables = [alias_table(weight[a:b]) for a, b in zip(edges[:-1], edges[1:])]
        accept, other = (np.concatenate(parts) for parts in zip(*tables))
        sampler = Sampler(accept, other)
    if settings.negative_sampler == "batch":
        block = np.searchsorted(edges, partition.item, side="right") - 1
        sampler = Sampler(other=partition.item - edges[block].astype(np.int32))
    if settings.logq_correction and settings.negative_sampler != "uniform":
        sampler = sampler._replace(log_chance=log_chances(times_in_order, settings))
    return sampler


def log_chances(times: np.ndarray, settings: Settings) -> np.ndarray:
    """Return log sampling probabilities of items by their event counts: float32."""
    return (settings.drawn_power * np.log(np.maximum(times, 1))).astype(np.float32)


def raised_by(settings: Settings, items: int) -> float:
    """Return the logQ correction: what is added to the scores of uniform negatives.

    Each negative represents items / n_negatives items in the softmax over all items. Adding the
    logarithm of this number to its score multiplies its exponential by the number.
    """
    if not settings.logq_correction or settings.negative_sampler != "uniform":
        return 0.0
    return math.log(max(items / settings.n_negatives, 1.0))


def alias_table(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (accept uint32, other int32) [items]: keep slot n if half a draw <= accept[n]."""
    size = len(weight)
    accept, other = np.full(size, 2**32 - 1, np.uint32), np.arange(size, dtype=np.int32)
    if weight.max(initial=0) > 0:
        share = weight / weight.max()  # a mean of the tiniest numbers would be zero
        _fill_alias(share / share.mean(), accept, other)
    return accept, other


@kernel
def _fill_alias(share, accept, other):
    """Fill an alias table by Vose's method: long slots fill up short ones."""
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
    """Sort a block's items by each factor and by their constants."""
    if settings.temperature:
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        vectors, constants = vectors / np.maximum(lengths, 1e-6), np.zeros_like(constants)
    table = np.vstack([vectors.T, constants[None]])
    order = np.argsort(table, axis=1).astype(np.int32)
    mean = max(settings.rank_share * len(constants), 1e-9)
    depth = (mean, -math.expm1(-len(constants) / mean))
    return Sampler(order=order, spread=table.std(axis=1).astype(np.float32), depth=depth)


def pieces(runs: int, events: int, items: int) -> np.ndarray:
    """Return the runs of a cell at which the adaptive sampler sorts its items again.

    Their number is chosen so that sorting takes about as long as the steps.
    """
    often = max(round(events / (items * math.log2(items + 1))), 1)
    return np.linspace(0, runs, min(often, max(runs, 1)) + 1).astype(np.int64)


def dropped_parts(dropout: float) -> int:
    """Return how many of PARTS are dropped."""
    return min(round(dropout * PARTS), PARTS - 1)


def folds(problem: Problem, settings: Settings) -> bool:
    """Return whether items are folded with their attributes; if not, every step updates both.

    Plain pairs have their own kernel. Terms of order three need the single features of an item.
    Folded attributes learn from the updates of their items, so the items must not be frozen.
    """
    still = settings.item_rate == 0 and settings.feature_rate > 0
    others = settings.in_plain_pairs or problem.triples is not None or still
    return len(problem.item_rows.column) > 0 and not others


@inline
def steps_between(items, candidates):
    """Return the steps between two foldings of a block."""
    return max(TIMES * items // (candidates + 1), 1)
