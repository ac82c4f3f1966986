"""A thread's share of an epoch in compiled code: its cells of every round, and merging.

Named tuples with the copies of all cells come in; the functions with a leading underscore select
the part of one cell. Parts that are None stay None, and so do not exist in the compiled code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from fmpair.engine.cpu.block_softmax import run_minibatches
from fmpair.engine.cpu.folded_items import FoldedItems
from fmpair.engine.cpu.layout import repartition_share, share_of
from fmpair.engine.cpu.lists import run_lists
from fmpair.engine.cpu.operands import Attributes, Query, Shared, StepSizes
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.synchronization import LINE, barrier, store, wait_for_cell, wait_for_epoch
from fmpair.engine.cpu.worker import QueryPiece
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.sampling_tables import Sampler
from fmpair.jit import kernel, unless_none
from fmpair.rng import STEP, high, scramble


class ThreadShare(NamedTuple):
    """A thread's share of the user blocks: neighbours, which pass item blocks to each other."""

    number: int
    threads: int


class EpochPlan(NamedTuple):
    """The cells of an epoch. cell, item_edge: see `Partition`; state: uint64, random state by cell.

    loss: float64, steps: int64: by cell, written when it is done. turns: int64 [3], the first
    round, the one after the last, and 1 to merge shared tables after each.
    """

    cell: np.ndarray
    item_edge: np.ndarray
    state: np.ndarray
    loss: np.ndarray
    steps: np.ndarray
    turns: np.ndarray


@kernel
def run_pair_epochs(
    part, epoch, plan, sync, repartition, work, tables, query, attributes, rates, taken, scratch,
    width
):
    """Run epochs of plain pairs as they are called, beginning with `epoch`.

    repartition: for partitions made here, or None. rates: float32, the values of `StepSizes`, which
    change in every epoch.
    """
    going = True
    while going:
        if repartition is not None:
            repartition_share(part, sync.stopped, repartition, tables)
        step = StepSizes(rates[0], rates[1], rates[2], rates[3], rates[4], rates[5], rates[6])
        _run_pair_rounds(
            part, epoch, plan, sync, work, tables, query, attributes, step, taken, scratch, width
        )
        going = wait_for_epoch(sync, part.number, epoch)
        epoch += 1


@kernel
def _run_pair_rounds(
    part, epoch, plan, sync, work, tables, query, attributes, step, taken, scratch, width
):
    """Run the rounds of one epoch, see `run_cell`; rounds are counted on from epoch to epoch."""
    cell, edge, state, loss, steps, turns = plan
    blocks = len(edge) - 1
    rows, before = share_of(blocks, part), (epoch - 1) * blocks
    for turn in range(before + turns[0], before + turns[1]):
        for row in range(rows[0], rows[1]):
            if not wait_for_cell(sync, row, turn):
                return
            column = (row + turn) % blocks
            at = row * blocks + column
            loss[at], steps[at] = run_cell(
                (cell[at], cell[at + 1]), (edge[column], edge[column + 1]), state[at], work, tables,
                _query(query, row), _attributes(attributes, row), step, taken, scratch, width,
            )
            store(sync.done, row * LINE, turn + 1)
        if turns[2] and not _merge_round(sync, part, turn, query, attributes, None, None):
            return


@kernel
def run_list_rounds(
    part, plan, sync, work, tables, query, attributes, folding, sampler, step, l2_scale,
    accumulators, rule, q_triples, i_triples, taken, buffers, width,
):
    """Run an epoch of lists, see `run_lists`; sampler: that of all blocks."""
    cell, edge, state, losses, steps, turns = plan
    user_sums, item_sums, q_sums, a_sums, mean, bias = accumulators
    blocks = len(edge) - 1
    rows = share_of(blocks, part)
    for turn in range(turns[0], turns[1]):
        for row in range(rows[0], rows[1]):
            if not wait_for_cell(sync, row, turn):
                return
            column = (row + turn) % blocks
            at = row * blocks + column
            first, end, draws = cell[at], cell[at + 1], state[at] + STEP
            block = (edge[column], edge[column + 1])
            events = (work.run_start[first], work.run_start[end])
            offset = high(scramble(draws), np.uint64(end - first))
            of_items = _attributes(attributes, row)
            losses[at], steps[at], _ = run_lists(
                (first, end), (offset, offset + end - first), block, draws, work, tables,
                _query(query, row), _in_steps(folding, of_items), _folding(folding, of_items),
                _sampler(sampler, block, events), step, l2_scale,
                Accumulators(
                    user_sums, item_sums, _row(q_sums, row), _row(a_sums, row), mean, bias
                ),
                rule, q_triples, i_triples, taken, buffers, width,
            )
            store(sync.done, row * LINE, turn + 1)
        if turns[2] and not _merge_round(sync, part, turn, query, attributes, q_sums, a_sums):
            return


@kernel
def run_block_rounds(
    part, plan, sync, work, tables, query, step, l2_scale, rule, buffers, width
):
    """Run an epoch of minibatches, see `run_minibatches`."""
    cell, edge, state, losses, steps, turns = plan
    blocks = len(edge) - 1
    rows = share_of(blocks, part)
    for turn in range(turns[0], turns[1]):
        for row in range(rows[0], rows[1]):
            if not wait_for_cell(sync, row, turn):
                return
            column = (row + turn) % blocks
            at = row * blocks + column
            losses[at], steps[at] = run_minibatches(
                (cell[at], cell[at + 1]), (edge[column], edge[column + 1]), state[at], work, tables,
                _query(query, row), step, l2_scale, rule, None, buffers, width,
            )
            store(sync.done, row * LINE, turn + 1)
        if turns[2] and not _merge_round(sync, part, turn, query, None, None, None):
            return


@kernel
def _merge_round(sync, part, turn, query, attributes, q_sums, a_sums):
    """Merge the shared tables after a round, all threads together; return False to stop."""
    if query is None:
        if attributes is None:
            return True
    if not barrier(sync.arrived, sync.stopped, part.threads, 2 * turn + 1):
        return False
    _merge(query, q_sums, part)
    _merge(attributes, a_sums, part)
    return barrier(sync.arrived, sync.stopped, part.threads, 2 * turn + 2)


@kernel
def _merge(side, sums, part):
    """Merge a thread's share of the rows of a shared table, if there is one."""
    if side is not None:
        rows = share_of(side.shared.table.shape[1], part)
        merge(side.shared, sums, rows[0], rows[1])


@kernel
def merge(copies, accumulators, first, end):
    """Replace the rows [first, end) by the mean of their copies, weighted by their moves.

    accumulators: AdaGrad's, [copies, rows], merged alike, or None. The copies are summed in order,
    so the result does not depend on the threads. In loops, which compile in a fifth of the time of
    whole rows.
    """
    table, bias, moves = copies.table, copies.bias, copies.moves
    mean = np.empty(table.shape[2], np.float32)
    share = np.empty(len(table), np.float32)
    for row in range(first, end):
        total = moves[:, row].sum()
        if total == 0:
            continue
        mean[:] = 0
        for n in range(len(table)):
            share[n] = moves[n, row] / total
            moves[n, row] = 0
            if share[n] > 0:
                for c in range(len(mean)):
                    mean[c] += share[n] * table[n, row, c]
        for n in range(len(table)):
            for c in range(len(mean)):
                table[n, row, c] = mean[c]
        if bias.shape[1] > 0:
            _merge_numbers(bias, row, share)
        if accumulators is not None:
            _merge_numbers(accumulators, row, share)


@kernel
def _merge_numbers(numbers, row, share):
    """Replace numbers[:, row] by their mean, weighted by share."""
    mean = np.float32(0)
    for n in range(len(share)):
        if share[n] > 0:
            mean += share[n] * numbers[n, row]
    for n in range(len(share)):
        numbers[n, row] = mean


def merge_pieces(
    whole: Shared, accumulators: np.ndarray | None, pieces: list[QueryPiece], threads: int,
    each: Callable[..., Iterable[None]],
) -> None:
    """Merge a table of which each cell had a part; accumulators: of all rows, or None.

    each: `map`, or that of `threads` threads.
    """
    moves, begun = np.zeros(len(whole.table), np.int64), np.zeros((2, len(whole.table)), np.bool_)
    for piece in pieces:
        np.add.at(moves, piece.feature, piece.shared.moves)
    shares = [
        (piece.shared.moves / np.maximum(moves[piece.feature], 1)).astype(np.float32)
        for piece in pieces
    ]

    def merge_rows(number: int) -> None:
        rows = share_of(len(moves), ThreadShare(number, threads))
        for piece, share in zip(pieces, shares):
            _add(whole.table, piece.feature, piece.shared.table, share, begun[0], *rows)
            if accumulators is not None:
                sums = (accumulators.reshape(-1, 1), piece.accumulators.reshape(-1, 1))
                _add(sums[0], piece.feature, sums[1], share, begun[1], *rows)

    list(each(merge_rows, range(threads)))


@kernel
def _add(table, feature, part, share, begun, first, end):
    """Set table[feature] to share * part, or add to it where another part has begun it.

    Changes the rows [first, end) of the table only.
    """
    for n in range(len(feature)):
        f = feature[n]
        if share[n] > 0 and first <= f < end:
            if begun[f]:
                for c in range(table.shape[1]):
                    table[f, c] += share[n] * part[n, c]
            else:
                for c in range(table.shape[1]):
                    table[f, c] = share[n] * part[n, c]
            begun[f] = True


@kernel
def _shared(copies, n):
    return Shared(copies.table[n], copies.bias[n], copies.moves[n], copies.rate, copies.shrink)


def _nothing(part, *_):
    return None


def _query_of(query, n):
    copies, situation, first, contexts, user_at, profiles = query
    return Query(_shared(copies, n), situation, first, contexts, user_at, profiles)


def _attributes_of(attributes, n):
    copies, item_at, rows, bias_share = attributes
    return Attributes(_shared(copies, n), item_at, rows, bias_share)


def _folding_of(folding, attributes):
    _, step, item_rows, start, tally, ways, sums, touched, joint = folding
    return FoldedItems(attributes, step, item_rows, start, tally, ways, sums, touched, joint)


# Parts of one cell, or None. _query, _attributes: a side with the cell's copy of its table.
_query = unless_none(_query_of, _nothing)
_attributes = unless_none(_attributes_of, _nothing)
_folding = unless_none(_folding_of, _nothing)
_row = unless_none(lambda table, n: table[n], _nothing)
_between = unless_none(lambda numbers, first, end: numbers[first:end], _nothing)
# The attributes if every step moves them, None if items are folded with them.
_in_steps = unless_none(_nothing, lambda folding, attributes: attributes)
# Numbers by items of the block for alias tables (accept), else by events of the cell.
_others = unless_none(
    lambda accept, other, block, events: _between(other, block[0], block[1]),
    lambda accept, other, block, events: _between(other, events[0], events[1]),
)


@kernel
def _sampler(sampler, block, events):
    """Return the sampler of a cell; events: the bounds of its events."""
    accept, other, _, _, depth, log_chance, impression_start, impression_item = sampler
    return Sampler(
        _between(accept, block[0], block[1]), _others(accept, other, block, events), None, None,
        depth, log_chance[block[0] : block[1]], impression_start, impression_item,
    )
