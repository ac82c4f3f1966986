"""One pass over the events, and the loop that makes passes: the caller owns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fmpair.compile_time import CLOCK
from fmpair.errors import TrainingError


@dataclass(frozen=True)
class Epoch:
    """One pass over the events. `recommender()` gives the model, until the next epoch begins.

    seconds: without those of compiling. value: the metric on held-out events, where `fit` was given
    some.
    """

    number: int
    seconds: float
    loss: float
    _make: Callable[[], Any] = field(repr=False, compare=False)
    value: float | None = None

    def recommender(self) -> Any:
        return self._make()


def epochs(
    count: int, learn: Callable[[int], float], fitted: Callable[[], Any], first: int = 1
) -> Iterator[Epoch]:
    """Epochs up to count. learn: makes one of them and gives its loss; fitted: the model so far."""
    reached = 0

    def make(number: int) -> Any:
        if number != reached:
            raise TrainingError(f"epoch {number} is past: ask for its recommender before the next")
        return fitted()

    for number in range(first, count + 1):
        reached, began = number, CLOCK.now()
        loss = learn(number)
        yield Epoch(number, CLOCK.now() - began, loss, partial(make, number))


def with_models(epochs: Iterator[Epoch], change: Callable[[Any], Any]) -> Iterator[Epoch]:
    """The epochs with their models changed before they are handed out."""

    def changed(epoch: Epoch) -> Epoch:
        return replace(epoch, _make=lambda: change(epoch.recommender()))

    return map(changed, epochs)


def diverged(number: int, remedy: str) -> TrainingError:
    """The error of training whose numbers grow without bound; remedy: what would help."""
    return TrainingError(f"diverged in epoch {number}: {remedy}")
