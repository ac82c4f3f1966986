"""Softmax over all items of a block, minibatch by minibatch: the definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fmpair.engine.contract import Parameters, Settings, Triples
from fmpair.engine.item_side import pair_columns
from fmpair.engine.reference.draws import Draws, StrataCell, choice_of, with_history
from fmpair.engine.reference.objective import (
    Choice,
    ascent,
    bounded,
    loss,
    query_ascent,
    query_side,
    query_slope,
    scores,
    slopes,
    take_step,
)
from fmpair.engine.strata import minibatches
from fmpair.engine.strata import partition as strata
from fmpair.rng import stream

Curvature = dict[int, np.ndarray]  # item -> float64 [2]


def run_minibatches(
    cell: StrataCell, epoch: int, tables: Parameters, settings: Settings, rate: float,
    feature_rates: dict, moved: tuple[np.ndarray, np.ndarray],
) -> list[float]:  # fmt: skip
    """Learn a cell's minibatches on its own tables; return the losses of the events.

    moved: the moves of each feature of queries, and of items.
    """
    losses, triples = list[float](), cell.problem.triples
    for batch in _minibatches(cell, epoch, tables):
        losses += [loss(tables, choice, settings, triples) for choice in batch]
        batch = [bounded(tables, choice, settings, rate, triples) for choice in batch]
        gradients = [ascent(tables, choice, settings, triples) for choice in batch]
        curvature = _curvature(tables, batch, settings, triples)
        of_queries = [query_slope(tables, choice, settings, triples) for choice in batch]
        for choice, slope in zip(batch, of_queries):
            take_step(
                tables, choice, settings, rate, feature_rates, triples=triples,
                unweighted=query_ascent(tables, choice, slope, triples),
            )  # fmt: skip
            moved[0][choice.query[0]] += 1
        _move_items(tables, batch, gradients, settings, rate, curvature, triples)
    return losses


def _minibatches(cell: StrataCell, epoch: int, tables: Parameters) -> Iterator[list[Choice]]:
    """Yield the events of a cell, each with all items of the block, the chosen item first."""
    partition, problem, settings = cell.partition, cell.problem, cell.settings
    (first, last), (edge, end) = cell.runs, cell.edges
    if first == last or end - edge < 2:
        return
    visits = strata.visits(settings.positives, problem, cell.events, settings.seed, epoch)
    in_order = visits[partition.event] if len(visits) else visits
    state = stream(settings.seed, epoch, cell.number)
    events = minibatches.events_of(
        cell.runs, end - edge, partition.run_start, in_order, np.uint64(state)
    )
    draws = Draws(cell, state)
    raised = 0.0
    if settings.logq_correction:
        raised = minibatches.raised_by(draws.everything, end - edge)
    off = (0.0,) + (-raised,) * (end - edge - 1)
    for begin in range(0, len(events.event), events.size):
        batch = []
        for place, run in zip(*(part[begin : begin + events.size] for part in events[:2])):
            event, user = int(partition.event[place]), partition.user_at[partition.run_user[run]]
            item = int(partition.item_at[partition.item[place]])
            items = (item, *(int(other) for other in cell.items if other != item))
            weight = float(problem.weight[event])
            choice = choice_of(problem, int(user), items, int(problem.situation[event]), weight)
            choice = draws.dropped(with_history(choice, problem, event), tables.users.shape[1])
            batch.append(replace(choice, off=off))
        yield batch


def _curvature(
    tables: Parameters, batch: list[Choice], settings: Settings, triples: Triples | None
) -> Curvature:
    """Return the curvature of the loss in an item's constant, and an upper bound in its vector."""
    total = {item: np.zeros(2) for item in batch[0].items}
    for choice in batch:
        f = scores(tables, choice, settings, triples) - np.array(choice.off)
        q = query_side(tables, choice, triples)
        chances = np.abs(slopes(f, settings.loss) - (np.arange(len(f)) == 0))
        for item, p in zip(choice.items, chances):
            total[item] += choice.weight * p * (1 - p) * np.array([1.0, q @ q])
    return total


def _move_items(
    tables: Parameters, batch: list[Choice], gradients: list[dict], settings: Settings,
    rate: float, curvature: Curvature, triples: Triples | None,
) -> None:  # fmt: skip
    """Take one step of each item along the sum of its gradients.

    An item that many events of a minibatch rank high could overshoot. So a step is no longer than
    the one to the bottom of a parabola with the curvature of the loss. Regularisation, whose shares
    of many events could be more than the whole row, is implicit.
    """
    of_others = 1 / max(len(batch[0].items) - 1, 1)
    step = rate * settings.item_rate
    for item in curvature:
        of_bias, of_vector = step / np.maximum(1.0, step * curvature[item])
        own = sum(choice.i == item for choice in batch)
        others = (len(batch) - own) * of_others
        scale = settings.l2_scale.items[item] if settings.l2_scale else 1.0
        lost = of_vector * scale * (settings.positive * own + settings.negative * others)
        if triples and settings.triples:
            of_triples = of_vector * scale * settings.triples.item * (own + others)
            pairs = pair_columns(len(tables.items[item]), triples)
            lost = np.repeat([lost, of_triples], [pairs, triples.factors])
        gradient = sum(c.weight * g["items", item] for c, g in zip(batch, gradients))
        tables.items[item] /= 1 + lost
        tables.items[item] += of_vector * gradient
        if settings.has_bias:
            slope = sum(c.weight * g["item_bias", item] for c, g in zip(batch, gradients))
            tables.item_bias[item] /= 1 + of_bias * settings.bias * (own + others)
            tables.item_bias[item] += of_bias * slope
