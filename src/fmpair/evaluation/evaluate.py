"""A model evaluated on test events under a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Columns, Dataset, as_dataset, columns_of
from fmpair.data.split_leakage import comparable_times, older_events
from fmpair.device import ranking_device
from fmpair.errors import DataError, OptionError, named, notice
from fmpair.evaluation.derived_metrics import ESTIMATOR, corrected, list_values
from fmpair.evaluation.protocol import Protocol, preset, usual_protocol
from fmpair.evaluation.units import Units, candidates_of, units_of
from fmpair.features.calendar import TIME
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender
from fmpair.metrics import ERRORS, LISTS, Metric, Placement
from fmpair.ranking.plain import Pool, Ranks
from fmpair.ranking.ranks import judge
from fmpair.ranking.top import ON_DEVICE, rows_at_once

# Scores of every item for every query, from a fitted model or any function.


Scores = Callable[[np.ndarray], np.ndarray]


def scores_of(model: Any, train: Dataset, queries: Dataset) -> Scores:
    """Query numbers to float32 [queries, items of train]; -inf where the model lacks the item."""
    if isinstance(model, Recommender):
        return _folded(model, train, queries)
    if isinstance(model, Ranker):
        return _called(_over(model, train), train, queries)
    if callable(model):
        return _called(model, train, queries)
    raise OptionError(f"evaluate takes a Recommender or a function of a Dataset, not {model!r}")


def goes_by_time(model: Any) -> bool:
    """Whether the scores of a fitted model depend on when they are asked for."""
    return isinstance(model, Recommender | Ranker) and TIME in model.space.context


def _folded(model: Recommender, train: Dataset, queries: Dataset) -> Scores:
    vectors, turned = folded_arrays(model, train, queries)
    vectors = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)
    return lambda asked: vectors[asked] @ turned


def folded_arrays(
    model: Recommender, train: Dataset, queries: Dataset
) -> tuple[np.ndarray, np.ndarray]:
    """(query vectors [queries, factors], items of train [factors + 1, items]): the products rank.

    The last row holds the items' constants, -inf for an item that the model lacks.
    """
    known = [name for name in queries.columns.columns if name in model.space.context]
    vectors = model.query_vectors(queries.frame().select("user", *known))
    matrix = np.column_stack([model.item_vectors, model.item_constants]).astype(np.float32)
    if model.space.items is not train.items:
        number = model.space.items.numbers(train.items.ids)
        none = np.zeros((1, matrix.shape[1]), np.float32)
        none[0, -1] = -np.inf
        matrix = np.vstack([matrix, none])[number]  # -1, unknown, is the last row
    return vectors, np.ascontiguousarray(matrix.T)


def _over(model: Ranker, train: Dataset) -> Callable[[Dataset], np.ndarray]:
    """The model's scores with the items numbered as in training."""
    if model.space.items is train.items:
        return model
    number = model.space.items.numbers(train.items.ids)

    def scores(events: Dataset) -> np.ndarray:
        out = model(events)[:, number]
        out[:, number < 0] = -np.inf
        return out

    return scores


def _called(model: Callable[[Dataset], Any], train: Dataset, queries: Dataset) -> Scores:
    one_at_a_time = Lock()  # batches run on threads, which a foreign function need not bear

    def scores(asked: np.ndarray) -> np.ndarray:
        with one_at_a_time:
            out = np.asarray(model(queries.take(asked)), np.float32)
        if out.shape != (len(asked), len(train.items)):
            raise DataError(
                f"the scorer must give {len(asked)} rows of {len(train.items)} scores, one per "
                f"item of the training data, not an array of shape {out.shape}"
            )
        return out

    return scores


# No look into the future: test events must come after those that a model knows.


REMEDY = {
    "user": "split by leave_last_out or by_time",
    "all": "split by by_time",
}


MANY = 0.05  # share of test events older than what is known, from which on it is told


def tell_of_histories(model: Any, train: Dataset, test: Dataset) -> None:
    """Say so where a model that goes by what came last is to guess what came earlier."""
    if getattr(model, "recent", None) is None or not comparable_times(train, test):
        return
    older = older_events(train, test)[1] or 0
    if older > MANY * len(test):
        notice(
            f"the model goes by what its users did last, and {older:,} of {len(test):,} test "
            f"events are older than that: {REMEDY['user']}, or fit it with {named('history', 0)}"
        )


def check_future(train: Dataset, test: Dataset, after: str | None) -> None:
    """Refuse test events that are older than training events, of their user or of all."""
    if after is None:
        return
    for what, part in (("training", train), ("test", test)):
        if "timestamp" not in part.columns.columns:
            raise DataError(
                f"a protocol with {named('after', after)} needs times, and the {what} events have "
                f"none: name their column with {named('timestamp', ...)}"
            )
    if after == "all" and "per-user" in (train.order, test.order):
        raise DataError(
            f"a protocol with {named('after', 'all')} needs times: the order of the events of "
            f"different users is not known; use {named('after', 'user')}"
        )
    if not comparable_times(train, test):
        if train.order is not None and test.order is not None:
            return  # two files in order: the one of the test events comes after
        raise DataError(
            "the times of the training and the test events cannot be compared: those of one are "
            "dates, those of the other numbers"
        )
    older = older_events(train, test)[("all", "user").index(after)]
    if older:
        whose = "of their own user" if after == "user" else "of all"
        raise DataError(
            f"{older:,} of {len(test):,} test events are older than the latest training event "
            f"{whose}, so the model is trained on later events: {REMEDY[after]}, or leave out "
            f"{named('after', after)}"
        )


CALLED_AT_ONCE = 1 << 24  # scores that a function is asked for together: calls cost time


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result, by unit and on the mean.

    units: a frame (unit, row, user, item, one column per metric); row is the test event the unit
    is first seen in, item its relevant item where it has only one. A unit without a list, or whose
    item the model does not know, counts 0; errors of ratings are then null.
    means: of the columns; for rmse, whose column holds squared errors, the root of the mean.
    coverage: the share of units with a list. protocol: its id.
    corrected: estimates, from the sample, of what the metric would be among all items; estimator:
    how they were made.
    """

    units: pl.DataFrame
    means: dict[str, float]
    coverage: float
    protocol: str
    corrected: dict[str, float] = field(default_factory=dict)
    estimator: str = ""

    @property
    def metrics(self) -> list[str]:
        """The columns of `units` that hold metrics."""
        return self.units.columns[4:]


def evaluate(
    model: Any,
    train: Any,
    test: Any,
    protocol: Protocol | str | None = None,
    metrics: Sequence[str] = ("recall@10", "ndcg@10"),
    threads: int | None = None,
) -> Evaluation:
    """Evaluate a Recommender, or a function from a Dataset to float32 [its events, items of train].

    train: the training events, which define the seen items and the catalogue; test: the test
    events. Where a score is -inf or NaN the item is not in the list. protocol: also the name of a
    preset; by default full ranking, in which seen items are left out unless users come back to
    them (`usual_protocol`).
    """
    train = _training(model, train)
    test = as_dataset(test, columns_of(train))
    protocol = preset(protocol) if isinstance(protocol, str) else protocol
    protocol = protocol or usual_protocol(train, test)
    wanted = [Metric.parse(name) for name in dict.fromkeys(metrics)]
    for metric in wanted:
        if why := obstacle(metric, test, protocol):
            raise OptionError(why)
    check_future(train, test, protocol.after)
    tell_of_histories(model, train, test)
    units = units_of(train, test, protocol, goes_by_time(model))
    candidates = candidates_of(train, test, protocol, units)
    top = min(max((m.cutoff for m in wanted if m.name in LISTS), default=0), len(train.items))
    judged = _judged(model, train, units, candidates, top, threads)
    return _gathered(wanted, (train, test), protocol, units, candidates, judged)


def _judged(
    model: Any,
    train: Dataset,
    units: Units,
    candidates: Pool | np.ndarray,
    top: int,
    threads: int | None,
) -> Ranks:
    """Where the relevant items stand; whole lists of a model on a GPU are judged there."""
    device = None
    if isinstance(model, Recommender) and not isinstance(candidates, Pool):
        device = ranking_device(model.recipe, len(units.task.query))
    if device is not None:
        queries, items = folded_arrays(model, train, units.queries)
        gpu = import_module(ON_DEVICE)
        return gpu.judge(queries, items, units.task, candidates, top, device)
    batch = rows_at_once(len(units.task.query), len(train.items))
    if callable(model):
        batch = int(np.clip(CALLED_AT_ONCE // len(train.items), 1, 1024))
    return judge(
        scores_of(model, train, units.queries),
        units.task,
        candidates,
        top=top,
        batch=batch,
        threads=threads,
    )


def _training(model: Any, train: Any) -> Dataset:
    """The training events, with the context that the model knows beside what they show."""
    data = as_dataset(train)
    known = getattr(getattr(model, "space", None), "context", [])
    if set(known) <= set(data.context):
        return data
    return as_dataset(train, Columns([*dict.fromkeys([*data.context, *known])]))


def obstacle(metric: Metric, test: Dataset, protocol: Protocol) -> str | None:
    """Why a metric is not defined on these events under this protocol, None where it is."""
    if metric.name in ERRORS and test.column("rating") is None:
        return f"{metric} needs test events with a rating"
    lacking = protocol.lacks(metric)
    return f"{metric} needs a protocol with {lacking}" if lacking else None


def _gathered(
    metrics: Sequence[Metric],
    data: tuple[Dataset, Dataset],
    protocol: Protocol,
    units: Units,
    candidates: Pool | np.ndarray,
    judged: Ranks,
) -> Evaluation:
    """All metrics, from the ranks of the relevant items."""
    train, test = data
    relevant = units.task.relevant
    placement = Placement(
        relevant.start,
        judged.above,
        judged.level,
        relevant.value.astype(np.float64),
        judged.listed,
    )
    columns: dict[str, pl.Series] = {}
    means: dict[str, float] = {}
    for metric in metrics:
        name = protocol.name(metric)
        if metric.name in LISTS:
            columns[name], means[name] = list_values(metric, judged.best, candidates, train)
        elif metric.name in ERRORS:
            columns[name] = _errors(metric, judged, test.columns["rating"].gather(units.row))
            means[name] = mean_of(metric.name, columns[name])
        else:
            columns[name] = pl.Series(metric.of(placement))
            means[name] = mean_of(metric.name, columns[name])
    estimates: dict[str, float] = {}
    if protocol.candidates == "uniform":
        estimates = corrected(metrics, placement, judged.eligible, protocol.n)
    return Evaluation(
        _identified(units, test).with_columns(**columns),
        means,
        float((judged.listed > 0).mean()),
        protocol.id,
        estimates,
        ESTIMATOR if estimates else "",
    )


def _identified(units: Units, test: Dataset) -> pl.DataFrame:
    """unit, row, user and item of every unit."""
    relevant = units.task.relevant
    item = pl.Series(test.items.take(test.item[units.row]))
    alone = pl.Series(np.diff(relevant.start) == 1)
    frame = pl.DataFrame(
        {
            "unit": np.arange(len(units.row)),
            "row": units.row,
            "user": test.users.take(test.user[units.row]),
            "item": item,
            "alone": alone,
        }
    )
    return frame.with_columns(item=pl.when("alone").then("item")).drop("alone")


def _errors(metric: Metric, judged: Ranks, rating: pl.Series) -> pl.Series:
    """Squared or absolute error of each rating, null where there is no prediction."""
    error = np.where(judged.level > 0, judged.score, np.nan) - rating.to_numpy()
    value = error**2 if metric.name == "rmse" else np.abs(error)
    return pl.Series(value).fill_nan(None)


def mean_of(metric: str, values: pl.Series) -> float:
    """The mean of a metric's column, the root of it for rmse; NaN if there is no value."""
    mean = values.mean()
    value = float(mean) if isinstance(mean, int | float) else float("nan")
    return value**0.5 if metric.startswith("rmse") else value
