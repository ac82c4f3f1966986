"""Tables of evaluations: one with confidence intervals, or several models side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Dataset, as_dataset, columns_of
from fmpair.data.splits import Split
from fmpair.data.synthetic import World
from fmpair.errors import OptionError
from fmpair.evaluation.evaluation import Evaluation, evaluate
from fmpair.evaluation.protocol import Protocol
from fmpair.evaluation.statistics import bootstrap

REPEATS = 1000
SAME_UNITS = ("row", "user", "item")


def summary(evaluation: Evaluation, level: float = 0.95) -> pl.DataFrame:
    """Return (metric, value, low, high, corrected): means with bootstrap intervals over users.

    corrected: the estimate among all items, null unless candidates were sampled. The interval is
    null if the metric has no value per unit.
    """
    rows = []
    for name, value in evaluation.means.items():
        low, high = _interval(name, evaluation.units.select("user", value=name), level)
        rows.append((name, value, low, high, evaluation.corrected.get(name.partition("[")[0])))
    types = dict.fromkeys(("value", "low", "high", "corrected"), pl.Float64)
    return pl.DataFrame(rows, {"metric": pl.String, **types}, orient="row")


def _interval(name: str, values: pl.DataFrame, level: float) -> tuple[float | None, float | None]:
    """values: (user, value) of the units."""
    known = values.drop_nulls("value")
    if not len(known):
        return None, None
    users = known["user"].rank("dense").to_numpy()
    low, high = bootstrap(known["value"].to_numpy(), level, REPEATS, users=users)
    return (low**0.5, high**0.5) if name.startswith("rmse") else (low, high)


def compare(evaluations: Mapping[str, Evaluation]) -> pl.DataFrame:
    """Return (model, one column per metric, coverage), one row per model.

    Raise OptionError unless all were evaluated under one protocol, on the same units.
    """
    first = next(iter(evaluations), None)
    for name, evaluation in evaluations.items():
        other = evaluations[first] if first is not None else evaluation
        if evaluation.protocol != other.protocol:
            raise OptionError(
                f"cannot compare different protocols: {first!r} was evaluated under "
                f"{other.protocol}, {name!r} under {evaluation.protocol}"
            )
        if not evaluation.units.select(SAME_UNITS).equals(other.units.select(SAME_UNITS)):
            raise OptionError(f"{first!r} and {name!r} were evaluated on different test events")
    rows = [
        {"model": name, **evaluation.means, "coverage": evaluation.coverage}
        for name, evaluation in evaluations.items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def warm_and_cold(
    model: Any, train: Any, test: Any, metrics: Sequence[str] = ("recall@10", "ndcg@10")
) -> pl.DataFrame:
    """Return (items, units, one column per metric): a row for warm and cold items, and for both.

    Warm items, which have training events, and cold ones are ranked among themselves (the presets
    warm and cold), both among all items (full-user). Kinds of items without test events are left
    out.
    """
    train = as_dataset(train)
    test = as_dataset(test, columns_of(train))
    known = train.items.numbers(test.items.ids)[test.item]
    kinds = np.where(np.isin(known, train.item), "warm", "cold")
    rows = []
    for name, protocol in (("warm", "warm"), ("cold", "cold"), ("both", "full-user")):
        if name == "both" or name in kinds:
            evaluation = evaluate(model, train, test, protocol, metrics)
            means = {metric.partition("[")[0]: value for metric, value in evaluation.means.items()}
            rows.append({"items": name, "units": len(evaluation.units), **means})
    return pl.DataFrame(rows, infer_schema_length=None)


def ceiling(
    world: World, splits: Sequence[Split], protocol: Protocol, metrics: Sequence[str]
) -> dict[str, float]:
    """Mean metrics of the true choice model of generated data: the best possible result."""

    def truth(queries: Dataset) -> np.ndarray:
        return world.scores(queries.user, queries.columns.select(queries.context))

    evaluations = [
        evaluate(
            truth, world.data.take(split.train), world.data.take(split.test), protocol, metrics
        )
        for split in splits
    ]
    return {name: fmean(each.means[name] for each in evaluations) for name in evaluations[0].means}


def busiest_user(data: Dataset) -> int:
    """Return the number of the user with most events."""
    return int(np.bincount(data.user).argmax())
