"""What the threads of an epoch work on."""

from __future__ import annotations

from typing import NamedTuple

from fmpair.engine.contract import Problem, Settings
from fmpair.engine.cpu.layout import Layout
from fmpair.engine.cpu.operands import Shared, Tables
from fmpair.engine.strata.accumulators import Accumulators


class State(NamedTuple):
    """The tables as they stand in an epoch, with all that says how they are learned.

    tables: in the order of the layout's partition. query, features: a cell's own copy of the
    tables that cells share, one a block, or none where there are no such features. accumulators:
    one a block, or none where plain SGD needs none.
    """

    problem: Problem
    settings: Settings
    layout: Layout
    factors: int
    tables: Tables
    query: list[Shared]
    features: list[Shared]
    accumulators: list[Accumulators]
