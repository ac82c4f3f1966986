"""The CPU engine: cells run in parallel, with one result for any number of threads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fmpair import kernel_cache
from fmpair.engine.contract import Pairs, Parameters, Problem, Settings
from fmpair.engine.cpu.block_softmax import run_minibatches
from fmpair.engine.cpu.epoch import (
    ThreadPool,
    in_compiled_rounds,
    run_cells,
    run_compiled,
    run_given_pairs,
)
from fmpair.engine.cpu.layout import EventLayout, Repartitioner, State, laid_out, needs_numbers
from fmpair.engine.cpu.lists import run_lists
from fmpair.engine.cpu.operands import NO_ACCUMULATORS, Copies, Tables
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.rounds import merge, merge_pieces
from fmpair.engine.cpu.simd import aligned, taken
from fmpair.engine.cpu.worker import workers
from fmpair.engine.item_side import joint_steepness, pair_columns, vector_length
from fmpair.engine.strata import field_regularisation as fields
from fmpair.engine.strata import partition as strata
from fmpair.jit import kernel
from fmpair.threads import check_process

PROGRESS = logging.getLogger("fmpair.progress")
NO_BIAS = np.zeros(0, np.float32)
WITHOUT_SIGN = np.uint32(0x7FFFFFFF)  # all bits of a float32 but its sign
TRAINING = (run_cell, run_lists, run_minibatches)  # kernels whose compilation is told
SUMS = ("users", "items", "query", "features")  # the tables of `Accumulators`


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> CPUTraining:
    """Begin training from the given parameters."""
    check_process()
    return CPUTraining(strata.with_unchosen(problem), parameters, settings)


class CPUTraining:
    """Training in progress.

    tables: users, items and item bias, in the order of the layout once there is one. query,
    features: copies of the shared tables, one per block, or None. accumulators: one per block, or
    none for SGD. layout: the events in partition order; None before the first epoch and after the
    last. shared_items: the item vectors that histories started a round from. factors: columns of
    the tables, pairs: those of pair vectors; length: of query and item vectors. triple_shrink: see
    `State`. shares: step lengths of query and item features relative to ids.
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
            fields.query_rates(problem.query_groups, problem.contexts, problem.user_rows),
            fields.item_rates(problem.item_groups, problem.item_rows),
        )
        self.joint = joint_steepness(problem.item_groups, problem.item_rows)
        self.tables = parameters._replace(
            users=aligned(parameters.users, self.length),
            items=aligned(parameters.items, self.length),
            item_bias=parameters.item_bias.astype(np.float32),
        )
        sizes = (problem.users, problem.items)
        self.order = strata.Order(*(np.arange(n, dtype=np.int32) for n in sizes))
        self.layout: EventLayout | None = None
        self.partitioned = 0  # the epoch of the last partition
        copies = settings.blocks
        of_query = 1 if problem.history is not None else copies
        self.query = self._copies(parameters.query, NO_BIAS, problem.has_query_features * of_query)
        self.pieces: list[Any] = [None] * copies
        self.shared_items = NO_BIAS
        with_attributes = copies if len(problem.item_rows.column) > 0 else 0
        self.features = self._copies(parameters.features, parameters.feature_bias, with_attributes)
        self.accumulators = NO_ACCUMULATORS
        if settings.optimizer == "adagrad":
            sums = fields.first_accumulators(parameters, settings)
            self.accumulators = _by_copy(sums, of_query, copies)
        self.repartitioner: Repartitioner | None = None
        self.executor: ThreadPoolExecutor | None = None
        self.thread_pool: ThreadPool | None = None

    def epoch(self, number: int, rate: float) -> float:
        """Run one epoch (counted from 1) at a learning rate; return the mean loss of its steps."""
        check_process()
        settings, compiled = self.settings, _compilations()
        if self.layout is None or (number - 1) % settings.partition_every == 0:
            self._partition(number)
        assert self.layout is not None
        visits = strata.visits(settings.positives, self.problem, self.events, settings.seed, number)
        self.layout = self.layout.visited(visits)
        self._set_rates(number, rate)
        state = self._state()
        if in_compiled_rounds(state) and settings.in_plain_pairs:
            loss, steps = self._pool_of(state).epoch(number, rate, self.repartitioner)
        elif in_compiled_rounds(state):
            loss, steps = run_compiled(state, number, rate, self._executor())
        else:
            loss, steps = run_cells(
                state, number, rate, self._executor(), self._share_items, self._merge
            )
        self._centre()
        if _compilations() > compiled and not kernel_cache.lost():
            PROGRESS.info(
                "compiled the training kernel for this machine; later runs start faster"
            )
        return loss / max(steps, 1)

    def learn_pairs(self, pairs: Pairs, rate: float) -> float:
        """Take a step on each pair in order, after an epoch; return the mean loss."""
        loss = run_given_pairs(self._state(), pairs, rate)
        for copies in (self.query, self.features):
            if copies is not None:  # the next round starts from equal copies
                copies.table[1:], copies.bias[1:] = copies.table[0], copies.bias[0]
                copies.moves[:] = 0
        self._centre()
        return loss / max(len(pairs.user), 1)

    def largest(self) -> float:
        """Return the largest absolute parameter, NaN if there is any."""
        shared = [copies.table[0] for copies in (self.query, self.features) if copies]
        return float(np.max([largest(table) for table in (*self.tables[:3], *shared)]))

    def snapshot(self) -> Parameters:
        """Return the current parameters, numbered as in the problem."""
        k, tables = self.factors, self.tables
        user_from, item_from = self._user_places(), self._item_places()
        users, items = tables.users[user_from, :k], tables.items[item_from, :k]
        bias = tables.item_bias[item_from]
        query, features, feature_bias = tables.query, tables.features, tables.feature_bias
        if self.query:
            self._share_items()
            query = self.query.table[0, :, :k].copy()
        if self.features:
            features = self.features.table[0, :, :k].copy()
            feature_bias = self.features.bias[0].copy()
        return Parameters(users, items, bias, query, features, feature_bias)

    def state(self) -> dict[str, np.ndarray]:
        """Return the state besides the parameters: the partition and the accumulators."""
        state, sums = {"partitioned": np.array(self.partitioned)}, self.accumulators
        if sums.users is not None:
            ids = (sums.users[self._user_places()], sums.items[self._item_places()])
            tables = (*ids, sums.query[0], sums.features[0])
            state |= {name: np.array(rows) for name, rows in zip(SUMS, tables)}
        return state

    def resume(self, state: dict[str, np.ndarray]) -> None:
        """Continue after the epoch of that state, begun with the parameters of that epoch."""
        sums = self.accumulators
        if sums.users is not None:
            saved: Any = {name: state[name].copy() for name in SUMS}
            sums = sums._replace(**saved)
            self.accumulators = _by_copy(sums, len(self.accumulators.query), self.settings.blocks)
        if state["partitioned"]:
            self._partition(int(state["partitioned"]))

    def close(self) -> None:
        """Release the threads and what only further epochs need."""
        self._stop_threads()
        if self.executor is not None:
            # They are idle and end by themselves. Waiting could deadlock: a run that was given up
            # is closed by the garbage collector, perhaps in a thread that is just starting.
            self.executor.shutdown(wait=False)
            self.executor = None
        self.layout, self.repartitioner, self.accumulators = None, None, NO_ACCUMULATORS

    def _executor(self) -> ThreadPoolExecutor:
        """Return the working threads; this one only waits, so it can be interrupted."""
        if self.executor is None:
            self.executor = ThreadPoolExecutor(workers(self.settings))
        return self.executor

    def _each(self) -> Callable[..., Any]:
        """Return `map`, or that of the working threads if there are several."""
        return self._executor().map if workers(self.settings) > 1 else map

    def _pool_of(self, state: State) -> ThreadPool:
        """Return the threads of the current layout."""
        if self.thread_pool is None or self.thread_pool.layout is not state.layout:
            self._stop_threads()
            self.thread_pool = ThreadPool(state, self._executor())
        return self.thread_pool

    def _stop_threads(self) -> None:
        if self.thread_pool is not None:
            self.thread_pool.stop()
            self.thread_pool = None

    def _state(self) -> State:
        """Return what an epoch works on; everything in it is changed in place."""
        assert self.layout is not None
        tables = Tables(*self.tables[:3])
        return State(
            self.problem, self.settings, self.layout, self.factors, self.length, tables, self.query,
            self.features, self.accumulators, self.pieces, self.triple_shrink,
            self.repartitioner.repartition if self.repartitioner else None, self.joint,
        )

    def _centre(self) -> None:
        for table in self.query.table if self.query else ():
            fields.centre(table[:, : self.pairs], self.problem.query_groups)

    def _merge(self) -> None:
        """Merge the copies of the shared tables after a round."""
        sums, history = self.accumulators, self.problem.history
        if self.features:
            merge(self.features, sums.features, 0, self.features.table.shape[1])
        if history is None:
            if self.query:
                merge(self.query, sums.query, 0, self.query.table.shape[1])
            return
        assert self.query is not None
        whole = self.query.of(0)
        of_query = None if sums.query is None else sums.query[0]
        merge_pieces(whole, of_query, self.pieces, workers(self.settings), self._each())
        if history.shared:
            rows = fields.shared_item_rows(history, self.problem.items)
            moved = whole.table[rows, : self.pairs] - self.shared_items
            self.tables.items[self._item_places(), : self.pairs] += moved

    def _share_items(self) -> None:
        """Copy the item vectors to the history features, where these share them."""
        history = self.problem.history
        if history is not None and history.shared:
            self.shared_items = self.tables.items[self._item_places(), : self.pairs]
            rows = fields.shared_item_rows(history, self.problem.items)
            assert self.query is not None
            self.query.table[0, rows, : self.pairs] = self.shared_items

    def _user_places(self) -> np.ndarray:
        """Return the position of each user in the tables: int [users]."""
        return strata.places(self.order.user_at)

    def _item_places(self) -> np.ndarray:
        """Return the position of each item in the tables: int [items]."""
        return strata.places(self.order.item_at)

    def _partition(self, number: int) -> None:
        """Make a new partition, and bring tables and events into its order."""
        self.partitioned = number
        if self.settings.in_plain_pairs and not self.numbered:
            self._repartition(number)
            return
        # free the old events before making new ones: they may be most of the memory
        self._stop_threads()
        self.layout = None
        settings, threads = self.settings, workers(self.settings)
        new = strata.partition(
            self.events, settings.blocks, settings.seed, number, threads, self._each()
        )
        user_from, item_from = self._user_places()[new.user_at], self._item_places()[new.item_at]
        self.order = strata.Order(new.user_at, new.item_at)
        users, items, bias = self.tables[:3]
        self.tables = self.tables._replace(
            users=taken(users, user_from), items=taken(items, item_from), item_bias=bias[item_from]
        )
        sums = self.accumulators
        if sums.users is not None:
            sums = sums._replace(users=sums.users[user_from], items=sums.items[item_from])
            self.accumulators = sums
        self.layout = laid_out(self.problem, settings, self.events, new)

    def _repartition(self, number: int) -> None:
        """Let the next epoch's threads do the same, in the existing arrays."""
        if self.repartitioner is None:
            tables, order = Tables(*self.tables[:3]), (self._user_places(), self._item_places())
            self.repartitioner = Repartitioner(self.events, tables, order, self.settings)
            partition = self.repartitioner.repartition.partition
            self.order = strata.Order(partition.user_at, partition.item_at)
            self.layout = laid_out(
                self.problem._replace(impressions=None), self.settings, self.events, partition
            )
        self.repartitioner.ask(number)

    def _copies(self, table: np.ndarray, bias: np.ndarray, count: int) -> Copies | None:
        """Return `count` copies of a shared table, or None; `_set_rates` sets the rates."""
        if count == 0:
            return None
        rows = aligned(np.tile(table, (count, 1)), self.length)
        return Copies(
            rows.reshape(count, len(table), -1), np.tile(bias.astype(np.float32), (count, 1)),
            np.zeros((count, len(table)), np.int32), *np.zeros((2, len(table)), np.float32),
        )

    def _set_rates(self, number: int, rate: float) -> None:
        """Set an epoch's step lengths and kept shares of the shared tables."""
        if self.query is None and self.features is None:
            return
        problem, rate = self.problem, rate * self.settings.feature_rate
        query, features = (
            copies.table[0, :, : self.factors] if copies else table
            for copies, table in zip((self.query, self.features), self.tables[3:5])
        )
        l2 = fields.settled_l2(self.settings, query, features, problem, number)
        of_query, of_items = (rate * share for share in self.shares)
        _set(self.query, of_query, l2.query)
        _set(self.features, of_items, l2.features)
        if l2.triples is not None:
            self.triple_shrink = (
                _shares(of_query, l2.triples.query), _shares(of_items, l2.triples.features)
            )


def largest(table: np.ndarray) -> float:
    """Return the largest absolute value of a contiguous float32 table; NaN if there is one."""
    bits = _largest_bits(table.reshape(-1).view(np.uint32))
    return float(np.uint32(bits).view(np.float32))


@kernel
def _largest_bits(bits):
    """Without the sign, the bits of floats are in the order of their values, NaN last."""
    most = np.uint32(0)
    for n in range(len(bits)):
        value = np.uint32(bits[n] & WITHOUT_SIGN)
        most = value if value > most else most
    return most


def _compilations() -> int:
    """Return how many kernels were compiled in this process instead of loaded."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in TRAINING)


def _set(copies: Copies | None, rates: np.ndarray, l2: np.ndarray) -> None:
    """Set rates and kept shares in place: waiting threads hold the arrays."""
    if copies is not None:
        copies.rate[:], copies.shrink[:] = rates, _shares(rates, l2)


def _by_copy(sums: fields.Accumulators, of_query: int, of_features: int) -> fields.Accumulators:
    """Return accumulators with copies of those of the shared tables: [copies, rows]."""
    return sums._replace(
        query=np.tile(sums.query, (of_query, 1)), features=np.tile(sums.features, (of_features, 1))
    )


def _shares(rates: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """Return the share of a row that a step keeps: float32."""
    return np.maximum(1 - rates * l2, 0).astype(np.float32)
