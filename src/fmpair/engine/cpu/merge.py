"""Bringing the cells' copies of a shared table together after a round."""

from __future__ import annotations

import numpy as np

from fmpair.engine.cpu.history import Piece
from fmpair.engine.cpu.operands import Shared
from fmpair.jit import kernel


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
