"""The CPU engine: cells of a round side by side on threads, one model for any number of them."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fmpair import kernel_cache
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.cpu.layout import Layout, laid_out
from fmpair.engine.cpu.lists import run_lists
from fmpair.engine.cpu.merge import merge, merge_pieces
from fmpair.engine.cpu.operands import Shared, Tables
from fmpair.engine.cpu.ordered import run_ordered
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.simd import aligned, taken
from fmpair.engine.cpu.state import State
from fmpair.engine.cpu.worker import worker, workers
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.accumulators import Accumulators, first_accumulators
from fmpair.engine.strata.lending import borrowed, lend, returned
from fmpair.engine.strata.regularisation import centre, item_rates, query_rates, settled_l2
from fmpair.engine.triples import pair_columns, vector_length
from fmpair.forked import check_process

LOG = logging.getLogger("fmpair")
NO_BIAS = np.zeros(0, np.float32)
SUMS = ("users", "items", "query", "features")  # of `Accumulators`, those that change


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> CPUTraining:
    """Training that starts from the given parameters."""
    check_process()
    return CPUTraining(strata.with_unchosen(problem), parameters, settings)


class CPUTraining:
    """Training under way.

    tables: users, items and item bias, once there is a layout in its order. query, features: a
    cell's own copy of the tables that cells share, one a block, or none where there are no such
    features. accumulators: one a block, or none where plain SGD needs none. layout: the events and
    all that goes with their order, until the next partition; None before the first epoch and after
    the last. lent: the items' vectors as histories that share them had them before a round.
    factors: columns of the tables, pairs: those of them that are of pairs; length: of the vectors
    of queries and items. triple_shrink: see `State`.
    """

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        self.problem, self.settings = problem, settings
        self.factors = parameters.users.shape[1]
        self.events = strata.by_user(problem, _needs_numbers(problem, settings))
        self.length = vector_length(self.factors, problem.triples)
        self.pairs = pair_columns(self.factors, problem.triples)
        self.triple_shrink = (NO_BIAS, NO_BIAS)
        self.tables = parameters._replace(
            users=aligned(parameters.users, self.length),
            items=aligned(parameters.items, self.length),
            item_bias=parameters.item_bias.astype(np.float32),
        )
        self.order: strata.Order | None = None
        self.layout: Layout | None = None
        self.partitioned = 0  # in which epoch
        copies, adagrad = settings.blocks, settings.optimizer == "adagrad"
        of_query = 1 if problem.history is not None else copies
        self.query = self._copies(
            parameters.query, NO_BIAS, problem.has_query_features * of_query
        )
        self.pieces: list[Any] = [None] * copies
        self.lent = NO_BIAS
        has_attributes = len(problem.item_rows.column) > 0
        self.features = self._copies(
            parameters.features, parameters.feature_bias, has_attributes * copies
        )
        self.accumulators: list[Accumulators] = [
            first_accumulators(parameters, settings) for _ in range(copies * adagrad)
        ]
        threads = workers(settings)
        self.pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def epoch(self, number: int, rate: float) -> float:
        """One epoch (counted from 1) at a learning rate; the mean loss of its steps."""
        check_process()
        settings, compiled = self.settings, _compilations()
        if self.layout is None or (number - 1) % settings.partition_every == 0:
            self._partition(number)
        assert self.layout is not None
        visits = strata.visits(
            settings.positives, self.problem, self.events, settings.seed, number
        )
        self.layout = self.layout.visited(visits)
        self._set_rates(number, rate)
        state = self._state()
        first, *rest = [worker(state, n, number, rate) for n in range(workers(settings))]
        results = []
        for turn in range(settings.blocks):
            self._lend_items()
            others = [self.pool.submit(other, turn) for other in rest] if self.pool else []
            done = first(turn) + [result for other in others for result in other.result()]
            results += sorted(done)
            self._merge_query()
            merge(self.features, [own.features for own in self.accumulators])
        loss, steps = sum(r[1] for r in results), sum(r[2] for r in results)
        self._centre()
        if _compilations() > compiled and not kernel_cache.lost():
            LOG.warning(
                "compiled the training kernel, once for this machine: later runs start faster"
            )
        return loss / max(steps, 1)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """A step on each pair in their order, after an epoch at that rate; the mean loss."""
        loss = run_ordered(self._state(), pairs, rate)
        for copies in (self.query, self.features):
            for copy in copies[1:]:  # the cells of the next round start from the same tables
                copy.table[:], copy.bias[:] = copies[0].table, copies[0].bias
            for copy in copies:
                copy.moves[:] = 0
        self._centre()
        return loss / max(len(pairs.user), 1)

    def largest(self) -> float:
        """The largest number of all tables: a run that diverges shows here first. NaN counts."""
        shared = [copy.table for copy in (*self.query[:1], *self.features[:1])]
        tables = [t for t in (*self.tables[:3], *shared) if t.size]
        return float(np.max([max(-t.min(), t.max()) for t in tables]))

    def snapshot(self) -> Parameters:
        """The parameters as they are now, by the problem's numbers."""
        k, tables = self.factors, self.tables
        user_from, item_from = np.arange(len(tables.users)), self._item_places()
        if self.order is not None:
            user_from = strata.places(self.order.user_at)
        users, items = tables.users[user_from, :k], tables.items[item_from, :k]
        bias = tables.item_bias[item_from]
        query, features, feature_bias = tables.query, tables.features, tables.feature_bias
        if self.query:
            self._lend_items()
            query = self.query[0].table[:, :k].copy()
        if self.features:
            features = self.features[0].table[:, :k].copy()
            feature_bias = self.features[0].bias.copy()
        return Parameters(users, items, bias, query, features, feature_bias)

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on beside the parameters: the partition, the accumulators."""
        found = {"partitioned": np.array(self.partitioned)}
        if self.accumulators:
            own, users = self.accumulators[0], np.arange(len(self.tables.users))
            if self.order is not None:
                users = strata.places(self.order.user_at)
            sums = (own.users[users], own.items[self._item_places()], own.query, own.features)
            found |= {name: np.array(rows) for name, rows in zip(SUMS, sums)}
        return found

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state; begun with the parameters of that epoch."""
        for number, own in enumerate(self.accumulators):
            sums: Any = {name: state[name].copy() for name in SUMS}
            self.accumulators[number] = own._replace(**sums)
        if state["partitioned"]:
            self._partition(int(state["partitioned"]))

    def close(self) -> None:
        """Let go of the threads and of what only further epochs would need."""
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
        self.layout, self.accumulators = None, []

    def _state(self) -> State:
        """What an epoch works on; everything in it is changed in place."""
        assert self.layout is not None
        tables = Tables(*self.tables[:3])
        return State(
            self.problem, self.settings, self.layout, self.factors, self.length, tables, self.query,
            self.features, self.accumulators, self.pieces, self.triple_shrink,
        )

    def _centre(self) -> None:
        for copy in self.query:
            centre(copy.table[:, : self.pairs], self.problem.query_groups)

    def _merge_query(self) -> None:
        """Bring together what the cells of a round made of the query table."""
        if self.problem.history is None:
            merge(self.query, [own.query for own in self.accumulators])
            return
        sums = self.accumulators[0].query if self.accumulators else None
        whole, history = self.query[0], self.problem.history
        merge_pieces(whole, sums, self.pieces)
        if history.shared:
            rows = borrowed(history, self.problem.items)
            moved = returned(whole.table[:, : self.pairs], rows, self.lent)
            self.tables.items[self._item_places(), : self.pairs] += moved

    def _lend_items(self) -> None:
        """Give histories the items' vectors, where they share these."""
        history = self.problem.history
        if history is not None and history.shared:
            self.lent = self.tables.items[self._item_places(), : self.pairs]
            rows = borrowed(history, self.problem.items)
            lend(self.query[0].table[:, : self.pairs], rows, self.lent)

    def _item_places(self) -> np.ndarray:
        """int [items]: where each stands in the tables."""
        if self.order is None:
            return np.arange(len(self.tables.items))
        return strata.places(self.order.item_at)

    def _partition(self, number: int) -> None:
        """Partition anew, and bring tables and events into the new order."""
        # the old events go before the new ones come: with many they are most of the memory
        old, self.layout = self.order, None
        each = self.pool.map if self.pool else map
        settings, self.partitioned = self.settings, number
        new = strata.partition(self.events, settings.blocks, settings.seed, number, each)
        self.order = strata.Order(new.user_at, new.item_at)
        user_from, item_from = self.order
        if old is not None:
            user_from = strata.places(old.user_at)[user_from]
            item_from = strata.places(old.item_at)[item_from]
        users, items, bias = self.tables[:3]
        self.tables = self.tables._replace(
            users=taken(users, user_from), items=taken(items, item_from), item_bias=bias[item_from]
        )
        if self.accumulators:
            first = self.accumulators[0]
            users, items = first.users[user_from], first.items[item_from]
            self.accumulators = [
                own._replace(users=users, items=items) for own in self.accumulators
            ]
        self.layout = laid_out(self.problem, settings, self.events, new)

    def _copies(self, table: np.ndarray, bias: np.ndarray, count: int) -> list[Shared]:
        """A cell's own copy of a shared table, `count` times; rates are set by `_set_rates`."""
        return [
            Shared(aligned(table, self.length), bias.astype(np.float32),
                   np.zeros(len(table), np.int32), NO_BIAS, NO_BIAS)
            for _ in range(count)
        ]

    def _set_rates(self, number: int, rate: float) -> None:
        """Settle an epoch's step lengths and shrinking of the shared tables."""
        problem, rate = self.problem, rate * self.settings.feature_rate
        query, features = (
            copies[0].table[:, : self.factors] if copies else table
            for copies, table in zip((self.query, self.features), self.tables[3:5])
        )
        l2 = settled_l2(self.settings, query, features, problem, number)
        of_query = rate * query_rates(problem.query_groups, problem.contexts, problem.user_rows)
        of_items = rate * item_rates(problem.item_groups, problem.item_rows)
        self.query = _with_rates(self.query, of_query, l2.query)
        self.features = _with_rates(self.features, of_items, l2.features)
        if l2.triples is not None:
            self.triple_shrink = (
                _shares(of_query, l2.triples.query), _shares(of_items, l2.triples.features)
            )


def _needs_numbers(problem: Problem, settings: Settings) -> bool:
    """Whether the number of an event must be known where it is learned from."""
    return (
        len(problem.contexts.column) > 0
        or problem.history is not None
        or settings.positives != "permutation"
        or bool(problem.known.any())
        or bool((problem.weight != 1).any())
    )


def _compilations() -> int:
    """How many kernels were compiled in this process rather than found on disk."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in (run_cell, run_lists))


def _with_rates(copies: list[Shared], rates: np.ndarray, l2: np.ndarray) -> list[Shared]:
    shrink = _shares(rates, l2)
    return [copy._replace(rate=rates.astype(np.float32), shrink=shrink) for copy in copies]


def _shares(rates: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """float32: what a step of such a length leaves of a row."""
    return np.maximum(1 - rates * l2, 0).astype(np.float32)
