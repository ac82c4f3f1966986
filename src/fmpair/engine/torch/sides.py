"""Query vectors of a minibatch and the item side folded, as PyTorch computes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from fmpair.engine.contract import History, Problem, Triples
from fmpair.engine.strata.lending import borrowed
from fmpair.engine.torch.history import DeviceHistory, before, features_before, history_of
from fmpair.engine.torch.rows import (
    Bags,
    DeviceRows,
    on_device,
    sums,
    sums_of_squares,
    taken,
    whole,
)
from fmpair.engine.torch.second import DeviceMeeting, meeting_of, second
from fmpair.engine.triples import pair_columns

Tables = Any  # `Parameters` of tensors


class Sides(NamedTuple):
    """What features queries and items have; no rows: None. pairs: columns of vectors of pairs.

    of_query, of_item: which features of a side meet in pairs, where there are terms of order three.
    """

    user_rows: DeviceRows | None
    contexts: DeviceRows | None
    item_rows: DeviceRows | None
    history: DeviceHistory | None
    pairs: int
    of_query: DeviceMeeting | None
    of_item: DeviceMeeting | None


def sides_of(problem: Problem, columns: int, device: torch.device) -> Sides:
    """The features of both sides on a device; columns: of the tables."""

    def filled(rows: DeviceRows) -> DeviceRows | None:
        return rows if rows.filled else None

    triples, history = problem.triples, problem.history
    mirrored = triples is not None and triples.mirrored
    return Sides(
        filled(on_device(problem.user_rows, device)),
        filled(on_device(problem.contexts, device)),
        filled(on_device(problem.item_rows, device)),
        None if history is None else history_of(history, problem.items, device),
        pair_columns(columns, triples),
        meeting_of(triples.query, device) if triples else None,
        meeting_of(triples.item, device) if triples and mirrored else None,
    )


def query_vectors(
    sides: Sides,
    tables: Tables,
    own: torch.Tensor,
    user: torch.Tensor,
    situation: torch.Tensor,
    event: torch.Tensor | None,
) -> torch.Tensor:
    """[queries, length]: what meets the items' vectors; event: whose history it is, None for none.

    own: [queries, columns], the rows of the users. With terms of order three [q | A2 | A1], see
    `engine.triples`.
    """
    total, bags = own, _bags(sides, user, situation)
    for bag in bags:
        total = total + sums(tables.query, bag)
    history = sides.history if event is not None else None
    if history is not None and event is not None:
        earlier = before(history, user, event)
        total = total + _of_history(history, tables, earlier, sides.pairs)
        if sides.of_query is not None:
            bags.append(features_before(history, earlier))
    if sides.of_query is None:
        return total
    table = tables.query[:, sides.pairs :].contiguous()
    two = second(own[:, sides.pairs :], total[:, sides.pairs :], bags, table, sides.of_query)
    parts = [total[:, : sides.pairs], two, total[:, sides.pairs :]]
    return torch.cat(parts if sides.of_item is not None else parts[:2], 1)


def _bags(sides: Sides, user: torch.Tensor, situation: torch.Tensor) -> list[Bags]:
    """The query features of each query, but those of its history."""
    found = []
    if sides.user_rows is not None:
        found.append(taken(sides.user_rows, user))
    if sides.contexts is not None:
        found.append(taken(sides.contexts, situation))
    return found


def _of_history(history: DeviceHistory, tables: Tables, earlier: Bags, pairs: int) -> torch.Tensor:
    """[queries, columns]: the sum of what came before, by each item's vector as an earlier one."""
    if history.features is None and not history.shared:
        return sums(tables.query, earlier._replace(column=earlier.column + history.first))
    if history.features is not None:
        vectors = sums(tables.query, whole(history.features))
    else:
        vectors = tables.query[history.first : history.first + history.items]
    if history.shared:  # only the vectors of pairs are
        vectors = torch.cat([tables.items[:, :pairs], vectors[:, pairs:]], 1)
    return sums(vectors, earlier)


def item_vectors(sides: Sides, tables: Tables) -> tuple[torch.Tensor, torch.Tensor]:
    """(vectors [items, length], constants [items]), as `engine.item_side` defines them."""
    if sides.item_rows is None:
        return tables.items, tables.item_bias
    bags, pairs = whole(sides.item_rows), sides.pairs
    total = tables.items + sums(tables.features, bags)
    own = tables.features[:, :pairs].contiguous()
    alone = tables.items[:, :pairs].square() + sums_of_squares(own, bags)
    linear = tables.item_bias + sums(tables.feature_bias[:, None], bags)[:, 0]
    constants = linear + 0.5 * (total[:, :pairs].square() - alone).sum(1)
    if sides.of_item is None:
        return total, constants
    own, table = tables.items[:, pairs:], tables.features[:, pairs:].contiguous()
    two = second(own, total[:, pairs:], [bags], table, sides.of_item)
    return torch.cat([total, two], 1), constants


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Vectors of length one, for cosines."""
    return normalize(vectors, dim=1, eps=1e-6)


def lend_items(
    query: np.ndarray, items: np.ndarray, history: History | None, triples: Triples | None
) -> None:
    """Histories that share the items' vectors show them in the table of query features."""
    if history is not None and history.shared:
        pairs = pair_columns(items.shape[1], triples)
        query[borrowed(history, len(items)), :pairs] = items[:, :pairs]
