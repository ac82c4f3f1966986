"""Query vectors of a minibatch and the item side folded, as PyTorch computes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding, normalize

from fmpair.engine.contract import History, Parameters, Problem
from fmpair.engine.strata.lending import borrowed
from fmpair.engine.torch.rows import Bags, DeviceRows, on_device, sums, sums_of_squares, taken, whole


class DeviceHistory(NamedTuple):
    """`History` on a device. features: per item its query features; None where the features from
    `first` on are the items, one each. shared: they have the items' vectors.
    """

    start: torch.Tensor
    item: torch.Tensor
    until: torch.Tensor
    since: torch.Tensor | None
    weight: torch.Tensor
    features: DeviceRows | None
    first: int
    count: int
    shared: bool


class Sides(NamedTuple):
    """What features queries and items have. No rows: None."""

    user_rows: DeviceRows | None
    contexts: DeviceRows | None
    item_rows: DeviceRows | None
    history: DeviceHistory | None


def sides_of(problem: Problem, device: torch.device) -> Sides:
    """The features of both sides on a device."""

    def filled(rows: DeviceRows) -> DeviceRows | None:
        return rows if rows.filled else None

    history = problem.history
    return Sides(
        filled(on_device(problem.user_rows, device)),
        filled(on_device(problem.contexts, device)),
        filled(on_device(problem.item_rows, device)),
        None if history is None else _history(history, problem.items, device),
    )


def _history(history: History, items: int, device: torch.device) -> DeviceHistory:
    def moved(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    rows = history.rows
    first = int(rows.column[0]) if len(rows.column) else 0
    plain = len(rows.column) == items and bool((rows.value == 1).all())
    plain = plain and np.array_equal(rows.column, np.arange(first, first + items))
    return DeviceHistory(
        moved(history.start),
        moved(history.item),
        moved(history.until),
        moved(history.since) if len(history.since) else None,
        moved(history.weight),
        None if plain else on_device(rows, device),
        first,
        items,
        history.shared,
    )


def query_vectors(
    sides: Sides,
    tables: Parameters,
    user: torch.Tensor,
    situation: torch.Tensor,
    event: torch.Tensor | None,
) -> torch.Tensor:
    """q of every query: [queries, factors]; event: whose history it is, None for none."""
    q = embedding(user, tables.users)
    if sides.user_rows is not None:
        q = q + sums(tables.query, taken(sides.user_rows, user))
    if sides.contexts is not None:
        q = q + sums(tables.query, taken(sides.contexts, situation))
    if sides.history is not None and event is not None:
        vectors = _earlier_items(sides.history, tables)
        q = q + sums(vectors, before(sides.history, user, event))
    return q


def _earlier_items(history: DeviceHistory, tables: Parameters) -> torch.Tensor:
    """[items, factors]: what each item adds to a query that it came before."""
    if history.shared:
        return tables.items
    if history.features is None:
        return tables.query[history.first : history.first + history.count]
    return sums(tables.query, whole(history.features))


def before(history: DeviceHistory, user: torch.Tensor, event: torch.Tensor) -> Bags:
    """The items before each event, by weight; beyond a time line's begin the weight is 0."""
    until = history.until[event].long()
    first = history.start[user] if history.since is None else history.since[event].long()
    step = torch.arange(1, len(history.weight) + 1, device=event.device)
    place = until[:, None] - step
    inside = place >= first[:, None]
    item = history.item[place.clamp(min=0)].long()
    return Bags(item, history.weight * inside)


def item_vectors(sides: Sides, tables: Parameters) -> tuple[torch.Tensor, torch.Tensor]:
    """(vectors [items, factors], constants [items]), as `engine.item_side` defines them."""
    if sides.item_rows is None:
        return tables.items, tables.item_bias
    bags = whole(sides.item_rows)
    p = tables.items + sums(tables.features, bags)
    alone = tables.items.square() + sums_of_squares(tables.features, bags)
    linear = tables.item_bias + sums(tables.feature_bias[:, None], bags)[:, 0]
    return p, linear + 0.5 * (p.square() - alone).sum(1)


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length one, for cosines."""
    return normalize(vectors, dim=1, eps=1e-6)


def lend_items(query: np.ndarray, items: np.ndarray, history: History | None) -> None:
    """Histories that share the items' vectors show them in the table of query features."""
    if history is not None and history.shared:
        query[borrowed(history, len(items))] = items
