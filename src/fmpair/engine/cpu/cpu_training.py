"""The CPU engine: cells of a round side by side on threads, one model for any number of them."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fmpair import kernel_cache
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.cpu.epoch import Crew, in_compiled_rounds, run_cells, run_compiled
from fmpair.engine.cpu.given_pairs import largest, run_ordered
from fmpair.engine.cpu.layout import Dealer, Layout, State, laid_out, needs_numbers
from fmpair.engine.cpu.lists import run_lists
from fmpair.engine.cpu.operands import NO_ACCUMULATORS, Copies, Tables
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.rounds import merge, merge_pieces
from fmpair.engine.cpu.simd import aligned, taken
from fmpair.engine.cpu.worker import workers
from fmpair.engine.item_side import pair_columns, vector_length
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.field_regularisation import (
    Accumulators,
    borrowed,
    centre,
    first_accumulators,
    item_rates,
    lend,
    query_rates,
    returned,
    settled_l2,
)
from fmpair.threads import check_process

PROGRESS = logging.getLogger("fmpair.progress")
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
    of queries and items. triple_shrink: see `State`. shares: step lengths of query and item
    features as shares of an id's; they ask every context of the data, so they are settled once.
    """

    def __init__(self, problem: Problem, parameters: Parameters, settings: Settings):
        self.problem, self.settings = problem, settings
        self.factors = parameters.users.shape[1]
        self.numbered = needs_numbers(problem, settings)
        self.events = strata.by_user(problem, self.numbered)
        self.length = vector_length(self.factors, problem.triples)
        self.pairs = pair_columns(self.factors, problem.triples)
        self.triple_shrink = (NO_BIAS, NO_BIAS)
        self.shares = (
            query_rates(problem.query_groups, problem.contexts, problem.user_rows),
            item_rates(problem.item_groups, problem.item_rows),
        )
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
        self.accumulators = NO_ACCUMULATORS
        if adagrad:
            self.accumulators = _by_copy(
                first_accumulators(parameters, settings), of_query, copies
            )
        self.dealer: Dealer | None = None
        self.pool: ThreadPoolExecutor | None = None
        self.crew: Crew | None = None

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
        if in_compiled_rounds(state) and settings.in_plain_pairs:
            loss, steps = self._crew(state).epoch(number, rate, self.dealer)
        elif in_compiled_rounds(state):
            loss, steps = run_compiled(state, number, rate, self._threads())
        else:
            loss, steps = run_cells(
                state, number, rate, self._threads(), self._lend_items, self._merge
            )
        self._centre()
        if _compilations() > compiled and not kernel_cache.lost():
            PROGRESS.info(
                "compiled the training kernel, once for this machine: later runs start faster"
            )
        return loss / max(steps, 1)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """A step on each pair in their order, after an epoch at that rate; the mean loss."""
        loss = run_ordered(self._state(), pairs, rate)
        for copies in (self.query, self.features):
            if copies is not None:  # the cells of the next round start from the same tables
                copies.table[1:], copies.bias[1:] = copies.table[0], copies.bias[0]
                copies.moves[:] = 0
        self._centre()
        return loss / max(len(pairs.user), 1)

    def largest(self) -> float:
        """The largest number of all tables: a run that diverges shows here first. NaN counts."""
        shared = [copies.table[0] for copies in (self.query, self.features) if copies]
        return float(np.max([largest(table) for table in (*self.tables[:3], *shared)]))

    def snapshot(self) -> Parameters:
        """The parameters as they are now, by the problem's numbers."""
        k, tables = self.factors, self.tables
        user_from, item_from = self._user_places(), self._item_places()
        users, items = tables.users[user_from, :k], tables.items[item_from, :k]
        bias = tables.item_bias[item_from]
        query, features, feature_bias = tables.query, tables.features, tables.feature_bias
        if self.query:
            self._lend_items()
            query = self.query.table[0, :, :k].copy()
        if self.features:
            features = self.features.table[0, :, :k].copy()
            feature_bias = self.features.bias[0].copy()
        return Parameters(users, items, bias, query, features, feature_bias)

    def state(self) -> dict[str, np.ndarray]:
        """What further epochs depend on beside the parameters: the partition, the accumulators."""
        found, sums = {"partitioned": np.array(self.partitioned)}, self.accumulators
        if sums.users is not None:
            own = (sums.users[self._user_places()], sums.items[self._item_places()])
            rows = (*own, sums.query[0], sums.features[0])
            found |= {name: np.array(own) for name, own in zip(SUMS, rows)}
        return found

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Go on as after the epoch of that state; begun with the parameters of that epoch."""
        sums = self.accumulators
        if sums.users is not None:
            own: Any = {name: state[name].copy() for name in SUMS}
            self.accumulators = _by_copy(
                sums._replace(**own), len(sums.query), len(sums.features)
            )
        if state["partitioned"]:
            self._partition(int(state["partitioned"]))

    def close(self) -> None:
        """Let go of the threads and of what only further epochs would need."""
        self._dismiss()
        if self.pool is not None:
            self.pool.shutdown()
            self.pool = None
        self.layout, self.dealer, self.accumulators = None, None, NO_ACCUMULATORS

    def _threads(self) -> ThreadPoolExecutor:
        """Those that work; this one only waits for them, and so can be interrupted."""
        if self.pool is None:
            self.pool = ThreadPoolExecutor(workers(self.settings))
        return self.pool

    def _crew(self, state: State) -> Crew:
        """The threads of the layout at hand."""
        if self.crew is None or self.crew.layout is not state.layout:
            self._dismiss()
            self.crew = Crew(state, self._threads())
        return self.crew

    def _dismiss(self) -> None:
        if self.crew is not None:
            self.crew.dismiss()
            self.crew = None

    def _state(self) -> State:
        """What an epoch works on; everything in it is changed in place."""
        assert self.layout is not None
        tables = Tables(*self.tables[:3])
        return State(
            self.problem, self.settings, self.layout, self.factors, self.length, tables, self.query,
            self.features, self.accumulators, self.pieces, self.triple_shrink,
            self.dealer.dealing if self.dealer else None,
        )

    def _centre(self) -> None:
        for table in self.query.table if self.query else ():
            centre(table[:, : self.pairs], self.problem.query_groups)

    def _merge(self) -> None:
        """Bring together what the cells of a round made of the shared tables."""
        sums, history = self.accumulators, self.problem.history
        if self.features:
            merge(self.features, sums.features, 0, self.features.table.shape[1])
        if history is None:
            if self.query:
                merge(self.query, sums.query, 0, self.query.table.shape[1])
            return
        assert self.query is not None
        whole = self.query.of(0)
        merge_pieces(whole, None if sums.query is None else sums.query[0], self.pieces)
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
            assert self.query is not None
            lend(self.query.table[0, :, : self.pairs], rows, self.lent)

    def _user_places(self) -> np.ndarray:
        """int [users]: where each stands in the tables."""
        if self.order is None:
            return np.arange(len(self.tables.users))
        return strata.places(self.order.user_at)

    def _item_places(self) -> np.ndarray:
        """int [items]: where each stands in the tables."""
        if self.order is None:
            return np.arange(len(self.tables.items))
        return strata.places(self.order.item_at)

    def _partition(self, number: int) -> None:
        """Partition anew, and bring tables and events into the new order."""
        self.partitioned = number
        if self.settings.in_plain_pairs and not self.numbered:
            self._deal(number)
            return
        # the old events go before the new ones come: with many they are most of the memory
        self._dismiss()
        old, self.layout = self.order, None
        settings, threads = self.settings, workers(self.settings)
        each = self._threads().map if threads > 1 else map
        new = strata.partition(
            self.events, settings.blocks, settings.seed, number, threads, each
        )
        self.order = strata.Order(new.user_at, new.item_at)
        user_from, item_from = self.order
        if old is not None:
            user_from = strata.places(old.user_at)[user_from]
            item_from = strata.places(old.item_at)[item_from]
        users, items, bias = self.tables[:3]
        self.tables = self.tables._replace(
            users=taken(users, user_from), items=taken(items, item_from), item_bias=bias[item_from]
        )
        sums = self.accumulators
        if sums.users is not None:
            self.accumulators = sums._replace(
                users=sums.users[user_from], items=sums.items[item_from]
            )
        self.layout = laid_out(self.problem, settings, self.events, new)

    def _deal(self, number: int) -> None:
        """Have the next epoch's threads do the same, in the arrays that they have."""
        if self.dealer is None:
            tables, order = Tables(*self.tables[:3]), (self._user_places(), self._item_places())
            self.dealer = Dealer(self.events, tables, order, self.settings)
            partition = self.dealer.dealing.partition
            self.order = strata.Order(partition.user_at, partition.item_at)
            self.layout = laid_out(
                self.problem._replace(impressions=None), self.settings, self.events, partition
            )
        self.dealer.ask(number)

    def _copies(self, table: np.ndarray, bias: np.ndarray, count: int) -> Copies | None:
        """A shared table `count` times, None for no times; rates are set by `_set_rates`."""
        if count == 0:
            return None
        rows = aligned(np.tile(table, (count, 1)), self.length)
        return Copies(
            rows.reshape(count, len(table), -1), np.tile(bias.astype(np.float32), (count, 1)),
            np.zeros((count, len(table)), np.int32), *np.zeros((2, len(table)), np.float32),
        )

    def _set_rates(self, number: int, rate: float) -> None:
        """Settle an epoch's step lengths and shrinking of the shared tables, if there are any."""
        if self.query is None and self.features is None:
            return
        problem, rate = self.problem, rate * self.settings.feature_rate
        query, features = (
            copies.table[0, :, : self.factors] if copies else table
            for copies, table in zip((self.query, self.features), self.tables[3:5])
        )
        l2 = settled_l2(self.settings, query, features, problem, number)
        of_query, of_items = (rate * share for share in self.shares)
        _set(self.query, of_query, l2.query)
        _set(self.features, of_items, l2.features)
        if l2.triples is not None:
            self.triple_shrink = (
                _shares(of_query, l2.triples.query), _shares(of_items, l2.triples.features)
            )


def _compilations() -> int:
    """How many kernels were compiled in this process rather than found on disk."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in (run_cell, run_lists))


def _set(copies: Copies | None, rates: np.ndarray, l2: np.ndarray) -> None:
    """Step lengths and shrinking of a shared table, in place: threads that wait have the arrays."""
    if copies is not None:
        copies.rate[:], copies.shrink[:] = rates, _shares(rates, l2)


def _by_copy(sums: Accumulators, of_query: int, of_features: int) -> Accumulators:
    """With so many copies of those of the shared tables: [copies, rows]."""
    return sums._replace(
        query=np.tile(sums.query, (of_query, 1)), features=np.tile(sums.features, (of_features, 1))
    )


def _shares(rates: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """float32: what a step of such a length leaves of a row."""
    return np.maximum(1 - rates * l2, 0).astype(np.float32)
