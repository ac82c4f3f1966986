"""Steps down the slopes of a minibatch: Adam, or AdaGrad by row."""

from __future__ import annotations

import math
from typing import Protocol

import torch

from fmpair.engine.contract import Parameters
from fmpair.engine.strata.accumulators import FIRST

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


def optimizer_of(kind: str, tables: Parameters, speed: dict[str, float]) -> Optimizer:
    """The optimizer of a name; speed: of each table that moves, a multiple of the rate."""
    moving = {name: getattr(tables, name) for name in speed}
    return AdaGrad(moving, speed) if kind == "adagrad" else Adam(moving, speed)


def adam_share(factors: int) -> float:
    """What Adam takes of a learning rate, for vectors so long."""
    return ADAM_SHARE / math.sqrt(factors)


class Adam:
    """Adam (Kingma and Ba 2015), each number by its own slopes."""

    def __init__(self, tables: dict[str, torch.Tensor], speed: dict[str, float]):
        self.tables, self.speed = tables, speed
        self.mean = {name: torch.zeros_like(table) for name, table in tables.items()}
        self.square = {name: torch.zeros_like(table) for name, table in tables.items()}
        self.factors = max(
            (table.shape[1] for table in tables.values() if table.ndim > 1), default=1
        )
        device = next((table.device for table in tables.values()), None)
        self.steps = torch.zeros((), device=device)
        # on the device, so that a recorded step reads them
        self.rates = {speed: torch.zeros((), device=device) for speed in set(speed.values())}

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
