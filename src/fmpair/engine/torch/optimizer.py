"""Steps down the slopes of a minibatch: Adam, or AdaGrad by row; users move where they are met."""

from __future__ import annotations

import math
from typing import Protocol

import torch

from fmpair.engine.contract import Parameters
from fmpair.engine.strata.accumulators import FIRST
from fmpair.engine.torch.met import Met

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
