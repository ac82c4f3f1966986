"""What came before the events of a cell: rows of the query, over a table of the cell's own.

Histories are never laid out for all events: a cell's are made when it is learned from, and of the
table of their features it copies the rows that they touch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import History, Problem
from fmpair.engine.cpu.operands import Query, Shared
from fmpair.engine.cpu.simd import taken
from fmpair.engine.cpu.state import State
from fmpair.engine.strata.accumulators import Accumulators
from fmpair.jit import kernel


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
