"""The cells of one thread: their arguments, and running them one by one from the interpreter.

`epoch` runs whole rounds in compiled code with the arguments made here. Cells with histories or
adaptive negatives are run by `thread_cells` and `cells`. The rows of histories are never stored for
all events. They are made for one cell at a time, over the rows of the query table that they use
(`QueryPiece`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import LOSSES, History, Problem, Settings
from fmpair.engine.cpu.block_softmax import BlockRule, minibatch_buffers, run_minibatches
from fmpair.engine.cpu.folded_items import FoldedItems, folding_for, without_item_l2
from fmpair.engine.cpu.layout import EventLayout, State
from fmpair.engine.cpu.lists import Rule, run_lists
from fmpair.engine.cpu.operands import (
    NO_ACCUMULATORS,
    Attributes,
    Copies,
    Query,
    ScratchBuffers,
    Shared,
    StepSizes,
    buffers_for,
    with_own_rates,
)
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.simd import aligned, padded, taken, width_of
from fmpair.engine.cpu.triples import (
    ItemTriples,
    QueryTriples,
    item_triples_for,
    query_triples_for,
)
from fmpair.engine.item_side import item_sides
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.sampling_tables import (
    Sampler,
    dropped_parts,
    folds,
    ordering,
    pieces,
    raised_by,
)
from fmpair.jit import kernel
from fmpair.rng import GOLDEN, MASK, mixed, stream
from fmpair.threads import all_threads

SCRATCH_ROWS = 3  # in the kernel of pairs
Result = tuple[int, float, int]  # (user block, loss, steps)
Cell = Callable[[int, int], tuple[float, int]]  # (user block, item block) -> (loss, steps)
# (user block, runs) -> the query side of a cell, and its accumulators
Queries = Callable[[int, tuple[int, int]], tuple[Query | None, Accumulators]]


def workers(settings: Settings) -> int:
    """Return the number of threads: at most the cells of a round, and the cores."""
    return min(settings.threads, settings.blocks, all_threads())


def thread_cells(
    state: State, number: int, epoch: int, rate: float, stopped: np.ndarray
) -> Callable[[int], list[Result]]:
    """Return a function that runs the cells of a thread in a round: (user block, loss, steps)."""
    blocks, run = state.settings.blocks, cells(state, epoch, rate, stopped)
    mine = range(number, blocks, workers(state.settings))
    return lambda turn: [(row, *run(row, (row + turn) % blocks)) for row in mine]


def cells(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """Return a function that runs a cell of any kind, given its two blocks: (loss, steps)."""
    cell = _pairs if state.settings.in_plain_pairs else _lists
    return (_blocks if state.settings.in_minibatches else cell)(state, epoch, rate, stopped)


def marks_for(layout: EventLayout) -> np.ndarray:
    """Return a thread's marks on the items of a block: uint8 zeros."""
    return np.zeros(largest_block(layout), np.uint8)


def largest_block(layout: EventLayout) -> int:
    """Return the number of items of the largest block."""
    return int(np.diff(layout.partition.item_edge).max(initial=0))


def scratch_for(state: State) -> np.ndarray:
    """Return a thread's rows in the kernel of pairs."""
    return aligned(np.zeros((SCRATCH_ROWS, padded(state.factors)), np.float32))


def list_buffers(state: State, items: int, stopped: np.ndarray) -> ScratchBuffers:
    """Return a thread's buffers for lists, with blocks of at most `items` items."""
    settings = state.settings
    buffers = buffers_for(settings.n_negatives, state.length, items)._replace(stopped=stopped)
    if state.accumulators.users is not None or settings.l2_scale:
        buffers = with_own_rates(buffers, _accumulators(state, 0))
    if state.problem.triples is not None:
        buffers = buffers._replace(triple_shrink=np.ones_like(buffers.shrink))
    return buffers


def list_steps(state: State, rate: float, items: int) -> tuple[StepSizes, FoldedItems | None]:
    """Return the step sizes of lists and, where items are folded, the arrays of a thread."""
    step = step_sizes(state.settings, rate)
    if state.features is None or not folds(state.problem, state.settings):
        return step, None
    return without_item_l2(step), folding_for(state.features, step, items, state.joint)


def _pairs(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """Return a function that runs a cell of plain pairs."""
    settings, layout, tables = state.settings, state.layout, state.tables
    partition, step = layout.partition, step_sizes(settings, rate)
    width, scratch, queries = width_of(state.factors), scratch_for(state), _queries(state)
    taken = marks_for(layout)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        runs = (partition.cell[cell], partition.cell[cell + 1])
        query, _ = queries(row, runs)
        return run_cell(
            runs, (partition.item_edge[column], partition.item_edge[column + 1]),
            np.uint64(stream(settings.seed, epoch, cell)), layout.work, tables, query,
            sides_of(state, row)[1], step, taken, scratch, width,
        )

    return run


def _lists(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """Return a function that runs a cell of lists; adaptive negatives are sorted per piece."""
    settings, layout, tables = state.settings, state.layout, state.tables
    partition, rule, taken = layout.partition, rule_of(state), marks_for(layout)
    width, queries = width_of(state.length), _queries(state)
    buffers = list_buffers(state, len(taken), stopped)
    step, folding = list_steps(state, rate, len(taken))
    every, i_triples = triples_of(state, rate)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        first, last = int(partition.cell[cell]), int(partition.cell[cell + 1])
        block = (partition.item_edge[column], partition.item_edge[column + 1])
        draws = (stream(settings.seed, epoch, cell) + GOLDEN) & MASK
        offset = (mixed(draws) >> 32) * (last - first) >> 32
        edges = np.array([0, last - first])
        if settings.negative_sampler == "adaptive":
            events = int(partition.run_start[last] - partition.run_start[first])
            edges = pieces(last - first, events, int(block[1] - block[0]))
        query, accumulators = queries(row, (first, last))
        q_triples, attributes, folded = _cell_triples(
            state, every, row), sides_of(state, row
        )[1], None
        if folding is not None:
            attributes, folded = None, folding._replace(attributes=attributes)
        loss, steps = 0.0, 0
        for a, b in zip(edges[:-1] + offset, edges[1:] + offset) if first < last else ():
            if stopped[0]:
                break
            more, done, draws = run_lists(
                (first, last), (a, b), block, np.uint64(draws), layout.work, tables, query,
                attributes, folded, _sampler(state, row, column), step, layout.l2_scale,
                accumulators, rule, q_triples, i_triples, taken, buffers, width,
            )
            loss, steps = loss + more, steps + done
        return loss, steps

    return run


def _blocks(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """Return a function that runs a cell with softmax over all items of its block."""
    settings, layout, tables = state.settings, state.layout, state.tables
    partition, step, rule = layout.partition, step_sizes(settings, rate), block_rule(state)
    width, queries = width_of(state.length), _queries(state)
    buffers = minibatch_buffers(settings, state.length, largest_block(layout), stopped)
    every, _ = triples_of(state, rate)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        runs = (int(partition.cell[cell]), int(partition.cell[cell + 1]))
        block = (int(partition.item_edge[column]), int(partition.item_edge[column + 1]))
        query, _ = queries(row, runs)
        return run_minibatches(
            runs, block, np.uint64(stream(settings.seed, epoch, cell)), layout.work, tables, query,
            step, layout.l2_scale, rule, _cell_triples(state, every, row), buffers, width,
        )

    return run


def block_rule(state: State) -> BlockRule:
    """Return the options of minibatches."""
    corrected = state.settings.logq_correction
    return BlockRule(_drawable(state) * corrected, dropped_parts(state.settings.dropout))


def triples_of(state: State, rate: float) -> tuple[QueryTriples | None, ItemTriples | None]:
    """Return the arrays of a thread for triples of both sides."""
    settings, triples = state.settings, state.problem.triples
    if triples is None or settings.triples is None:
        return None, None
    rates = (rate * settings.user_rate, rate * settings.item_rate)
    q_triples = query_triples_for(
        triples, settings.triples, rates, state.triple_shrink, state.factors
    )
    return q_triples, item_triples_for(triples, settings.n_negatives + 1)


def _cell_triples(state: State, every: QueryTriples | None, copy: int) -> QueryTriples | None:
    """Return the triples of the query features of a cell, which differ with histories."""
    if every is None or state.problem.history is None:
        return every
    feature = state.pieces[copy].feature
    return every._replace(group=every.group[feature], query_shrink=every.query_shrink[feature])


def rule_of(state: State) -> Rule:
    settings = state.settings
    sharpness = 1 / settings.temperature if settings.temperature else 0.0
    items = _drawable(state)
    return Rule(
        LOSSES.index(settings.loss), settings.n_negatives, np.float32(sharpness), items,
        (settings.own_share, settings.own_share + settings.impression_share),
        dropped_parts(settings.dropout), np.float32(raised_by(settings, items)),
    )


def _drawable(state: State) -> int:
    """Return the number of items with events or that may be drawn."""
    return int((state.problem.drawn | (state.layout.events.times > 0)).sum())


def _sampler(state: State, copy: int, column: int) -> Sampler:
    """Return the sampler of an item block, given a cell's copy of the shared tables."""
    layout, tables, kind = state.layout, state.tables, state.settings.negative_sampler
    partition = layout.partition
    block = slice(partition.item_edge[column], partition.item_edge[column + 1])
    sampler = layout.sampler._replace(log_chance=layout.sampler.log_chance[block])
    if sampler.accept is not None and sampler.other is not None:
        sampler = sampler._replace(accept=sampler.accept[block], other=sampler.other[block])
    if kind == "batch":
        sampler = sampler._replace(other=strata.batch(partition, copy, column))
    if kind == "adaptive":
        k, triples = state.factors, state.problem.triples
        vectors, constants = tables.items[block, :k], tables.bias[block]
        if state.features:
            rows = state.problem.item_rows.take(partition.item_at[block])
            shared = state.features.of(copy)
            vectors, constants = item_sides(
                vectors, constants, rows, shared.table[:, :k], shared.bias, triples
            )
        order = ordering(vectors, constants, state.settings)
        sampler = sampler._replace(order=order.order, spread=order.spread, depth=order.depth)
    return sampler


def step_sizes(settings: Settings, rate: float) -> StepSizes:
    """Return step lengths and kept shares of the id tables at a learning rate."""
    user, item = rate * settings.user_rate, rate * settings.item_rate
    bias = item if settings.has_bias else 0.0
    return StepSizes(*(np.float32(x) for x in (
        user, item, bias, 1 - user * settings.user, 1 - item * settings.positive,
        1 - item * settings.negative, 1 - bias * settings.bias,
    )))


def _queries(state: State) -> Queries:
    """Return a function that makes the query sides of a thread's cells."""
    if state.problem.history is None:
        return lambda row, runs: (sides_of(state, row)[0], _accumulators(state, row))
    assert state.query is not None
    features = state.query.table.shape[1]
    slots = HistorySlots(np.full(features, -1, np.int32), np.full(features, -1, np.int64))

    def made(row: int, runs: tuple[int, int]) -> tuple[Query, Accumulators]:
        start = state.layout.partition.run_start
        every = _accumulators(state, 0)  # of all features: cells that run side by side copy it
        span = (int(start[runs[0]]), int(start[runs[1]]))
        query, piece = history_query(state, span, every, slots)
        state.pieces[row] = piece
        return query, _accumulators(state, row)._replace(query=piece.accumulators)

    return made


def sides_of(state: State, copy: int | None = None) -> tuple[Query | None, Attributes | None]:
    """Return the features of both sides, with one copy of the shared tables, or with all."""
    layout, problem, query, attributes = state.layout, state.problem, None, None
    made_by_cell = problem.history is not None  # see `history_query`
    if state.query is not None and not made_by_cell:
        shared: Shared | Copies = state.query if copy is None else state.query.of(copy)
        query = Query(
            shared, layout.situation, np.int64(0), layout.contexts, layout.partition.user_at,
            problem.user_rows,
        )
    if state.features is not None:
        shared = state.features if copy is None else state.features.of(copy)
        bias_share = np.float32(state.settings.has_bias)
        attributes = Attributes(shared, layout.partition.item_at, problem.item_rows, bias_share)
    return query, attributes


def _accumulators(state: State, copy: int) -> Accumulators:
    sums = state.accumulators
    if sums.users is None:
        return NO_ACCUMULATORS
    query = sums.query[0 if state.problem.history is not None else copy]
    return sums._replace(query=query, features=sums.features[copy])


class QueryPiece(NamedTuple):
    """A cell's part of the query table. feature: int32 [rows]; accumulators: float32 [rows] or
    None."""

    feature: np.ndarray
    shared: Shared
    accumulators: Any


class HistorySlots(NamedTuple):
    """By query feature, its row in the table of the cell and its entry in the current row, or -1.
    """

    row: np.ndarray
    entry: np.ndarray


def history_query(
    state: State, span: tuple[int, int], accumulators: Accumulators, slots: HistorySlots
) -> tuple[Query, QueryPiece]:
    """Return the query side of the events [span[0], span[1]); accumulators: of all query features.
    """
    problem, partition = state.problem, state.layout.partition
    history = problem.history
    assert history is not None and state.query is not None
    whole = state.query.of(0)
    head = int(history.rows.column.min(initial=len(whole.table)))  # the first history feature
    events = partition.event[span[0] : span[1]]
    rows, touched = history_rows(problem, history, events, head, slots)
    feature = np.concatenate([np.arange(head, dtype=np.int32), touched])
    shared = Shared(
        taken(whole.table, feature), whole.bias, np.zeros(len(feature), np.int32),
        whole.rate[feature], whole.shrink[feature],
    )
    query_sums = None if accumulators.query is None else accumulators.query[feature]
    query = Query(
        shared, np.zeros(0, np.int32), np.int64(span[0]), rows, partition.user_at,
        problem.user_rows,
    )
    return query, QueryPiece(feature, shared, query_sums)


def history_rows(
    problem: Problem, history: History, events: np.ndarray, head: int, slots: HistorySlots
) -> tuple[Rows, np.ndarray]:
    """Return (context and history of each event, the features of histories that occur: int32).

    events: original numbers. Features below `head` keep their numbers; the others are numbered from
    there in order of occurrence.
    """
    contexts, situation = problem.contexts, problem.situation
    most = _count(events, problem.user, history, contexts.start, situation)
    start = np.empty(len(events) + 1, np.int64)
    column, value = np.empty(most, np.int32), np.empty(most, np.float32)
    touched = np.empty(min(most, len(slots.row)), np.int32)
    used, distinct = _fill(
        events, problem.user, history, contexts, situation, head, slots,
        Rows(start, column, value), touched,
    )
    return Rows(start, column[:used], value[:used]), touched[:distinct]


@kernel
def _count(events, user, history, c_start, situation):
    """Return an upper bound on the entries of the rows of the events."""
    h_start, item, until, since, weight, rows, _ = history
    i_start = rows.start
    count = 0
    for n in range(len(events)):
        e = events[n]
        count += c_start[situation[e] + 1] - c_start[situation[e]]
        low = np.int64(since[e]) if len(since) > 0 else h_start[user[e]]
        for entry in range(max(low, until[e] - len(weight)), until[e]):
            count += i_start[item[entry] + 1] - i_start[item[entry]]
    return count


@kernel
def _fill(events, user, history, contexts, situation, head, slots, out, touched):
    """Fill the rows of the events; return the number of entries and of history features."""
    h_start, item, until, since, weight, rows, _ = history
    i_start, i_column, i_value = rows
    c_start, c_column, c_value = contexts
    start, column, value = out
    row_of, entry_of = slots
    used, distinct = 0, 0
    for n in range(len(events)):
        e, start[n] = events[n], used
        for c in range(c_start[situation[e]], c_start[situation[e] + 1]):
            column[used], value[used] = c_column[c], c_value[c]
            used += 1
        low = np.int64(since[e]) if len(since) > 0 else h_start[user[e]]
        for back in range(min(len(weight), until[e] - low)):
            i = item[until[e] - 1 - back]
            for c in range(i_start[i], i_start[i + 1]):
                f = i_column[c]
                if entry_of[f] >= start[n]:  # an item that comes again counts once, for both
                    value[entry_of[f]] += weight[back] * i_value[c]
                    continue
                if row_of[f] < 0:
                    row_of[f], touched[distinct] = head + distinct, f
                    distinct += 1
                entry_of[f], column[used] = used, row_of[f]
                value[used] = weight[back] * i_value[c]
                used += 1
    start[len(events)] = used
    for n in range(distinct):
        row_of[touched[n]], entry_of[touched[n]] = -1, -1
    return used, distinct
