"""What one thread does in a round, cell by cell from here: its cells, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import LOSSES, History, Problem, Settings
from fmpair.engine.cpu.folded_items import Folding, folding_for, without_item_l2
from fmpair.engine.cpu.layout import Layout, State
from fmpair.engine.cpu.lists import Rule, run_lists
from fmpair.engine.cpu.operands import (
    NO_ACCUMULATORS,
    Attributes,
    Query,
    Room,
    Shared,
    Step,
    room_for,
    with_own_rates,
)
from fmpair.engine.cpu.pairs import run_cell
from fmpair.engine.cpu.simd import aligned, padded, taken, width_of
from fmpair.engine.cpu.triples import Mirror, Third, mirror_for, third_for
from fmpair.engine.item_side import item_sides
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.field_regularisation import Accumulators
from fmpair.engine.strata.sampling_tables import Sampler, dropped_parts, folds, ordering, pieces
from fmpair.jit import kernel
from fmpair.rng import GOLDEN, MASK, mixed, stream
from fmpair.threads import all_threads

# What came before the events of a cell: rows of the query, over a table of the cell's own.
#
# Histories are never laid out for all events: a cell's are made when it is learned from, and of the
# table of their features it copies the rows that they touch.


class Piece(NamedTuple):
    """A cell's part of the query table. feature: int32 [rows], which features its rows are of.

    accumulators: float32 [rows], of AdaGrad, or None.
    """

    feature: np.ndarray
    shared: Shared
    accumulators: Any


class Places(NamedTuple):
    """A thread's own arrays over all query features, -1 between two cells.

    row: of the feature in the cell's table; entry: of the feature in the row at work.
    """

    row: np.ndarray
    entry: np.ndarray


def places_for(problem: Problem, features: int) -> Places:
    """A thread's arrays; none where there are no histories."""
    count = features if problem.history is not None else 0
    return Places(np.full(count, -1, np.int32), np.full(count, -1, np.int64))


def own_query(
    state: State, span: tuple[int, int], accumulators: Accumulators, places: Places
) -> tuple[Query, Piece]:
    """The query side of the events [span[0], span[1]) of the partition.

    accumulators: those of all query features, or operands.NO_ACCUMULATORS.
    """
    problem, partition = state.problem, state.layout.partition
    history = problem.history
    assert history is not None and state.query is not None
    whole = state.query.of(0)
    head = first_feature(history, len(whole.table))
    events = partition.event[span[0] : span[1]]
    rows, touched = history_rows(problem, history, events, head, places)
    feature = np.concatenate([np.arange(head, dtype=np.int32), touched])
    shared = Shared(
        taken(whole.table, feature), whole.bias, np.zeros(len(feature), np.int32),
        whole.rate[feature], whole.shrink[feature],
    )
    own = None if accumulators.query is None else accumulators.query[feature]
    query = Query(
        shared, np.zeros(0, np.int32), np.int64(span[0]), rows, partition.user_at,
        problem.user_rows,
    )
    return query, Piece(feature, shared, own)


def first_feature(history: History, features: int) -> int:
    """The first of the features of histories, which come after all others."""
    return int(history.rows.column.min(initial=features))


def history_rows(
    problem: Problem, history: History, events: np.ndarray, head: int, places: Places
) -> tuple[Rows, np.ndarray]:
    """(context and history of each event, the features of histories that occur: int32).

    events: original numbers. Features below `head` keep their numbers, the others are counted from
    there in the order in which they occur.
    """
    contexts, situation = problem.contexts, problem.situation
    most = _count(events, problem.user, history, contexts.start, situation)
    start = np.empty(len(events) + 1, np.int64)
    column, value = np.empty(most, np.int32), np.empty(most, np.float32)
    touched = np.empty(min(most, len(places.row)), np.int32)
    used, found = _fill(
        events, problem.user, history, contexts, situation, head, places,
        Rows(start, column, value), touched,
    )
    return Rows(start, column[:used], value[:used]), touched[:found]


@kernel
def _count(events, user, history, c_start, situation):
    """At most how many entries the rows of the events have."""
    h_start, item, until, since, weight, rows, _ = history
    i_start = rows.start
    count = 0
    for n in range(len(events)):
        e = events[n]
        count += c_start[situation[e] + 1] - c_start[situation[e]]
        low = np.int64(since[e]) if len(since) > 0 else h_start[user[e]]
        for place in range(max(low, until[e] - len(weight)), until[e]):
            count += i_start[item[place] + 1] - i_start[item[place]]
    return count


@kernel
def _fill(events, user, history, contexts, situation, head, places, out, touched):
    """The rows of the events; how many entries and how many features of histories they have."""
    h_start, item, until, since, weight, rows, _ = history
    i_start, i_column, i_value = rows
    c_start, c_column, c_value = contexts
    start, column, value = out
    row_of, entry_of = places
    used, found = 0, 0
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
                    row_of[f], touched[found] = head + found, f
                    found += 1
                entry_of[f], column[used] = used, row_of[f]
                value[used] = weight[back] * i_value[c]
                used += 1
    start[len(events)] = used
    for n in range(found):
        row_of[touched[n]], entry_of[touched[n]] = -1, -1
    return used, found


SCRATCH_ROWS = 3
Result = tuple[int, float, int]
Cell = Callable[[int, int], tuple[float, int]]
# From a cell's user block and runs, its query side and the accumulators that go with it.
Queries = Callable[[int, tuple[int, int]], tuple[Query | None, Accumulators]]


def workers(settings: Settings) -> int:
    """How many threads take part: no more than there are cells in a round, or cores."""
    return min(settings.threads, settings.blocks, all_threads())


def worker(
    state: State, number: int, epoch: int, rate: float, stopped: np.ndarray
) -> Callable[[int], list[Result]]:
    """The number-th thread's part as a function of the round: (cell, loss, steps) of each cell.

    stopped: see `Room`.
    """
    settings, blocks = state.settings, state.settings.blocks
    work = cells(state, epoch, rate, stopped)

    def run(turn: int) -> list[Result]:
        mine = range(number, blocks, workers(settings))
        return [(t, *work(t, (t + turn) % blocks)) for t in mine]

    return run


def cells(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """A cell of any kind, as a function of its two blocks: (loss, steps)."""
    cell = _pairs if state.settings.in_plain_pairs else _lists
    return cell(state, epoch, rate, stopped)


def taken_for(layout: Layout) -> np.ndarray:
    """A thread's marks on the items of a block: uint8 zeros."""
    return np.zeros(int(np.diff(layout.partition.item_edge).max(initial=0)), np.uint8)


def scratch_for(state: State) -> np.ndarray:
    """A thread's rows in the kernel of pairs."""
    return aligned(np.zeros((SCRATCH_ROWS, padded(state.factors)), np.float32))


def list_room(state: State, items: int, stopped: np.ndarray) -> Room:
    """A thread's arrays in the kernel of lists, with blocks of at most so many items."""
    settings = state.settings
    room = room_for(settings.n_negatives, state.length, items)._replace(stopped=stopped)
    if state.accumulators.users is not None or settings.l2_scale:
        room = with_own_rates(room, _accumulators(state, 0))
    if state.problem.triples is not None:
        room = room._replace(triple_shrink=np.ones_like(room.shrink))
    return room


def list_step_of(state: State, rate: float, items: int) -> tuple[Step, Folding | None]:
    """Step lengths in lists; where items are folded with their attributes, a thread's arrays."""
    step = step_of(state.settings, rate)
    if state.features is None or not folds(state.problem, state.settings):
        return step, None
    return without_item_l2(step), folding_for(state.features, step, items)


def _pairs(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """A cell of plain pairs, as a function of its two blocks: (loss, steps)."""
    settings, layout, tables = state.settings, state.layout, state.tables
    partition, step = layout.partition, step_of(settings, rate)
    width, scratch, queries = width_of(state.factors), scratch_for(state), _queries(state)
    taken = taken_for(layout)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        runs = (partition.cell[cell], partition.cell[cell + 1])
        query, _ = queries(row, runs)
        return run_cell(
            runs, (partition.item_edge[column], partition.item_edge[column + 1]),
            np.uint64(stream(settings.seed, epoch, cell)), layout.work, tables, query,
            _attributes(state, row), step, taken, scratch, width,
        )

    return run


def _lists(state: State, epoch: int, rate: float, stopped: np.ndarray) -> Cell:
    """A cell of lists, the same way. Adaptive negatives are ordered anew at every piece."""
    settings, layout, tables = state.settings, state.layout, state.tables
    partition, rule, taken = layout.partition, rule_of(state), taken_for(layout)
    width, queries = width_of(state.length), _queries(state)
    room = list_room(state, len(taken), stopped)
    step, folding = list_step_of(state, rate, len(taken))
    every, mirror, border = triples_of(state, rate)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        first, last = int(partition.cell[cell]), int(partition.cell[cell + 1])
        block = (partition.item_edge[column], partition.item_edge[column + 1])
        draws = (stream(settings.seed, epoch, cell) + GOLDEN) & MASK
        offset = (mixed(draws) >> 32) * (last - first) >> 32
        edges = _edges(layout, settings, first, last, int(block[1] - block[0]))
        query, accumulators = queries(row, (first, last))
        third, attributes, own = _own_triples(state, every, row), _attributes(state, row), None
        if folding is not None:
            attributes, own = None, folding._replace(attributes=attributes)
        loss, steps = 0.0, 0
        for a, b in zip(edges[:-1] + offset, edges[1:] + offset) if first < last else ():
            if stopped[0]:
                break
            more, done, draws = run_lists(
                (first, last), (a, b), block, np.uint64(draws), layout.work, tables,
                query, attributes, own, _sampler(state, row, column), step,
                layout.l2_scale, accumulators, rule, third, mirror, border, taken, room, width,
            )
            loss, steps = loss + more, steps + done
        return loss, steps

    return run


def triples_of(state: State, rate: float) -> tuple[Third | None, Mirror | None, tuple[int, ...]]:
    """(a thread's own of triples, of those with two features of an item, columns of pairs)."""
    settings, triples = state.settings, state.problem.triples
    if triples is None or settings.triples is None:
        return None, None, ()
    rates = (rate * settings.user_rate, rate * settings.item_rate)
    third = third_for(triples, settings.triples, rates, state.triple_shrink, state.factors)
    mirror = mirror_for(triples, settings.n_negatives + 1)
    return third, mirror, (0,) * int(third.first)


def _own_triples(state: State, every: Third | None, copy: int) -> Third | None:
    """The same for the query features of a cell, which are all but with histories."""
    if every is None or state.problem.history is None:
        return every
    feature = state.pieces[copy].feature
    return every._replace(
        group=every.group[feature], query_shrink=every.query_shrink[feature]
    )


def _edges(layout: Layout, settings: Settings, first: int, last: int, items: int) -> np.ndarray:
    """Where the walk over a cell's runs pauses, so that adaptive negatives are ordered anew."""
    if settings.negative_sampler != "adaptive":
        return np.array([0, last - first])
    start = layout.partition.run_start
    return pieces(last - first, int(start[last] - start[first]), items)


def rule_of(state: State) -> Rule:
    settings = state.settings
    sharpness = 1 / settings.temperature if settings.temperature else 0.0
    items = int((state.problem.drawn | (state.layout.events.times > 0)).sum())
    return Rule(
        LOSSES.index(settings.loss), settings.n_negatives, np.float32(sharpness), items,
        (settings.own_share, settings.own_share + settings.impression_share),
        dropped_parts(settings.dropout),
    )


def _sampler(state: State, copy: int, column: int) -> Sampler:
    """The negatives of an item block, as seen with a cell's copy of the shared tables."""
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


def step_of(settings: Settings, rate: float) -> Step:
    """Step lengths and shrinking of the id tables at a learning rate."""
    user, item = rate * settings.user_rate, rate * settings.item_rate
    bias = item if settings.has_bias else 0.0
    return Step(*(np.float32(x) for x in (
        user, item, bias, 1 - user * settings.user, 1 - item * settings.positive,
        1 - item * settings.negative, 1 - bias * settings.bias,
    )))


def _queries(state: State) -> Queries:
    """The query sides of a thread's cells, one after the other."""
    if state.problem.history is None:
        return lambda row, runs: (_query(state, row), _accumulators(state, row))
    assert state.query is not None
    places = places_for(state.problem, state.query.table.shape[1])

    def made(row: int, runs: tuple[int, int]) -> tuple[Query, Accumulators]:
        start = state.layout.partition.run_start
        every = _accumulators(state, 0)  # of all features: cells that run side by side copy it
        query, piece = own_query(state, (int(start[runs[0]]), int(start[runs[1]])), every, places)
        state.pieces[row] = piece
        return query, _accumulators(state, row)._replace(query=piece.accumulators)

    return made


def _query(state: State, copy: int) -> Query | None:
    if not state.query:
        return None
    layout = state.layout
    return Query(state.query.of(copy), layout.situation, np.int64(0), layout.contexts,
                 layout.partition.user_at, state.problem.user_rows)


def _accumulators(state: State, copy: int) -> Accumulators:
    sums = state.accumulators
    if sums.users is None:
        return NO_ACCUMULATORS
    query = sums.query[0 if state.problem.history is not None else copy]
    return sums._replace(query=query, features=sums.features[copy])


def _attributes(state: State, copy: int) -> Attributes | None:
    if not state.features:
        return None
    bias_share = np.float32(state.settings.has_bias)
    item_at, rows = state.layout.partition.item_at, state.problem.item_rows
    return Attributes(state.features.of(copy), item_at, rows, bias_share)
