"""Item vectors lent to histories: in a round both are learned apart, then what was moved adds up.

A cell may move the items of its block only, but histories have items of all blocks.
"""

from __future__ import annotations

import numpy as np

from fmpair.engine.contract import History


def borrowed(history: History, count: int) -> slice:
    """The query features that stand for the items, in their order."""
    first = int(history.rows.column[0])
    return slice(first, first + count)


def lend(table: np.ndarray, rows: slice, items: np.ndarray) -> None:
    """The query features of items become the items' vectors: [items, columns]."""
    table[rows] = items


def returned(table: np.ndarray, rows: slice, items: np.ndarray) -> np.ndarray:
    """What a round moved of vectors that were lent as `items`: [items, columns]."""
    return table[rows] - items
