"""What the threads of an epoch work on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.engine.contract import Problem, Settings
from fmpair.engine.cpu.dealing import Dealing
from fmpair.engine.cpu.layout import Layout
from fmpair.engine.cpu.operands import Copies, Tables
from fmpair.engine.strata.accumulators import Accumulators


class State(NamedTuple):
    """The tables as they stand in an epoch, with all that says how they are learned.

    tables: in the order of the layout's partition. query, features: a cell's own copy of the
    tables that cells share, one a block, or none where there are no such features; with histories
    only one of the query, of which cells copy what they need. accumulators:
    one a block, or none where plain SGD needs none. pieces: with histories, the cells' own parts of
    the query table in the round at hand, one a block, see `engine.cpu.history`. factors: columns of
    the tables; length: of the vectors of queries and items. triple_shrink: by query feature and by
    item feature, what a step keeps of their vectors of triples. dealing: where threads make the
    partitions themselves.
    """

    problem: Problem
    settings: Settings
    layout: Layout
    factors: int
    length: int
    tables: Tables
    query: Copies | None
    features: Copies | None
    accumulators: Accumulators
    pieces: list[Any]
    triple_shrink: tuple[np.ndarray, np.ndarray]
    dealing: Dealing | None = None
