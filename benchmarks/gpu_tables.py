"""Tables in bfloat16: what they cost in quality, and what memory they would save.

    FMPAIR_DATA=... python benchmarks/gpu_tables.py [SET ...]

Sets: yelp2018 (exact softmax, 256 factors), ml-100k (64 factors, no history), generated (17 million
events, 64 factors); all unless given. Every set is fitted with tables of float32, of
bfloat16 rounded to the nearest after every step, and of bfloat16 rounded up or down at random, in
proportion to the distance, so that the mean is right. The rounded tables are held in float32, which
changes no value: quality is that of bfloat16 tables with gradients and Adam's state in float32. The
bytes are computed: two instead of four for each number and for the last epoch's copy of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gpu import DEVICE, EVENTS, ITEMS, USERS, YELP, generated, table
from tasks import in_one_line

from fmpair import Dataset, FMPair
from fmpair.data import public_sets
from fmpair.data.splits import holdout, leave_last_out
from fmpair.engine.torch import optimizer
from fmpair.engine.torch.optimizer import Adam, UserGradients
from fmpair.evaluation import evaluate

SEEDS = (0, 1, 2)
KEPT = -65536  # the bits of a float32 that bfloat16 has
ROUNDS = ("float32", "to the nearest", "at random")
FLOAT32, NEAREST, RANDOM = ROUNDS


def main() -> None:
    head = ("set", "tables", "seed", "metric", "whole fit s", "GB of tables", "GB of states")
    for name in sys.argv[1:] or SETS:
        print(f"\n## {name}", flush=True)
        table(head, _rows(name))


def _rows(name: str) -> Iterator[tuple[Any, ...]]:
    train, test, options, protocol, metric = SETS[name]()
    for seed in SEEDS:
        for rounds in ROUNDS:
            recipe = FMPair(**options, seed=seed, device=DEVICE)
            with rounded(rounds):
                began = time.perf_counter()
                model = recipe.fit(train)
                seconds = time.perf_counter() - began
            value = evaluate(model, train, test, protocol, (metric,)).means[metric]
            numbers = sum(array.size for array in model.parameters)
            each = 4 if rounds == FLOAT32 else 2
            sizes = (f"{2 * each * numbers / 2**30:.3f}", f"{8 * numbers / 2**30:.3f}")
            yield name, rounds, seed, f"{metric} {value:.4f}", f"{seconds:.2f}", *sizes


# Rounding.


def noise(row: torch.Tensor, columns: int, step: torch.Tensor) -> torch.Tensor:
    """Return 16 random bits for each number: a hash of row, column and step, int32."""
    place = row.long()[:, None] * columns + torch.arange(columns, device=row.device)
    mixed = (place + step.long() * 0x9E3779B97F4A7C1) * -7046029254386353131
    mixed = (mixed ^ (mixed >> 29)) * -4658895280553007687
    return ((mixed >> 40) & 0xFFFF).int()


def as_bfloat16(values: torch.Tensor, bits: torch.Tensor | None) -> torch.Tensor:
    """Return float32 values that bfloat16 can hold; bits: None rounds to the nearest."""
    if bits is None:
        return values.bfloat16().float()
    whole = values.contiguous().view(torch.int32) + bits
    return (whole & KEPT).view(torch.float32)


class Rounding(Adam):
    """Adam on tables that are rounded after every step."""

    at_random = False

    def step(self) -> None:
        super().step()
        for name, own in self.tables.items():
            if name != "users":
                values = own.detach()
                wide = values if values.ndim > 1 else values[:, None]
                row = torch.arange(len(wide), device=wide.device)
                wide.copy_(as_bfloat16(wide, self._bits(row, wide.shape[1])))

    def step_users(self, users: UserGradients) -> None:
        super().step_users(users)
        own = self.tables["users"].detach()
        values = own[users.user]
        own[users.user] = as_bfloat16(values, self._bits(users.user, values.shape[1]))

    def _bits(self, row: torch.Tensor, columns: int) -> torch.Tensor | None:
        return noise(row, columns, self.steps) if self.at_random else None


@contextmanager
def rounded(rounds: str) -> Iterator[None]:
    """Train with tables rounded like that inside the block."""
    before = optimizer.Adam
    Rounding.at_random = rounds == RANDOM
    vars(optimizer)["Adam"] = before if rounds == FLOAT32 else Rounding
    try:
        yield
    finally:
        vars(optimizer)["Adam"] = before


# The sets: training and test events, options, protocol and metric.


Judged = tuple[Dataset, Dataset, dict[str, Any], str | None, str]


def _yelp() -> Judged:
    train, test = (public_sets.load("yelp2018", part=part) for part in ("train", "test"))
    return train, test, YELP["16 epochs"], "full-user", "ndcg@20"


def _ml_100k() -> Judged:
    data = public_sets.load("ml-100k")
    split = leave_last_out(data)
    options = {"factors": 64, "history": 0, "order": 2, "times": False, "epochs": 12}
    return data.take(split.train), data.take(split.test), options, "next-item", "ndcg@10"


def _generated() -> Judged:
    data = generated(USERS, ITEMS, EVENTS)
    split = holdout(data, test=20_000 / len(data), seed=1)
    options = {"factors": 64, "history": 0, "epochs": 4}
    return data.take(split.train), data.take(split.test), options, None, "ndcg@10"


SETS: dict[str, Callable[[], Judged]] = {
    "yelp2018": _yelp,
    "ml-100k": _ml_100k,
    "generated": _generated,
}


def _self_check() -> None:
    """Random rounding keeps the mean, and both kinds hold only what bfloat16 can."""
    values = torch.full((1000, 64), 0.1234567)
    bits = noise(torch.arange(1000), 64, torch.tensor(3.0))
    found = as_bfloat16(values, bits)
    assert torch.equal(found.bfloat16().float(), found)
    assert abs(float(found.double().mean()) - 0.1234567) < 1e-5
    assert len(np.unique(found.numpy())) == 2


if __name__ == "__main__":
    _self_check()
    in_one_line(main)
