"""Bringing the cells' copies of a shared table together after a round."""

from __future__ import annotations

import numpy as np

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
