"""Steps down the slopes of a minibatch: Adam, or AdaGrad by row; users move where they are met."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from fmpair.arrays import Rows, tally
from fmpair.engine.contract import History, Parameters, Problem, Settings, TripleL2
from fmpair.engine.item_side import pair_columns
from fmpair.engine.strata.field_regularisation import FIRST, settled_l2, shared_item_rows

# The users that a minibatch meets: their slopes summed by user, whatever rows they stand in.


class Met(NamedTuple):
    """One user a row. A user who has several rows has the same sums in each of them.

    user: int64 [rows]; slope: float32 [rows, columns]; events: float32 [rows], 0 for a user who is
    not met after all, since minibatches have empty rows.
    """

    user: torch.Tensor
    slope: torch.Tensor
    events: torch.Tensor


def met_of(user: torch.Tensor, slope: torch.Tensor, events: torch.Tensor) -> Met:
    """Sums by user of what stands in rows. All sizes are known beforehand, so steps are recorded.

    It adds up in a fixed order, so that the bits are always alike.
    """
    order = torch.argsort(user, stable=True)
    ordered = user[order]
    place = torch.zeros_like(user)
    place[order[1:]] = (ordered[1:] != ordered[:-1]).cumsum(0)
    both = torch.cat([slope, events[:, None]], 1)
    total = torch.ops.aten.embedding_dense_backward(both, place, len(user), -1, False)[place]
    return Met(user, total[:, :-1], total[:, -1])


# Regularisation of minibatches: what an event takes of every row on average, all rows at once.
#
# Single steps hold the rows they move. A minibatch holds every row by how often steps would have
# met
# it among so many events: the same in the mean, and the same L2 in the end.


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
            held["items"] = held["items"] + held["query"][shared_item_rows(history, len(self.item))]
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


# A fit's usual rate is that of single events. Adam moves every number by the rate whatever the
# slopes are, so a vector by the rate times the root of its length: it takes a share of the rate
# that makes the usual one right for vectors of any length, and one option serves both engines.
ADAM_SHARE = 0.8
BETAS, TINY = (0.9, 0.999), 1e-8
BIASES = {"item_bias": "items", "feature_bias": "features"}  # whose row a bias is a part of


class Optimizer(Protocol):
    """Moves the tables that have slopes."""

    def set_rate(self, rate: float) -> None:
        """Of the steps to come."""
        ...

    def step(self) -> None:
        """Down the slopes, which are used up."""
        ...

    def step_users(self, met: Met) -> None:
        """The same of the users that are met; all others stay as they are."""
        ...

    def state(self) -> dict[str, torch.Tensor]:
        """What further steps depend on, by name, in its place."""
        ...


def optimizer_of(kind: str, tables: Parameters, speed: dict[str, float]) -> Optimizer:
    """The optimizer of a name; speed: of each table that moves, a multiple of the rate."""
    moving = {name: getattr(tables, name) for name in speed}
    return AdaGrad(moving, speed) if kind == "adagrad" else Adam(moving, speed)


def adam_share(factors: int) -> float:
    """What Adam takes of a learning rate, for vectors so long."""
    return ADAM_SHARE / math.sqrt(factors)


class Adam:
    """Adam (Kingma and Ba 2015), each number by its own slopes.

    A user is met in few steps of many. Theirs go at once as far as Adam would carry them until it
    has forgotten the slope, and squares fade with time as they do elsewhere; so those who are not
    met cost nothing. last: float32 [users], in which step each was met.
    """

    def __init__(self, tables: dict[str, torch.Tensor], speed: dict[str, float]):
        self.tables, self.speed = tables, speed
        others = {name: table for name, table in tables.items() if name != "users"}
        self.mean = {name: torch.zeros_like(table) for name, table in others.items()}
        self.square = {name: torch.zeros_like(table) for name, table in tables.items()}
        self.factors = max(
            (table.shape[1] for table in tables.values() if table.ndim > 1), default=1
        )
        device = next((table.device for table in tables.values()), None)
        self.steps = torch.zeros((), device=device)
        # on the device, so that a recorded step reads them
        self.rates = {speed: torch.zeros((), device=device) for speed in set(speed.values())}
        self.last = torch.zeros(len(tables["users"]) if "users" in tables else 0, device=device)

    def set_rate(self, rate: float) -> None:
        for speed, own in self.rates.items():
            own.fill_(rate * adam_share(self.factors) * speed)

    def step(self) -> None:
        names = [name for name, table in self.tables.items() if table.grad is not None]
        self.steps += 1
        for speed, rate in self.rates.items():
            own = [name for name in names if self.speed[name] == speed]
            if own:
                torch._fused_adam_(
                    [self.tables[name].detach() for name in own],
                    [self.tables[name].grad for name in own],
                    [self.mean[name] for name in own],
                    [self.square[name] for name in own],
                    [],
                    [self.steps] * len(own),
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

    def step_users(self, met: Met) -> None:
        user, there = met.user, met.events > 0
        square, last = self.square["users"], self.last
        old, before, beta = square[user], last[user], BETAS[1]
        faded = old * torch.pow(beta, self.steps - before)[:, None]
        own = torch.lerp(faded, met.slope.square(), 1 - beta)
        root = (own / (1 - torch.pow(beta, self.steps))).sqrt_().add_(TINY)
        rows = self.tables["users"][user]
        new = rows - self.rates[self.speed["users"]] * met.slope / root
        self.tables["users"][user] = torch.where(there[:, None], new, rows)
        square[user] = torch.where(there[:, None], own, old)
        last[user] = torch.where(there, self.steps, before)

    def state(self) -> dict[str, torch.Tensor]:
        found = {f"mean_{name}": own for name, own in self.mean.items()}
        found |= {f"square_{name}": own for name, own in self.square.items()}
        return found | {"steps": self.steps, "last": self.last}


class AdaGrad:
    """AdaGrad with one accumulator a row, a row's bias included, as the CPU engine has it."""

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

    def step_users(self, met: Met) -> None:
        user, sums, table = met.user, self.sums["users"], self.tables["users"]
        own = sums[user] + met.slope.square().sum(1) / table.shape[1]
        sums[user] = own  # where nobody is met the slope is 0
        step = self.rate * self.speed["users"] * met.slope / own.sqrt()[:, None]
        table[user] = table[user] - step

    def state(self) -> dict[str, torch.Tensor]:
        return {f"sums_{name}": own for name, own in self.sums.items()}
