"""The CPU engine: cells of a round side by side on threads, one model for any number of them."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from fmpair.arrays import Rows, empty_rows
from fmpair.engine import plan
from fmpair.engine.decay import centre, decay, item_pace, query_pace
from fmpair.engine.kernel import Shared, Work, run_cell
from fmpair.engine.lane import lane, lanes
from fmpair.engine.lists import run_lists
from fmpair.engine.merge import merge
from fmpair.engine.pace import NO_PULL, Sums, first_sums
from fmpair.engine.problem import Parameters, Problem, Pull, Settings
from fmpair.engine.rows import aligned, taken
from fmpair.engine.sampling import Sampler, samplers
from fmpair.forked import check_process

LOG = logging.getLogger("fmpair")
NOTHING = np.zeros(0, np.float32)
NONE = np.zeros(0, np.int32)
NEAR_BYTES = 128 * 1024  # contexts beyond this are laid out in the order of the events


@dataclass
class State:
    """Training under way. The id tables stand in dealt order, shared ones have a copy per cell."""

    problem: Problem
    settings: Settings
    factors: int
    events: plan.Events
    parameters: Parameters
    deal: plan.Deal | None = None
    work: Work | None = None
    situation: np.ndarray = field(default_factory=lambda: NONE)
    contexts: Rows = field(default_factory=lambda: empty_rows(1))
    pool: ThreadPoolExecutor | None = None
    query: list[Shared] = field(default_factory=list)
    features: list[Shared] = field(default_factory=list)
    seen: Rows | None = None
    samplers: list[Sampler] = field(default_factory=list)
    shown: Rows = plan.NOTHING_SHOWN
    pull: Pull = NO_PULL
    sums: list[Sums] = field(default_factory=list)


def begin(problem: Problem, parameters: Parameters, settings: Settings) -> State:
    """Training that starts from the given parameters."""
    factors, problem = parameters.users.shape[1], plan.with_unchosen(problem)
    numbered = (
        len(problem.contexts.column) > 0
        or settings.positives != "permutation"
        or bool(problem.known.any())
        or bool((problem.weight != 1).any())
    )
    state = State(
        problem, settings, factors, plan.by_user(problem, numbered),
        parameters._replace(users=aligned(parameters.users), items=aligned(parameters.items),
                            item_bias=parameters.item_bias.astype(np.float32)),
    )  # fmt: skip
    if lanes(settings) > 1:
        state.pool = ThreadPoolExecutor(lanes(settings))
    copies = settings.blocks
    if problem.has_query_features:
        state.query = _copies(parameters.query, NOTHING, copies)
    if len(problem.item_rows.column):
        state.features = _copies(parameters.features, parameters.feature_bias, copies)
    if settings.optimizer == "adagrad":
        state.sums = [first_sums(parameters, settings) for _ in range(copies)]
    return state


def epoch(state: State, number: int, rate: float) -> float:
    """One epoch (counted from 1) at a learning rate; the mean loss of its steps."""
    check_process()
    settings, compiled = state.settings, _compilations()
    _deal_if_due(state, number)
    _visit(state, number)
    _set_rates(state, rate)
    first, *rest = [lane(state, n, number, rate) for n in range(lanes(settings))]
    results = []
    for turn in range(settings.blocks):
        others = [state.pool.submit(other, turn) for other in rest] if state.pool else []
        done = first(turn) + [result for other in others for result in other.result()]
        results += sorted(done)
        merge(state.query, [own.query for own in state.sums])
        merge(state.features, [own.features for own in state.sums])
    logs, steps = sum(r[1] for r in results), sum(r[2] for r in results)
    for copy in state.query:
        centre(copy.table, state.problem.query_groups)
    if _compilations() > compiled:
        LOG.warning("compiled the training kernel, once for this machine: later runs start faster")
    return logs / max(steps, 1)


def _compilations() -> int:
    """How many kernels were compiled in this process rather than found on disk."""
    return sum(sum(kernel.stats.cache_misses.values()) for kernel in (run_cell, run_lists))


def largest(state: State) -> float:
    """The largest number of all tables: a run that blows up shows here first. NaN counts."""
    shared = [copy.table for copy in (*state.query[:1], *state.features[:1])]
    tables = [t for t in (*state.parameters[:3], *shared) if t.size]
    return float(np.max([max(-t.min(), t.max()) for t in tables]))


def seen(state: State) -> Rows:
    """Per user the distinct items of the events, sorted; values are how often each occurs."""
    if state.seen is None:
        state.seen = plan.distinct(state.events.start, state.events.item.copy())
    return state.seen


def snapshot(state: State) -> Parameters:
    """The parameters as they are now, by original numbers and without padding."""
    tables, k = state.parameters, state.factors
    users, items, bias = tables.users[:, :k], tables.items[:, :k], tables.item_bias
    if state.deal is not None:
        user_from, item_from = plan.places(state.deal.user_at), plan.places(state.deal.item_at)
        users, items, bias = users[user_from], items[item_from], bias[item_from]
    query = state.query[0].table[:, :k].copy() if state.query else tables.query
    features = state.features[0].table[:, :k].copy() if state.features else tables.features
    feature_bias = state.features[0].bias.copy() if state.features else tables.feature_bias
    return Parameters(users, items, bias, query, features, feature_bias)


def finish(state: State) -> None:
    """Let go of what only further epochs would need."""
    if state.work is None or state.deal is None:
        return
    state.deal = state.deal._replace(run_user=NONE, run_start=NONE, item=NONE, event=NONE)
    state.work, state.situation = None, NONE
    state.shown, state.sums = plan.NOTHING_SHOWN, []
    if state.seen is None:
        state.seen = plan.distinct(state.events.start, state.events.item)
    state.events = state.events._replace(item=NONE, event=NONE)


def _copies(table: np.ndarray, bias: np.ndarray, count: int) -> list[Shared]:
    """A cell's own copy of a shared table, `count` times; rates are set by `_with_rates`."""
    return [
        Shared(
            aligned(table),
            bias.astype(np.float32),
            np.zeros(len(table), np.int32),
            NOTHING,
            NOTHING,
        )
        for _ in range(count)
    ]


def _set_rates(state: State, rate: float) -> None:
    """Settle an epoch's step lengths and kept shares of the shared tables."""
    settings, problem = state.settings, state.problem
    rate = rate * settings.feature_rate
    if state.query:
        table = state.query[0].table
        own = decay(settings.query, settings.query_threshold, table, problem.query_groups,
                    settings.strongest)  # fmt: skip
        known = (problem.contexts, problem.user_rows)
        rates = rate * query_pace(problem.query_groups, *known)
        state.query = _with_rates(state.query, rates, own)
    if state.features:
        table = state.features[0].table
        own = decay(settings.features, settings.feature_threshold, table, problem.item_groups,
                    settings.strongest)  # fmt: skip
        rates = rate * item_pace(problem.item_groups, problem.item_rows)
        state.features = _with_rates(state.features, rates, own)


def _with_rates(copies: list[Shared], rates: np.ndarray, decay: np.ndarray) -> list[Shared]:
    keep = np.maximum(1 - rates * decay, 0).astype(np.float32)
    return [copy._replace(rate=rates.astype(np.float32), keep=keep) for copy in copies]


def _deal_if_due(state: State, number: int) -> None:
    """Deal anew every few epochs, and bring tables and events into the new order."""
    settings = state.settings
    if state.deal is not None and (number - 1) % settings.deal_every:
        return
    old = state.deal and state.deal._replace(run_user=NONE, run_start=NONE, item=NONE, event=NONE)
    # the old events go before the new ones come: with many they are most of the memory
    state.deal, state.work, state.situation = None, None, NONE
    state.contexts = empty_rows(1)
    each = state.pool.map if state.pool else map
    new = plan.deal(state.events, settings.blocks, settings.seed, number, each)
    users, items, bias = state.parameters[:3]
    user_from, item_from = new.user_at, new.item_at
    if old is not None:
        user_from = plan.places(old.user_at)[user_from]
        item_from = plan.places(old.item_at)[item_from]
    state.parameters = state.parameters._replace(
        users=taken(users, user_from), items=taken(items, item_from), item_bias=bias[item_from]
    )
    if state.sums:
        own_users, own_items = state.sums[0].users[user_from], state.sums[0].items[item_from]
        state.sums = [own._replace(users=own_users, items=own_items) for own in state.sums]
    if settings.pull:
        users, items = settings.pull
        state.pull = Pull(users[new.user_at], items[new.item_at])
    state.deal, state.samplers = new, samplers(new, state.events.times, settings)
    problem = state.problem
    state.shown = plan.shown_by_run(new, problem.shown)
    weight = problem.weight[new.event] if (problem.weight != 1).any() else NOTHING
    state.work = Work(new.run_user, new.run_start, new.item, np.zeros(0, np.uint16), weight)
    if len(problem.contexts.column):
        state.situation, state.contexts = problem.situation[new.event], problem.contexts
        if problem.contexts.column.nbytes > NEAR_BYTES:
            state.contexts = problem.contexts.take(state.situation)
            state.situation = np.arange(len(new.event), dtype=np.int32)


def _visit(state: State, number: int) -> None:
    """Settle how often each event is learned from in this epoch."""
    assert state.work is not None and state.deal is not None
    settings = state.settings
    times = plan.visits(settings.positives, state.problem, state.events, settings.seed, number)
    if len(times):
        times = times[state.deal.event]
    state.work = state.work._replace(visits=times)
