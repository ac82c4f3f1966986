"""What one thread does in a round: its cells, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fmpair.engine import plan
from fmpair.engine.draws import GOLDEN, MASK, mixed, stream
from fmpair.engine.kernel import Attributes, Query, Step, Tables, run_cell
from fmpair.engine.lists import Rule, room_for, run_lists, with_paces
from fmpair.engine.pace import NO_SUMS
from fmpair.engine.problem import LOSSES, Settings
from fmpair.engine.ranking import all_threads
from fmpair.engine.rows import aligned, padded, width_of
from fmpair.engine.sampling import Sampler, item_sides, ordering, pieces

if TYPE_CHECKING:
    from fmpair.engine.cpu import State

SCRATCH_ROWS = 3
Result = tuple[int, float, int]


def lanes(settings: Settings) -> int:
    """How many threads take part: no more than there are cells in a round, or cores."""
    return min(settings.threads, settings.blocks, all_threads())


def lane(state: State, number: int, epoch: int, rate: float) -> Callable[[int], list[Result]]:
    """The number-th thread's part as a function of the round: (cell, loss, steps) of each cell."""
    deal, settings = state.deal, state.settings
    assert deal is not None
    blocks = settings.blocks
    taken = np.zeros(int(np.diff(deal.item_edge).max(initial=0)), np.uint8)
    cell = _pairs if settings.in_plain_pairs else _lists
    work = cell(state, epoch, rate, taken)

    def run(turn: int) -> list[Result]:
        mine = range(number, blocks, lanes(settings))
        return [(t, *work(t, (t + turn) % blocks)) for t in mine]

    return run


def _pairs(state: State, epoch: int, rate: float, taken: np.ndarray) -> Callable:
    """A cell of plain pairs, as a function of its two blocks: (loss, steps)."""
    deal, settings, work = state.deal, state.settings, state.work
    assert deal is not None and work is not None
    tables, step = Tables(*state.parameters[:3]), _step(settings, rate)
    scratch = aligned(np.zeros((SCRATCH_ROWS, padded(state.factors)), np.float32))
    width = width_of(state.factors)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        return run_cell(
            (deal.cell[cell], deal.cell[cell + 1]),
            (deal.item_edge[column], deal.item_edge[column + 1]),
            np.uint64(stream(settings.seed, epoch, cell)), work, tables,
            _query(state, row), _attributes(state, row), step, taken, scratch, width,
        )  # fmt: skip

    return run


def _lists(state: State, epoch: int, rate: float, taken: np.ndarray) -> Callable:
    """A cell of lists, the same way. Adaptive negatives are ordered anew at every piece."""
    deal, settings, work = state.deal, state.settings, state.work
    assert deal is not None and work is not None
    tables, step, rule = Tables(*state.parameters[:3]), _step(settings, rate), _rule(state)
    room = room_for(settings.candidates, state.factors, len(taken))
    sums = state.sums or [NO_SUMS] * settings.blocks
    if state.sums or settings.pull:
        room = with_paces(room, sums[0])
    width = width_of(state.factors)

    def run(row: int, column: int) -> tuple[float, int]:
        cell = row * settings.blocks + column
        first, last = int(deal.cell[cell]), int(deal.cell[cell + 1])
        block = (deal.item_edge[column], deal.item_edge[column + 1])
        draws = (stream(settings.seed, epoch, cell) + GOLDEN) & MASK
        offset = (mixed(draws) >> 32) * (last - first) >> 32
        events = int(deal.run_start[last] - deal.run_start[first])
        edges = np.array([0, last - first])
        if settings.negatives == "adaptive":
            edges = pieces(last - first, events, int(block[1] - block[0]))
        logs, steps, shown = 0.0, 0, state.shown
        for a, b in zip(edges[:-1] + offset, edges[1:] + offset) if first < last else ():
            sampler = _sampler(state, row, column)
            sampler = sampler._replace(shown_start=shown.start, shown_item=shown.column)
            loss, done, draws = run_lists(
                (first, last), (a, b), block, np.uint64(draws), work, tables, _query(state, row),
                _attributes(state, row), sampler, step, state.pull, sums[row], rule, taken, room,
                width,
            )  # fmt: skip
            logs, steps = logs + loss, steps + done
        return logs, steps

    return run


def _rule(state: State) -> Rule:
    settings, problem = state.settings, state.problem
    sharpness = 1 / settings.temperature if settings.temperature else 0.0
    items = int((problem.drawn | (state.events.times > 0)).sum())
    return Rule(
        LOSSES.index(settings.loss), settings.candidates, np.float32(sharpness), items,
        (settings.own_share, settings.own_share + settings.shown_share),
    )  # fmt: skip


def _sampler(state: State, copy: int, column: int) -> Sampler:
    """The negatives of an item block, as seen with a cell's copy of the shared tables."""
    settings, deal, tables = state.settings, state.deal, state.parameters
    assert deal is not None
    if settings.negatives == "batch":
        return state.samplers[column]._replace(other=plan.batch(deal, copy, column))
    if settings.negatives != "adaptive":
        return state.samplers[column]
    block = slice(deal.item_edge[column], deal.item_edge[column + 1])
    vectors, constants = tables.items[block, : state.factors], tables.item_bias[block]
    if state.features:
        rows = state.problem.item_rows.take(deal.item_at[block])
        shared = state.features[copy]
        table = shared.table[:, : state.factors]
        vectors, constants = item_sides(vectors, constants, rows, table, shared.bias)
    return ordering(vectors, constants, settings)


def _step(settings: Settings, rate: float) -> Step:
    user, item = rate * settings.user_rate, rate * settings.item_rate
    bias = item if settings.has_bias else 0.0
    return Step(*(np.float32(x) for x in (
        user, item, bias, 1 - user * settings.user, 1 - item * settings.positive,
        1 - item * settings.negative, 1 - bias * settings.bias,
    )))  # fmt: skip


def _query(state: State, copy: int) -> Query | None:
    if not state.query:
        return None
    assert state.deal is not None
    return Query(state.query[copy], state.situation, state.contexts, state.deal.user_at,
                 state.problem.user_rows)  # fmt: skip


def _attributes(state: State, copy: int) -> Attributes | None:
    if not state.features:
        return None
    assert state.deal is not None
    bias_share = np.float32(state.settings.has_bias)
    return Attributes(state.features[copy], state.deal.item_at, state.problem.item_rows, bias_share)
