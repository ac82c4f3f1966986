"""Measurements that take turns, and what to make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from worker import Worker


@dataclass(frozen=True)
class Bench:
    """What a question is given. missing: why a library is not among the workers."""

    workers: dict[str, Worker]
    missing: dict[str, str]
    repeats: int
    folder: Path


@dataclass(frozen=True)
class Check:
    """A promise and what was measured."""

    claim: str
    value: float | None
    target: float
    at_most: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        kept = self.value <= self.target if self.at_most else self.value >= self.target
        return "met" if kept else "missed"


@dataclass(frozen=True)
class Answer:
    """The answer to one question: tables by name, the promises it decides, what else to say."""

    tables: dict[str, list[dict[str, Any]]]
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def in_turn(cases: Mapping[Any, Callable[[], float]], repeats: int) -> dict[Any, list[float]]:
    """Every case's values, measured one after the other, round by round.

    A machine that slows down for a while then slows all of them.
    """
    values: dict[Any, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, measure in cases.items():
            values[name].append(measure())
    return values


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios of values that were measured in the same round."""
    return median(a / b for a, b in zip(ours, theirs))


def updates_a_second(answer: Mapping[str, Any]) -> float:
    """Million effective updates a second, from all epochs but the first (it may compile)."""
    first = 1 if len(answer["seconds"]) > 1 else 0
    return sum(answer["updates"][first:]) / sum(answer["seconds"][first:]) / 1e6


def straight_line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """(intercept, slope, R2) of the line nearest to the points."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.asarray(y) - (intercept + slope * np.asarray(x))
    return float(intercept), float(slope), float(1 - rest.var() / np.var(y))


__all__ = ["Answer", "Bench", "Check", "in_turn", "median", "ratio", "straight_line",
           "updates_a_second"]  # fmt: skip
