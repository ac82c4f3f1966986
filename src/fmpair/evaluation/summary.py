"""Evaluations as tables: one with its intervals, or several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.data.splits import Split
from fmpair.data.synthetic import World
from fmpair.errors import OptionError
from fmpair.evaluation.evaluate import Evaluation, evaluate
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.statistics import bootstrap

REPEATS = 1000


def summary(evaluation: Evaluation, level: float = 0.95) -> pl.DataFrame:
    """(metric, value, low, high, corrected): means with bootstrap intervals over users.

    corrected: the estimate among all items from a sample, null where there is none. The interval
    is null where the metric has no value per unit.
    """
    rows = []
    for name, value in evaluation.means.items():
        low, high = _interval(name, evaluation.units.select("user", value=name), level)
        rows.append((name, value, low, high, evaluation.corrected.get(name.partition("[")[0])))
    kinds = dict.fromkeys(("value", "low", "high", "corrected"), pl.Float64)
    return pl.DataFrame(rows, {"metric": pl.String, **kinds}, orient="row")


def compare(evaluations: Mapping[str, Evaluation]) -> pl.DataFrame:
    """(model, one column per metric, coverage): by model, all under one protocol.

    Results of different protocols, or of different test events, are refused: their difference
    would say nothing about the models.
    """
    check_comparable(evaluations)
    rows = [
        {"model": name, **found.means, "coverage": found.coverage}
        for name, found in evaluations.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def check_comparable(evaluations: Mapping[str, Evaluation]) -> None:
    """Raise OptionError unless all were evaluated under one protocol, on the same units."""
    first = next(iter(evaluations), None)
    for name, found in evaluations.items():
        other = evaluations[first] if first is not None else found
        if found.protocol != other.protocol:
            raise OptionError(
                f"{first!r} was evaluated under {other.protocol} and {name!r} under "
                f"{found.protocol}: results of different protocols cannot share a table"
            )
        same = ("row", "user", "item")
        if not found.units.select(same).equals(other.units.select(same)):
            raise OptionError(f"{first!r} and {name!r} were evaluated on different test events")


def _interval(name: str, values: pl.DataFrame, level: float) -> tuple[float | None, float | None]:
    """values: (user, value) of the units."""
    known = values.drop_nulls("value")
    if not len(known):
        return None, None
    users = known["user"].rank("dense").to_numpy()
    low, high = bootstrap(known["value"].to_numpy(), level, REPEATS, users=users)
    return (low**0.5, high**0.5) if name.startswith("rmse") else (low, high)


# The best that is possible on generated data: the ranking of the oracle that made them.


def ceiling(
    world: World, splits: Sequence[Split], protocol: Protocol, metrics: Sequence[str]
) -> dict[str, float]:
    """What the true choice model reaches, on the mean over the splits."""

    def truth(asked: Dataset) -> np.ndarray:
        return world.scores(asked.user, asked.columns.select(asked.context))

    judged = [
        evaluate(
            truth, world.data.take(split.train), world.data.take(split.test), protocol, metrics
        )
        for split in splits
    ]
    return {name: fmean(one.means[name] for one in judged) for name in judged[0].means}


def busiest_user(data: Dataset) -> int:
    """The number of the user with most events."""
    return int(np.bincount(data.user).argmax())
