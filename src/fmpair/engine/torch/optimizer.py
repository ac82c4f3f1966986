"""Minibatch updates: gradients summed by user, expected L2 regularisation, Adam and AdaGrad."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import History, Parameters, Problem, Settings, TripleL2
from fmpair.engine.item_side import pair_columns
from fmpair.engine.strata.field_regularisation import FIRST, settled_l2, shared_item_rows
from fmpair.engine.torch.events import learned_events


class UserGradients(NamedTuple):
    """Gradients of a minibatch summed by user. All rows of a user hold the same sums.

    user: int64 [rows]; slope: float32 [rows, columns]; events: float32 [rows], 0 for the user of an
    empty row.
    """

    user: torch.Tensor
    slope: torch.Tensor
    events: torch.Tensor


def user_gradients(user: torch.Tensor, slope: torch.Tensor, events: torch.Tensor) -> UserGradients:
    """Sum the rows of each user, in a fixed order, so that results are deterministic.

    All shapes are known in advance, so that steps can be recorded as CUDA graphs.
    """
    order = torch.argsort(user, stable=True)
    ordered = user[order]
    group = torch.zeros_like(user)
    group[order[1:]] = (ordered[1:] != ordered[:-1]).cumsum(0)
    both = torch.cat([slope, events[:, None]], 1)
    total = torch.ops.aten.embedding_dense_backward(both, group, len(user), -1, False)[group]
    return UserGradients(user, total[:, :-1], total[:, -1])


class Decay:
    """The expected regularisation of every row per event, by table: float32 [rows].

    Single steps regularise the rows they update. A minibatch regularises every row by how often
    single steps would have updated it: the same on average. Users are regularised per own event.
    """

    def __init__(self, problem: Problem, settings: Settings, device: torch.device):
        self.problem, self.settings, self.device = problem, settings, device
        learned = learned_events(problem)
        item = _some(problem.item, learned)
        self.events = max(len(item), 1)
        self.item = tally(item, problem.items) / self.events
        self.drawn = problem.drawn / max(problem.drawn.sum(), 1)
        self.query, self.feature = self._query(learned), self._feature()

    def tables(self, tables: Any, epoch: int) -> dict[str, torch.Tensor]:
        """Return the strengths for an epoch that starts with these tables of tensors.

        Tables: [rows, 1], or [rows, columns] with terms of order three, whose vectors have their
        own strength; biases: [rows]. Users have a single row if all have the same strength.
        """
        settings = self.settings
        thresholds: list[Any] = [settings, *([settings.triples] if settings.triples else [])]
        adapts = any(
            (t.query_threshold > 0).any() or (t.feature_threshold > 0).any() for t in thresholds
        )
        query, features = (_host(table, adapts) for table in (tables.query, tables.features))
        settled = settled_l2(settings, query, features, self.problem, epoch)
        strengths = self._of_pairs(settled)
        by_table = {name: self._moved(rows)[:, None] for name, rows in strengths.items()}
        if settled.triples is not None:
            pairs = pair_columns(tables.users.shape[1], self.problem.triples)
            for name, rows in self._of_triples(settled, settled.triples).items():
                more = getattr(tables, name).shape[1] - pairs
                wide = (
                    by_table[name].expand(-1, pairs),
                    self._moved(rows)[:, None].expand(-1, more),
                )
                by_table[name] = torch.cat(wide, 1)
        biases = {
            "item_bias": settled.bias * (self.item + self.drawn),
            "feature_bias": strengths["features"],
        }
        return by_table | {name: self._moved(rows) for name, rows in biases.items()}

    def _of_pairs(self, settled: Settings) -> dict[str, np.ndarray]:
        """Return the strengths of vectors of pairs, by table."""
        users, items = settled.l2_scale if settled.l2_scale else (1.0, 1.0)
        strengths = {
            "users": np.atleast_1d(settled.user * users),
            "items": items * (settled.positive * self.item + settled.negative * self.drawn),
            "query": settled.query * self.query,
            "features": settled.features * self.feature,
        }
        history = self.problem.history
        if history is not None and history.shared:
            of_history = strengths["query"][shared_item_rows(history, len(self.item))]
            strengths["items"] = strengths["items"] + of_history
        return strengths

    def _of_triples(self, settled: Settings, triples: TripleL2) -> dict[str, np.ndarray]:
        """Return the strengths of vectors of triples, by table."""
        users, items = settled.l2_scale if settled.l2_scale else (1.0, 1.0)
        return {
            "users": np.atleast_1d(triples.user * users),
            "items": triples.item * items * (self.item + self.drawn),
            "query": triples.query * self.query,
            "features": triples.features * self.feature,
        }

    def _query(self, learned: np.ndarray | None) -> np.ndarray:
        """Return the share of events that each query feature occurs in: float64 [features]."""
        problem, size = self.problem, len(self.settings.query)
        times = _times(problem.user_rows, _some(problem.user, learned), size)
        times += _times(problem.contexts, _some(problem.situation, learned), size)
        if problem.history is not None:
            rows, seen = problem.history.rows, _seen(problem.history, problem.user, learned)
            by_item = tally(problem.history.item, problem.items, seen)
            times += np.bincount(rows.column, by_item[rows.owner], size)
        return np.minimum(times / self.events, 1.0)

    def _feature(self) -> np.ndarray:
        """Return the same for item features, over chosen items and negatives."""
        rows, share = self.problem.item_rows, self.item + self.drawn
        times = np.bincount(rows.column, share[rows.owner], len(self.settings.features))
        return np.minimum(times, 1.0)

    def _moved(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(rows.astype(np.float32)).to(self.device)


def _host(table: torch.Tensor, needed: bool) -> np.ndarray:
    """Copy the table to main memory; without rows if its values are not needed."""
    return table.detach()[: None if needed else 0].cpu().numpy()


def _some(column: np.ndarray, events: np.ndarray | None) -> np.ndarray:
    """Return the values of some events, None for all."""
    return column if events is None else column[events]


def _times(rows: Rows, number: np.ndarray, size: int) -> np.ndarray:
    """Count the events of each feature, given each event's row number: float64 [size]."""
    events = tally(number, rows.size)
    return np.bincount(rows.column, events[rows.owner], size).astype(np.float64)


def _seen(history: History, user: np.ndarray, learned: np.ndarray | None) -> np.ndarray:
    """Count the events that have each place of a time line in their history: float64 [places]."""
    until = _some(history.until, learned).astype(np.int64)
    limited = len(history.since) > 0
    since = _some(history.since, learned) if limited else history.start[_some(user, learned)]
    first = np.maximum(until - len(history.weight), since)
    edges = np.zeros(len(history.item) + 1)
    edges += tally(first, len(edges)) - tally(until, len(edges))
    return np.cumsum(edges)[:-1]


# The learning rate is that of single events. Adam moves every number by the rate whatever its
# gradient, so a vector by the rate times the root of its length. Adam therefore uses the rate times
# .8 / sqrt(factors), so that one option suits both engines at any vector length.
ADAM_SHARE = 0.8
BETAS, TINY = (0.9, 0.999), 1e-8
LEAN = 1 << 26  # numbers in the vectors of all users
BIASES = {"item_bias": "items", "feature_bias": "features"}  # the table whose rows have the bias


class Optimizer(Protocol):
    """Updates the tables that have gradients."""

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the following steps."""
        ...

    def step(self) -> None:
        """Update all tables but users, and clear their gradients."""
        ...

    def step_users(self, users: UserGradients) -> None:
        """Update the users of a minibatch; other users do not change."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that further steps depend on, by name, without copying them."""
        ...


def optimizer_of(kind: str, tables: Parameters, speed: dict[str, float]) -> Optimizer:
    """Return the optimizer of that name. speed: multiple of the rate, for each trained table."""
    moving = {name: getattr(tables, name) for name in speed}
    return AdaGrad(moving, speed) if kind == "adagrad" else Adam(moving, speed)


class Adam:
    """Adam (Kingma and Ba 2015).

    A user occurs in few steps. Such a step moves the user at once as far as Adam would until the
    gradient is forgotten, and squared gradients decay with the steps between, so that absent users
    cost nothing. last: float32 [users], the latest step of each. Tables of users from LEAN numbers
    on have the mean squared gradient of a row instead of one for each of its numbers.
    """

    def __init__(self, tables: dict[str, torch.Tensor], speed: dict[str, float]):
        self.tables, self.speed = tables, speed
        others = {name: table for name, table in tables.items() if name != "users"}
        self.mean = {name: torch.zeros_like(table) for name, table in others.items()}
        self.square = {name: torch.zeros_like(table) for name, table in tables.items()}
        if "users" in tables and tables["users"].numel() >= LEAN:
            self.square["users"] = tables["users"].new_zeros((len(tables["users"]), 1))
        self.factors = max(
            (table.shape[1] for table in tables.values() if table.ndim > 1), default=1
        )
        device = next((table.device for table in tables.values()), None)
        self.steps = torch.zeros((), device=device)
        # on the device, where recorded steps read them
        self.rates = {speed: torch.zeros((), device=device) for speed in set(speed.values())}
        self.last = torch.zeros(len(tables["users"]) if "users" in tables else 0, device=device)

    def set_rate(self, rate: float) -> None:
        share = ADAM_SHARE / math.sqrt(self.factors)
        for speed, scaled_rate in self.rates.items():
            scaled_rate.fill_(rate * share * speed)

    def step(self) -> None:
        names = [name for name, table in self.tables.items() if table.grad is not None]
        self.steps += 1
        for speed, rate in self.rates.items():
            at_speed = [name for name in names if self.speed[name] == speed]
            if at_speed:
                torch._fused_adam_(
                    [self.tables[name].detach() for name in at_speed],
                    [self.tables[name].grad for name in at_speed],
                    [self.mean[name] for name in at_speed],
                    [self.square[name] for name in at_speed],
                    [],
                    [self.steps] * len(at_speed),
                    lr=rate,
                    beta1=BETAS[0],
                    beta2=BETAS[1],
                    weight_decay=0.0,
                    eps=TINY,
                    amsgrad=False,
                    maximize=False,
                )
        for name in names:
            self.tables[name].grad = None

    def step_users(self, users: UserGradients) -> None:
        user, there = users.user, users.events > 0
        square, last = self.square["users"], self.last
        old, before, beta = square[user], last[user], BETAS[1]
        faded = old * torch.pow(beta, self.steps - before)[:, None]
        squares = users.slope.square()
        squares = squares.mean(1, keepdim=True) if square.shape[1] == 1 else squares
        averaged = torch.lerp(faded, squares, 1 - beta)
        root = (averaged / (1 - torch.pow(beta, self.steps))).sqrt_().add_(TINY)
        rows = self.tables["users"][user]
        new = rows - self.rates[self.speed["users"]] * users.slope / root
        self.tables["users"][user] = torch.where(there[:, None], new, rows)
        square[user] = torch.where(there[:, None], averaged, old)
        last[user] = torch.where(there, self.steps, before)

    def state(self) -> dict[str, torch.Tensor]:
        state = {f"mean_{name}": tensor for name, tensor in self.mean.items()}
        state |= {f"square_{name}": tensor for name, tensor in self.square.items()}
        return state | {"steps": self.steps, "last": self.last}


class AdaGrad:
    """AdaGrad with one accumulator per row, which includes the row's bias, as in the CPU engine."""

    def __init__(self, tables: dict[str, torch.Tensor], speed: dict[str, float]):
        self.tables, self.speed = tables, speed
        device = next((table.device for table in tables.values()), None)
        self.rate = torch.zeros((), device=device)
        self.sums = {
            name: torch.full((len(table),), FIRST, device=table.device)
            for name, table in tables.items()
            if name not in BIASES
        }

    def set_rate(self, rate: float) -> None:
        self.rate.fill_(rate)

    def step(self) -> None:
        slopes = {n: t.grad for n, t in self.tables.items() if t.grad is not None}
        for name, slope in slopes.items():
            home = BIASES.get(name, name)
            if home in self.sums:
                wide = self.tables[home].shape[1]
                self.sums[home] += slope.square().view(len(slope), -1).sum(1) / wide
        for name, slope in slopes.items():
            table, home = self.tables[name], BIASES.get(name, name)
            sums = self.sums.get(home, torch.full((len(table),), FIRST, device=table.device))
            root = sums.sqrt().view(-1, *[1] * (table.ndim - 1))
            table.data.sub_(self.rate * self.speed[name] * slope / root)
            table.grad = None

    def step_users(self, users: UserGradients) -> None:
        user, sums, table = users.user, self.sums["users"], self.tables["users"]
        total = sums[user] + users.slope.square().sum(1) / table.shape[1]
        sums[user] = total  # the gradient of an empty row is 0
        step = self.rate * self.speed["users"] * users.slope / total.sqrt()[:, None]
        table[user] = table[user] - step

    def state(self) -> dict[str, torch.Tensor]:
        return {f"sums_{name}": tensor for name, tensor in self.sums.items()}
