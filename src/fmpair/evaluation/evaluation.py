"""Evaluate a model on test events under a protocol; tables of one evaluation or of several.

`evaluate` checks that no model is trained on later events than a protocol allows, ranks the
candidates of every unit, and computes the metrics from the ranks of the relevant items.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from threading import Lock
from typing import Any

import numpy as np
import polars as pl

from fmpair.data import Columns, Dataset, as_dataset, columns_of
from fmpair.data.columns.roles import name_list
from fmpair.data.split_leakage import comparable_times, older_events
from fmpair.data.splits import Split
from fmpair.data.synthetic import World
from fmpair.device import ranking_device
from fmpair.errors import DataError, OptionError, named, notice
from fmpair.evaluation.derived_metrics import ESTIMATOR, corrected, list_values
from fmpair.evaluation.earlier_events import memory_of
from fmpair.evaluation.protocol import Protocol, default_protocol, preset
from fmpair.evaluation.statistics import bootstrap
from fmpair.evaluation.units import Units, candidates_of, units_of
from fmpair.features.calendar import TIME
from fmpair.fitted.query_encoder import SINCE
from fmpair.fitted.question import COLUMN
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender
from fmpair.metrics import ERRORS, LISTS, Metric, Placement
from fmpair.ranking.plain import Pool, Ranks
from fmpair.ranking.ranks import judge
from fmpair.ranking.top import rows_at_once

Scores = Callable[[np.ndarray], np.ndarray]

SCORES_PER_CALL = 1 << 24  # a function is called for many scores at once
MANY_OLDER = 0.05  # share of test events older than the user's history, from which on to warn
REMEDY = {"user": "split with leave_last_out or by_time", "all": "split with by_time"}
REPEATS = 1000  # bootstrap samples of a summary
SAME_UNITS = ("row", "user", "item")  # columns that are equal where evaluations can be compared


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Metrics by unit, and their means.

    units: a frame (unit, row, user, item, one column per metric); row is the first test event of
    the unit, item its relevant item if there is only one. A unit without a list, or whose item the
    model does not know, counts 0; its rating errors are null.
    means: of the columns; for rmse, whose column holds squared errors, the root of the mean.
    coverage: the share of units with a list. protocol: its id.
    cold_users, cold_items: how many units have a user, or only items, without training events.
    corrected: estimates among all items from sampled candidates; estimator: how they were made.
    """

    units: pl.DataFrame
    means: dict[str, float]
    coverage: float
    protocol: str
    corrected: dict[str, float] = field(default_factory=dict)
    estimator: str = ""
    cold_users: int = 0
    cold_items: int = 0

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
    """Evaluate a Recommender, or a function of a Dataset that returns float32 [events, items].

    train: the training events, which define the seen items and the catalogue. test: the test
    events. An item with score -inf or NaN is not in the list. protocol: a Protocol or the name of
    a preset; by default full ranking, without seen items unless users often repeat items.
    """
    train = _with_model_context(model, train)
    test = as_dataset(test, columns_of(train))
    protocol = preset(protocol) if isinstance(protocol, str) else protocol
    protocol = protocol or default_protocol(train, test)
    wanted = [Metric.parse(name) for name in dict.fromkeys(name_list(metrics))]
    for metric in wanted:
        if reason := undefined_reason(metric, test, protocol):
            raise OptionError(reason)
    _check_order(train, test, protocol.after)
    _warn_of_older_events(model, train, test)
    timed = isinstance(model, Recommender | Ranker) and TIME in model.space.context
    units = units_of(train, test, protocol, timed, memory_of(model))
    candidates = candidates_of(train, test, protocol, units)
    top = min(max((m.cutoff for m in wanted if m.name in LISTS), default=0), len(train.items))
    ranks = _ranks(model, train, units, candidates, top, threads)
    return _evaluation(wanted, (train, test), protocol, units, candidates, ranks)


def undefined_reason(metric: Metric, test: Dataset, protocol: Protocol) -> str | None:
    """Return why a metric is undefined on these events under this protocol, or None."""
    if metric.name in ERRORS and test.column("rating") is None:
        return f"{metric} needs test events with a rating"
    lacking = protocol.lacks(metric)
    return f"{metric} needs a protocol with {lacking}" if lacking else None


def mean_of(metric: str, values: pl.Series) -> float:
    """Mean of a metric's column, its root for rmse; NaN if there is no value."""
    mean = values.mean()
    value = float(mean) if isinstance(mean, int | float) else float("nan")
    return value**0.5 if metric.startswith("rmse") else value


def _with_model_context(model: Any, train: Any) -> Dataset:
    """The training events, with the context columns of the model besides their own."""
    data = as_dataset(train)
    context = getattr(getattr(model, "space", None), "context", [])
    if set(context) <= set(data.context):
        return data
    return as_dataset(train, Columns([*dict.fromkeys([*data.context, *context])]))


def _warn_of_older_events(model: Any, train: Dataset, test: Dataset) -> None:
    """Warn if a model that uses histories is tested on events before their end."""
    if getattr(model, "recent", None) is None or not comparable_times(train, test):
        return
    older = older_events(train, test)[1] or 0
    if older > MANY_OLDER * len(test):
        notice(
            f"the model uses the latest events of a user, and {older:,} of {len(test):,} test "
            f"events are older: {REMEDY['user']}, or fit it with {named('history', 0)}"
        )


def _check_order(train: Dataset, test: Dataset, after: str | None) -> None:
    """Raise DataError if test events are older than training events (of their user, or of all)."""
    if after is None:
        return
    for name, part in (("training", train), ("test", test)):
        if "timestamp" not in part.columns.columns:
            raise DataError(
                f"{named('after', after)} needs timestamps, and the {name} events have none: name "
                f"their column with {named('timestamp', ...)}"
            )
    if after == "all" and "per-user" in (train.order, test.order):
        raise DataError(
            f"{named('after', 'all')} needs timestamps: the order of events of different users is "
            f"unknown; use {named('after', 'user')}"
        )
    if not comparable_times(train, test):
        if train.order is not None and test.order is not None:
            return  # two files in order: the test file comes second
        raise DataError(
            "timestamps of training and test events cannot be compared: one has dates, the other "
            "numbers"
        )
    older = older_events(train, test)[("all", "user").index(after)]
    if older:
        whose = "of their user" if after == "user" else "of all users"
        raise DataError(
            f"{older:,} of {len(test):,} test events are older than the latest training event "
            f"{whose}, so the model is trained on later events: {REMEDY[after]}, or evaluate "
            f"without {named('after', after)}"
        )


def _ranks(
    model: Any,
    train: Dataset,
    units: Units,
    candidates: Pool | np.ndarray,
    top: int,
    threads: int | None,
) -> Ranks:
    """Rank the relevant items; on the GPU if the model is on one and all items are ranked."""
    if isinstance(model, Recommender) and not isinstance(candidates, Pool):
        device = ranking_device(model.recipe, len(units.task.query))
        if device is not None:
            from fmpair.ranking import gpu

            queries, items = _factor_arrays(model, train, units.queries)
            return gpu.judge(queries, items, units.task, candidates, top, device)
    batch = rows_at_once(len(units.task.query), len(train.items))
    if callable(model):
        batch = int(np.clip(SCORES_PER_CALL // len(train.items), 1, 1024))
    scores = _scores(model, train, units.queries)
    return judge(scores, units.task, candidates, top=top, batch=batch, threads=threads)


def _scores(model: Any, train: Dataset, queries: Dataset) -> Scores:
    """Return a function from query numbers to float32 [queries, items of train].

    Items that the model lacks score -inf.
    """
    if isinstance(model, Recommender):
        vectors, items = _factor_arrays(model, train, queries)
        vectors = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)
        return lambda numbers: vectors[numbers] @ items
    if isinstance(model, Ranker):
        return _function_scores(_ranker_scores(model, train), train, queries)
    if callable(model):
        return _function_scores(model, train, queries)
    raise OptionError(f"evaluate takes a Recommender or a function of a Dataset, not {model!r}")


def _factor_arrays(
    model: Recommender, train: Dataset, queries: Dataset
) -> tuple[np.ndarray, np.ndarray]:
    """(query vectors [queries, factors], item matrix [factors + 1, items of train]).

    The last row holds the items' constants, -inf for an item that the model lacks.
    """
    context = [name for name in queries.columns.columns if name in model.space.context]
    if COLUMN in queries.columns.columns and COLUMN not in queries.context:
        context.append(COLUMN)  # the histories of the protocol, see `units_of`
    context += [SINCE] * (SINCE in queries.columns.columns)
    vectors = model.query_vectors(queries.frame().select("user", *context))
    matrix = np.column_stack([model.item_vectors, model.item_constants]).astype(np.float32)
    if model.space.items is not train.items:
        number = model.space.items.numbers(train.items.ids)
        unknown = np.zeros((1, matrix.shape[1]), np.float32)
        unknown[0, -1] = -np.inf
        matrix = np.vstack([matrix, unknown])[number]  # number -1 selects the last row
    return vectors, np.ascontiguousarray(matrix.T)


def _ranker_scores(model: Ranker, train: Dataset) -> Callable[[Dataset], np.ndarray]:
    """The model's scores with the items numbered as in training."""
    if model.space.items is train.items:
        return model
    number = model.space.items.numbers(train.items.ids)

    def scores(events: Dataset) -> np.ndarray:
        out = model(events)[:, number]
        out[:, number < 0] = -np.inf
        return out

    return scores


def _function_scores(model: Callable[[Dataset], Any], train: Dataset, queries: Dataset) -> Scores:
    lock = Lock()  # batches run on threads, and a user's function need not be thread-safe

    def scores(numbers: np.ndarray) -> np.ndarray:
        with lock:
            out = np.asarray(model(queries.take(numbers)), np.float32)
        if out.shape != (len(numbers), len(train.items)):
            raise DataError(
                f"the scorer must return an array of shape ({len(numbers)}, {len(train.items)}), "
                f"one score per item of the training data, not {out.shape}"
            )
        return out

    return scores


def _evaluation(
    metrics: Sequence[Metric],
    data: tuple[Dataset, Dataset],
    protocol: Protocol,
    units: Units,
    candidates: Pool | np.ndarray,
    ranks: Ranks,
) -> Evaluation:
    """Compute all metrics from the ranks of the relevant items."""
    train, test = data
    relevant = units.task.relevant
    placement = Placement(
        relevant.start, ranks.above, ranks.level, relevant.value.astype(np.float64), ranks.listed
    )
    columns: dict[str, pl.Series] = {}
    means: dict[str, float] = {}
    for metric in metrics:
        name = protocol.name(metric)
        if metric.name in LISTS:
            columns[name], means[name] = list_values(metric, ranks.best, candidates, train)
            continue
        if metric.name in ERRORS:
            columns[name] = _errors(metric, ranks, test.columns["rating"].gather(units.row))
        else:
            columns[name] = pl.Series(metric.of(placement))
        means[name] = mean_of(metric.name, columns[name])
    estimates: dict[str, float] = {}
    if protocol.candidates == "uniform":
        estimates = corrected(metrics, placement, ranks.eligible, protocol.n)
    return Evaluation(
        _unit_columns(units, test).with_columns(**columns),
        means,
        float((ranks.listed > 0).mean()),
        protocol.id,
        estimates,
        ESTIMATOR if estimates else "",
        *_cold(units, train),
    )


def _cold(units: Units, train: Dataset) -> tuple[int, int]:
    """Count the units whose user has no training events, and those whose items all have none."""
    user = train.users.numbers(units.users.take(units.user))
    relevant = units.task.relevant
    learned = np.bincount(relevant.owner, np.isin(relevant.column, train.item), relevant.size)
    return int((~np.isin(user, train.user)).sum()), int((learned == 0).sum())


def _unit_columns(units: Units, test: Dataset) -> pl.DataFrame:
    """A frame (unit, row, user, item)."""
    frame = pl.DataFrame(
        {
            "unit": np.arange(len(units.row)),
            "row": units.row,
            "user": test.users.take(test.user[units.row]),
            "item": test.items.take(test.item[units.row]),
            "alone": np.diff(units.task.relevant.start) == 1,
        }
    )
    return frame.with_columns(item=pl.when("alone").then("item")).drop("alone")


def _errors(metric: Metric, ranks: Ranks, rating: pl.Series) -> pl.Series:
    """Squared or absolute error of each rating, null if there is no prediction."""
    error = np.where(ranks.level > 0, ranks.score, np.nan) - rating.to_numpy()
    value = error**2 if metric.name == "rmse" else np.abs(error)
    return pl.Series(value).fill_nan(None)


# Tables of evaluations.


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
    for name, evaluation in evaluations.items():
        first, other = next(iter(evaluations.items()))
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

    Warm items have training events, cold items do not. Each kind is ranked among itself (presets
    warm and cold), both together among all items (full-user). A kind without test events is left
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
