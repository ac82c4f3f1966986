"""A thread's part of an epoch, without the interpreter: its cells of every round in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.engine.cpu.folded_items import Folding
from fmpair.engine.cpu.layout import deal, share_of
from fmpair.engine.cpu.lists import run_lists
from fmpair.engine.cpu.operands import Attributes, Query, Shared, Step
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.synchronization import LINE, goes_on, meet, tell, wait_for_cell
from fmpair.engine.cpu.worker import Piece
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.sampling_tables import Sampler
from fmpair.jit import kernel
from fmpair.rng import STEP, high, scramble

# Bringing the cells' copies of a shared table together after a round.


@kernel
def merge(copies, accumulators, first, end):
    """The rows [first, end) become the mean of their copies, weighted by how often each moved.

    accumulators: the copies' own of AdaGrad, [copies, rows], which are merged alike (a row has come
    as far as the mean of its copies, and is to go on from there), or None.
    In the order of the copies, so that the result does not depend on who ran what.
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
                mean += share[n] * table[n, row]
        table[:, row] = mean
        if bias.shape[1] > 0:
            _merge_numbers(bias, row, share)
        if accumulators is not None:
            _merge_numbers(accumulators, row, share)


@kernel
def _merge_numbers(numbers, row, share):
    """numbers[:, row] become their mean by the given shares."""
    mean = np.float32(0)
    for n in range(len(share)):
        if share[n] > 0:
            mean += share[n] * numbers[n, row]
    numbers[:, row] = mean


def merge_pieces(whole: Shared, accumulators: np.ndarray | None, pieces: list[Piece]) -> None:
    """The same of a table of which cells had a part each; accumulators: of all its rows."""
    moves = np.zeros(len(whole.table), np.int64)
    for piece in pieces:
        np.add.at(moves, piece.feature, piece.shared.moves)
    begun = np.zeros(len(moves), np.bool_)
    for piece in pieces:
        share = piece.shared.moves / np.maximum(moves[piece.feature], 1)
        _add(whole.table, piece.feature, piece.shared.table, share.astype(np.float32), begun)
    if accumulators is None:
        return
    begun[:] = False
    for piece in pieces:
        share = piece.shared.moves / np.maximum(moves[piece.feature], 1)
        assert piece.accumulators is not None
        sums = (accumulators.reshape(-1, 1), piece.accumulators.reshape(-1, 1))
        _add(sums[0], piece.feature, sums[1], share.astype(np.float32), begun)


@kernel
def _add(table, feature, part, share, begun):
    """table[feature] becomes share * part, or more by that where another part has begun it."""
    for n in range(len(feature)):
        if share[n] > 0:
            f = feature[n]
            for c in range(table.shape[1]):
                kept = table[f, c] if begun[f] else np.float32(0)
                table[f, c] = kept + share[n] * part[n, c]
            begun[f] = True


class Part(NamedTuple):
    """A thread's part of a round: its share of the user blocks, one of so many.

    They are neighbours, so that an item block mostly goes on to a cell of the same thread.
    """

    number: int
    threads: int


class Plan(NamedTuple):
    """An epoch's cells. cell, item_edge: see `Partition`; state: uint64, of each cell's draws.

    loss: float64, steps: int64: of each cell, written when it is done. turns: int64 [3], from which
    round to which, and 1 where shared tables are merged after each, else 0.
    """

    cell: np.ndarray
    item_edge: np.ndarray
    state: np.ndarray
    loss: np.ndarray
    steps: np.ndarray
    turns: np.ndarray


@kernel
def _shared(copies, n):
    return Shared(copies.table[n], copies.bias[n], copies.moves[n], copies.rate, copies.shrink)


@kernel
def _query(query, n):
    """The query side of a cell, from one that has all copies of its table."""
    if query is None:
        return None
    copies, situation, first, contexts, user_at, profiles = query
    return Query(_shared(copies, n), situation, first, contexts, user_at, profiles)


@kernel
def _attributes(attributes, n):
    """The same of the item side."""
    if attributes is None:
        return None
    copies, item_at, rows, bias_share = attributes
    return Attributes(_shared(copies, n), item_at, rows, bias_share)


@kernel
def _in_steps(attributes, folding):
    """The attributes of a cell where they move in every step, else None."""
    if folding is None:
        return attributes
    return None


@kernel
def _folding(folding, attributes):
    """The folding of a cell with these attributes, or None."""
    if folding is None:
        return None
    _, step, own, start, tally, ways, sums, touched = folding
    return Folding(attributes, step, own, start, tally, ways, sums, touched)


@kernel
def _row(table, n):
    """table[n], or None of none."""
    if table is None:
        return None
    return table[n]


@kernel
def _between(numbers, first, end):
    """numbers[first:end], or None of none."""
    if numbers is None:
        return None
    return numbers[first:end]


@kernel
def _others(sampler, block, events):
    """An alias table goes by the items of a block; without one, events of the cell are drawn."""
    if sampler.accept is None:
        return _between(sampler.other, events[0], events[1])
    return _between(sampler.other, block[0], block[1])


@kernel
def _sampler(sampler, block, events):
    """The negatives of a cell, from those of all; events: of the cell, from which to which."""
    accept, _, _, _, depth, log_chance, impression_start, impression_item = sampler
    return Sampler(
        _between(accept, block[0], block[1]), _others(sampler, block, events), None, None, depth,
        log_chance[block[0] : block[1]], impression_start, impression_item,
    )


@kernel
def _merge(side, sums, part):
    """A thread's share of the rows of a shared table, if there is one."""
    if side is not None:
        rows = share_of(side.shared.table.shape[1], part)
        merge(side.shared, sums, rows[0], rows[1])


@kernel
def _merge_round(flow, part, turn, query, attributes, q_sums, a_sums):
    """Merge the shared tables after a round, all threads together; False where all shall stop."""
    if query is None:
        if attributes is None:
            return True
    if not meet(flow.arrived, flow.stopped, part.threads, 2 * turn + 1):
        return False
    _merge(query, q_sums, part)
    _merge(attributes, a_sums, part)
    return meet(flow.arrived, flow.stopped, part.threads, 2 * turn + 2)


@kernel
def run_pair_epochs(
    part, epoch, plan, flow, dealing, work, tables, query, attributes, rates, taken, scratch, width
):
    """The cells of plain pairs, epoch after epoch as they are called, from the given one on.

    dealing: of the partitions that are made here, None where there are none. rates: float32, the
    numbers of a `Step`, other ones in every epoch.
    """
    going = True
    while going:
        if dealing is not None:
            deal(part, flow.stopped, dealing, tables)
        step = Step(
            rates[0], rates[1], rates[2], rates[3], rates[4], rates[5], rates[6]
        )
        _run_pair_rounds(
            part, epoch, plan, flow, work, tables, query, attributes, step, taken, scratch, width
        )
        going = goes_on(flow, part.number, epoch)
        epoch += 1


@kernel
def _run_pair_rounds(
    part, epoch, plan, flow, work, tables, query, attributes, step, taken, scratch, width
):
    """An epoch's, see `run_cell`; query, attributes: with all copies of tables.

    Rounds are counted on from epoch to epoch, so that no counter need be set back.
    """
    cell, edge, state, loss, steps, turns = plan
    blocks = len(edge) - 1
    own, before = share_of(blocks, part), (epoch - 1) * blocks
    for turn in range(before + turns[0], before + turns[1]):
        for row in range(own[0], own[1]):
            if not wait_for_cell(flow, row, turn):
                return
            column = (row + turn) % blocks
            at = row * blocks + column
            loss[at], steps[at] = run_cell(
                (cell[at], cell[at + 1]), (edge[column], edge[column + 1]), state[at], work, tables,
                _query(query, row), _attributes(attributes, row), step, taken, scratch, width,
            )
            tell(flow.done, row * LINE, turn + 1)
        if turns[2] and not _merge_round(flow, part, turn, query, attributes, None, None):
            return


@kernel
def run_list_rounds(
    part, plan, flow, work, tables, query, attributes, folding, sampler, step, l2_scale,
    accumulators, rule, third, mirror, border, taken, room, width,
):
    """The cells of lists, see `run_lists`; sampler: that of all blocks. As run_pair_rounds."""
    cell, edge, state, losses, steps, turns = plan
    user_sums, item_sums, q_sums, a_sums, mean, bias = accumulators
    blocks = len(edge) - 1
    own = share_of(blocks, part)
    for turn in range(turns[0], turns[1]):
        for row in range(own[0], own[1]):
            if not wait_for_cell(flow, row, turn):
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
                _query(query, row), _in_steps(of_items, folding), _folding(folding, of_items),
                _sampler(sampler, block, events), step, l2_scale,
                Accumulators(
                    user_sums, item_sums, _row(q_sums, row), _row(a_sums, row), mean, bias
                ),
                rule, third, mirror, border, taken, room, width,
            )
            tell(flow.done, row * LINE, turn + 1)
        if turns[2] and not _merge_round(flow, part, turn, query, attributes, q_sums, a_sums):
            return
