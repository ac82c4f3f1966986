"""Regularisation of minibatches: what an event takes of every row on average, all rows at once.

Single steps hold the rows they move. A minibatch holds every row by how often steps would have met
it among so many events: the same in the mean, and the same L2 in the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import History, Problem, Settings, TripleL2
from fmpair.engine.strata.lending import borrowed
from fmpair.engine.strata.regularisation import settled_l2
from fmpair.engine.triples import pair_columns


class Decay:
    """By table, float32 [rows]: what one event's regularisation is of each row.

    Of users it is that of their own events, and they are regularised where they are met.
    """

    def __init__(self, problem: Problem, settings: Settings, device: torch.device):
        self.problem, self.settings, self.device = problem, settings, device
        learned = np.flatnonzero(~problem.known)
        self.events = max(len(learned), 1)
        self.item = tally(problem.item[learned], problem.items) / self.events
        self.drawn = problem.drawn / max(problem.drawn.sum(), 1)
        self.query, self.feature = self._query(learned), self._feature()

    def tables(self, tables: Any, epoch: int) -> dict[str, torch.Tensor]:
        """The strength for an epoch that begins with these tables: [rows, 1], biases [rows].

        tables: `Parameters` of tensors.
        With terms of order three [rows, columns], since their vectors are held apart. Of users one
        row where all are held alike.
        """
        given = self.settings
        thresholds: list[Any] = [given, *([given.triples] if given.triples else [])]
        adapts = any(
            (t.query_threshold > 0).any() or (t.feature_threshold > 0).any() for t in thresholds
        )
        query, features = (_host(table, adapts) for table in (tables.query, tables.features))
        own = settled_l2(given, query, features, self.problem, epoch)
        held = self._of_pairs(own)
        found = {name: self._moved(rows)[:, None] for name, rows in held.items()}
        if own.triples is not None:
            pairs = pair_columns(tables.users.shape[1], self.problem.triples)
            for name, rows in self._of_triples(own, own.triples).items():
                more = getattr(tables, name).shape[1] - pairs
                wide = (
                    found[name].expand(-1, pairs),
                    self._moved(rows)[:, None].expand(-1, more),
                )
                found[name] = torch.cat(wide, 1)
        biases = {
            "item_bias": own.bias * (self.item + self.drawn),
            "feature_bias": held["features"],
        }
        return found | {name: self._moved(rows) for name, rows in biases.items()}

    def _of_pairs(self, own: Settings) -> dict[str, np.ndarray]:
        """By table, what holds vectors of pairs."""
        users, items = own.l2_scale if own.l2_scale else (1.0, 1.0)
        held = {
            "users": np.atleast_1d(own.user * users),
            "items": items * (own.positive * self.item + own.negative * self.drawn),
            "query": own.query * self.query,
            "features": own.features * self.feature,
        }
        history = self.problem.history
        if history is not None and history.shared:
            held["items"] = held["items"] + held["query"][borrowed(history, len(self.item))]
        return held

    def _of_triples(self, own: Settings, triples: TripleL2) -> dict[str, np.ndarray]:
        """By table, what holds vectors of triples."""
        users, items = own.l2_scale if own.l2_scale else (1.0, 1.0)
        return {
            "users": np.atleast_1d(triples.user * users),
            "items": triples.item * items * (self.item + self.drawn),
            "query": triples.query * self.query,
            "features": triples.features * self.feature,
        }

    def _query(self, learned: np.ndarray) -> np.ndarray:
        """float64 [query features]: in what share of the events each occurs."""
        problem, size = self.problem, len(self.settings.query)
        times = _times(problem.user_rows, problem.user[learned], size)
        times += _times(problem.contexts, problem.situation[learned], size)
        if problem.history is not None:
            rows, seen = problem.history.rows, _seen(problem.history, problem.user, learned)
            by_item = tally(problem.history.item, problem.items, seen)
            times += np.bincount(rows.column, by_item[rows.owner], size)
        return np.minimum(times / self.events, 1.0)

    def _feature(self) -> np.ndarray:
        """float64 [item features]: the same, of chosen items and of those drawn beside them."""
        rows, share = self.problem.item_rows, self.item + self.drawn
        found = np.bincount(rows.column, share[rows.owner], len(self.settings.features))
        return np.minimum(found, 1.0)

    def _moved(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows.astype(np.float32)).to(self.device)


def _host(table: torch.Tensor, needed: bool) -> np.ndarray:
    """The table in main memory; where nothing follows its strength, no row of it."""
    return table.detach()[: None if needed else 0].cpu().numpy()


def _times(rows: Rows, number: np.ndarray, size: int) -> np.ndarray:
    """In how many events each feature occurs, given each event's row number."""
    events = tally(number, rows.size)
    return np.bincount(rows.column, events[rows.owner], size).astype(np.float64)


def _seen(history: History, user: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """float64 [places]: how many events have each place of a time line in their history."""
    until = history.until[learned].astype(np.int64)
    since = history.since[learned] if len(history.since) else history.start[user[learned]]
    first = np.maximum(until - len(history.weight), since)
    edges = np.zeros(len(history.item) + 1)
    edges += tally(first, len(edges)) - tally(until, len(edges))
    return np.cumsum(edges)[:-1]
