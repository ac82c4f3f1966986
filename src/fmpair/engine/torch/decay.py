"""Regularisation of minibatches: what an event takes of every row on average, all rows at once.

Single steps hold the rows they move. A minibatch holds every row by how often steps would have met
it among so many events: the same in the mean, and the same L2 in the end.
"""

from __future__ import annotations

import numpy as np
import torch

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import History, Parameters, Problem, Settings
from fmpair.engine.strata.lending import borrowed
from fmpair.engine.strata.regularisation import field_l2


class Decay:
    """By table, float32 [rows]: what one event's regularisation is of each row."""

    def __init__(self, problem: Problem, settings: Settings, device: torch.device):
        self.problem, self.settings, self.device = problem, settings, device
        learned = np.flatnonzero(~problem.known)
        self.events = max(len(learned), 1)
        self.user = tally(problem.user[learned], problem.users) / self.events
        self.item = tally(problem.item[learned], problem.items) / self.events
        self.drawn = problem.drawn / max(problem.drawn.sum(), 1)
        self.query, self.feature = self._query(learned), self._feature()
        self.ids = {name: self._moved(rows) for name, rows in self._ids().items()}

    def tables(self, tables: Parameters) -> dict[str, torch.Tensor]:
        """The strength for an epoch that begins with these tables."""
        own, problem = self.settings, self.problem
        found = dict(self.ids)
        for name, times, fixed, threshold, groups in (
            ("query", self.query, own.query, own.query_threshold, problem.query_groups),
            ("features", self.feature, own.features, own.feature_threshold, problem.item_groups),
        ):
            if len(times):
                table = getattr(tables, name).detach()
                table = table.cpu().numpy() if (threshold > 0).any() else np.zeros((0, 0))
                l2 = field_l2(fixed, threshold, own.strongest, table, groups)
                found[name] = self._moved(times * l2)
        if "features" in found:
            found["feature_bias"] = found["features"]
        if problem.history is not None and problem.history.shared and "query" in found:
            found["items"] = found["items"] + found["query"][borrowed(problem.history, len(self.item))]
        return found

    def _ids(self) -> dict[str, np.ndarray]:
        own = self.settings
        users, items = own.l2_scale if own.l2_scale else (1.0, 1.0)
        return {
            "users": own.user * users * self.user,
            "items": items * (own.positive * self.item + own.negative * self.drawn),
            "item_bias": own.bias * (self.item + self.drawn),
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
