"""Bringing the cells' copies of a shared table together after a round."""

from __future__ import annotations

import numpy as np

from fmpair.engine.cpu.history import Piece
from fmpair.engine.cpu.operands import Shared
from fmpair.jit import kernel


def merge(copies: list[Shared], accumulators: list[np.ndarray]) -> None:
    """Every row becomes the mean of its copies, weighted by how often each moved it.

    accumulators: the copies' own of AdaGrad, which are merged alike (a row has come as far as the
    mean of its copies, and is to go on from there), or none.
    In the order of the copies, so that the result does not depend on who ran what.
    """
    if len(copies) < 2:
        return
    moves = np.stack([copy.moves for copy in copies])
    touched = np.flatnonzero(moves.any(axis=0))
    if not len(touched):
        return
    total = moves[:, touched].sum(axis=0)
    share = (moves[:, touched] / total).astype(np.float32)
    _merge(tuple(copy.table for copy in copies), touched, share)
    if len(copies[0].bias):
        _merge(tuple(copy.bias.reshape(-1, 1) for copy in copies), touched, share)
    if accumulators:
        _merge(tuple(own.reshape(-1, 1) for own in accumulators), touched, share)
    for copy in copies:
        copy.moves[:] = 0


@kernel
def _merge(tables, rows, share):
    """tables: a tuple of [rows, columns]; share: float32 [tables, rows given]."""
    mean = np.empty(tables[0].shape[1], np.float32)
    for n in range(len(rows)):
        mean[:] = 0
        for t in range(len(tables)):
            if share[t, n] > 0:
                mean += share[t, n] * tables[t][rows[n]]
        for t in range(len(tables)):
            tables[t][rows[n]] = mean


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
