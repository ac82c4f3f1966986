"""Compare the models of a run, or of several runs merged into one, under one protocol.

The comparison has means, intervals, significance tests and the effects of fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import polars as pl

from fmpair.config.experiment import TESTS, Ablation, Comparison, Source
from fmpair.errors import DataError, OptionError, unknown
from fmpair.evaluation.statistics import bootstrap_interval, spread
from fmpair.experiment.folder import Results
from fmpair.models.catalog import FAMILIES
from fmpair.report.significance import (
    Pair,
    PairedScores,
    by_unit,
    has_a_winner,
    lower_is_better,
    p_values,
    tested,
)

ALL_FIELDS = "all fields"
HASH_SHOWN = 16  # characters
# Kinds of models that fit alike with every seed, and kinds that are baselines of those of this
# package: factorization machines and models of the user's own are proposed, the others are known.
COUNTING = (*FAMILIES["baseline"], *FAMILIES["neighbours"])
BASELINES = (*COUNTING, *FAMILIES["matrix factorization"], *FAMILIES["other library"])
FIELD_VERDICTS = {"+": "helps", "-": "hurts", "=": "no difference", "": "undecided"}
FIELD_COLUMNS = ("field", "alone", "without", "difference", "relative", "p", "detectable",
                 "verdict", "gain", "p_gain", "mark")  # fmt: skip
COLUMNS = ("model", "metric", "mean", "sd", "repeats", "units", "users", "low", "high", "baseline",
           "difference", "relative", "p", "effect", "detectable", "with_seeds", "same", "p_best",
           "best", "near_best", "mark", "corrected", "coverage")  # fmt: skip
TYPES: dict[str, pl.DataType] = (
    dict.fromkeys(("field", "verdict", "mark", "model", "metric", "baseline"), pl.String())
    | dict.fromkeys(("repeats", "units", "users"), pl.Int64())
    | dict.fromkeys(("same", "best", "near_best"), pl.Boolean())
)
FIELD_SCHEMA, SCHEMA = (
    {name: TYPES.get(name, pl.Float64()) for name in columns}
    for columns in (FIELD_COLUMNS, COLUMNS)
)


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Results under one protocol, one row per model and metric.

    rows: mean and sd (n - 1) over the repeats (folds and seeds); low, high: 95 % interval over
    users (bootstrap-t); difference, relative (to the baseline's mean), p (Holm) and effect (Cohen's
    d) against the row's baseline; detectable: the smallest true difference that the test, before
    Holm, would find with a power of 80 %; with_seeds: an upper bound of what three seeds of each
    model would find, where there is one; same: shown to be within the margin of the baseline;
    p_best: p (Holm) against the best model; best; near_best: not significantly different from the
    best; mark: + significantly better than the baseline, - worse, = same, else empty. Columns of a
    test are null if it was not possible.
    margin: share of the baseline's mean. folds, seeds: their numbers.
    fields: by model with an ablation the effect of each field on `metric`, see `field_effects`.
    baselines: the models that are no factorization machine: popularity, Markov chains, neighbours,
    EASE, matrix factorization and models of other libraries. seedless: those of which another fit
    is the same.
    data: the name of the set or file. split, filters: their names and options.
    """

    label: str
    protocol: str
    metric: str
    metrics: tuple[str, ...]
    test: str
    level: float
    rows: pl.DataFrame
    fields: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    margin: float = 0.01
    folds: int = 1
    seeds: int = 1
    baselines: tuple[str, ...] = ()
    data: str = ""
    split: str = ""
    filters: tuple[str, ...] = ()
    seedless: tuple[str, ...] = ()

    def of(self, metric: str) -> list[dict[str, Any]]:
        """The rows of one metric."""
        return self.rows.filter(pl.col("metric") == metric).to_dicts()

    def ranked(self) -> list[dict[str, Any]]:
        """The rows of the main metric, best mean first."""
        way = 1 if lower_is_better(self.metric) else -1
        return sorted(self.of(self.metric), key=lambda row: way * row["mean"])


# Resampling is slow, and the terminal shows the same comparisons as the page.
_cache: WeakKeyDictionary[Results, dict[str, ModelComparison]] = WeakKeyDictionary()


def comparison(results: Results, label: str) -> ModelComparison:
    """Compare all models under a protocol, given by its label in the experiment; computed once."""
    known = _cache.setdefault(results, {})
    if label not in known:
        known[label] = _comparison(results, label)
    return known[label]


def _comparison(results: Results, label: str) -> ModelComparison:
    experiment = results.experiment
    if label not in experiment.protocols:
        raise OptionError(unknown("protocol", label, experiment.protocols))
    options = experiment.compare
    if options.test not in TESTS:
        raise OptionError(unknown("test", options.test, TESTS))
    values = results.values.filter(pl.col("protocol") == label)
    present = set(values["metric"])
    protocol = experiment.protocols[label]
    names = [protocol.name(metric) for metric in experiment.metrics]
    metrics = [name for name in names if name in present]
    main = protocol.name(options.metric or experiment.metrics[0])
    main = main if main in metrics else next(iter(metrics), main)
    units = by_unit(results.units[label], metrics) if label in results.units else {}
    models = [m.name for m in experiment.models if m.name in set(values["model"])]
    by_metric = {
        metric: PairedScores(metric, models, values.filter(pl.col("metric") == metric), units)
        for metric in metrics
    }
    rows = [row for scores in by_metric.values() for row in _rows_by_model(scores, options)]
    ablations = experiment.ablations if main in by_metric else ()
    return ModelComparison(
        label,
        protocol.id,
        main,
        tuple(metrics),
        options.test,
        options.level,
        pl.DataFrame(rows, schema=SCHEMA),
        {each.model: field_effects(by_metric[main], each, options) for each in ablations},
        options.margin,
        values["fold"].n_unique(),
        values["seed"].n_unique(),
        tuple(m.name for m in experiment.models if m.name in models and m.kind in BASELINES),
        data_name(experiment.data),
        str(experiment.split),
        tuple(str(step) for step in experiment.filters),
        tuple(m.name for m in experiment.models if m.name in models and m.kind in COUNTING),
    )


def data_name(source: Source) -> str:
    """Return the name of the public set or of the file, without its folder."""
    name = source.set or source.path or source.train or "generated"
    return name.rsplit("/", 1)[-1]


def _rows_by_model(scores: PairedScores, options: Comparison) -> list[dict[str, Any]]:
    if not scores.models:
        return []
    best = scores.best() if has_a_winner(scores.metric) else None
    baseline = options.baseline if options.baseline in scores.models else best
    references = sorted({name for name in (best, baseline) if name})
    pairs = [frozenset((model, other)) for other in references for model in scores.models]
    p = p_values(scores, pairs, options.test)
    rows = []
    for model in scores.models:
        p_best = p.get(frozenset((model, best or model)))
        row = _measured(scores, model) | {
            "baseline": baseline,
            "mark": "",
            "p_best": p_best,
            "best": model == best,
            "near_best": p_best is not None and model != best and p_best >= options.level,
        }
        if baseline is not None and model != baseline:
            row |= tested(scores, model, baseline, p, options)
        rows.append(row)
    return rows


def _measured(scores: PairedScores, model: str) -> dict[str, Any]:
    """Mean, deviation, interval and counts of one model."""
    cells = scores.values.filter(pl.col("model") == model)
    repeats = scores.repeats(model)
    mean, sd = spread(repeats) if len(repeats) else (float("nan"), float("nan"))
    clusters = scores.by_user(model)
    low, high = bootstrap_interval(clusters) if clusters else (None, None)
    if low is not None and high is not None and scores.metric.startswith("rmse"):
        low, high = low**0.5, high**0.5  # the units of rmse are squared errors
    return {
        "model": model,
        "metric": scores.metric,
        "mean": mean,
        "sd": sd if len(repeats) > 1 else None,
        "repeats": len(repeats),
        "units": int(clusters.size.sum()) if clusters else 0,
        "users": len(clusters.total) if clusters else 0,
        "low": low,
        "high": high,
        "corrected": cells["corrected"].mean(),
        "coverage": cells["coverage"].mean(),
    }


def field_effects(scores: PairedScores, ablation: Ablation, options: Comparison) -> pl.DataFrame:
    """Return one row for all fields together, then one per field, most helpful first.

    alone: the metric with only this field; without: with all other fields. difference, relative
    (to without), p (Holm over all tests here), detectable and verdict: the effect of adding the
    field to the others. gain, p_gain and mark (+, - or =): the effect of adding it to no field,
    if that was run.
    """
    full, none, only = ablation.model, ablation.none, ablation.only
    pairs = [frozenset((full, other)) for other in (none, *ablation.without.values())]
    pairs += [frozenset((none, other)) for other in only.values()]
    p = p_values(scores, pairs, options.test)
    rows = [
        {
            "field": name,
            **_gain_alone(scores, only.get(name), none, p, options),
            **_added(scores, full, without, p, options),
        }
        for name, without in ablation.without.items()
    ]
    way = -1 if lower_is_better(scores.metric) else 1
    rows.sort(key=lambda row: (row["difference"] is None, -way * (row["difference"] or 0)))
    every = {
        "field": ALL_FIELDS,
        "alone": scores.mean(full),
        "mark": "",
        **_added(scores, full, none, p, options),
    }
    return pl.DataFrame([every, *rows], FIELD_SCHEMA).fill_nan(None)


def _added(
    scores: PairedScores, full: str, without: str, p: Mapping[Pair, float], options: Comparison
) -> dict[str, Any]:
    """The full model against the one without a field."""
    row = tested(scores, full, without, p, options)
    effect = {name: row[name] for name in ("difference", "relative", "p", "detectable")}
    verdict = None if row["p"] is None else FIELD_VERDICTS[row["mark"]]
    return {"without": scores.mean(without), **effect, "verdict": verdict}


def _gain_alone(
    scores: PairedScores, only: str | None, none: str, p: Mapping[Pair, float], options: Comparison
) -> dict[str, Any]:
    """The model with one field against the one without any."""
    if only is None:
        return {"alone": None, "gain": None, "p_gain": None, "mark": ""}
    row = tested(scores, only, none, p, options)
    return {
        "alone": scores.mean(only),
        "gain": row["difference"],
        "p_gain": row["p"],
        "mark": row["mark"],
    }


# Runs with the same data, split and protocols as one, to compare their models.


def merged(runs: Mapping[str, Results]) -> Results:
    """Merge runs, given by name: all models, under the protocols that all runs have.

    The comparison options are those of the first run. A model name that two runs have is followed
    by the run's name. Views, curves, trials and field effects are dropped.
    """
    if len(runs) < 2:
        raise DataError("comparing needs at least two runs")
    each = list(runs.values())
    _check(runs)
    ids = _common_protocols(each)
    first = each[0].experiment
    names = _names(runs)
    parts = [_renamed(run, new_names, ids) for run, new_names in zip(each, names)]
    metrics = [m for m in first.metrics if all(m in run.experiment.metrics for run in each)]
    if not metrics:
        raise DataError("the runs have no metric in common")
    models = tuple(model for part in parts for model in part.experiment.models)
    shared = {label: first.protocols[label] for label in ids.values()}
    options = first.compare
    metric = options.metric if options.metric in metrics else metrics[0]
    baseline = names[0].get(options.baseline) if options.baseline else None
    return replace(
        each[0],
        experiment=replace(
            first,
            name=" and ".join(runs),
            models=models,
            protocols=shared,
            metrics=tuple(metrics),
            compare=replace(options, metric=metric, baseline=baseline),
            ablations=(),
        ),
        cells=pl.concat([part.cells for part in parts]),
        values=pl.concat([part.values for part in parts]),
        units={
            label: pl.concat(  # a metric that only some runs have is null in the others
                [part.units[label] for part in parts if label in part.units], how="diagonal_relaxed"
            )
            for label in shared
        },
        views=each[0].views.clear(),
        curves=each[0].curves.clear(),
        trials=each[0].trials.clear(),
    )


def _check(runs: Mapping[str, Results]) -> None:
    """Raise DataError if data, split or protocols differ, naming what differs."""
    (first, known), *others = runs.items()
    for name, other in others:
        differ = []
        for part, name_of_hash in (("data", "fingerprint"), ("split", "hash")):
            a, b = (_fingerprint(run, part, name_of_hash) for run in (known, other))
            differ += [f"{part} {name_of_hash} ({a} and {b})"] if a != b else []
        if not _common_protocols([known, other]):
            ids = [
                ", ".join(p.id for p in run.experiment.protocols.values()) for run in (known, other)
            ]
            differ.append(f"protocol id ({ids[0]} and {ids[1]})")
        if differ:
            raise DataError(f"cannot compare {first} and {name}: different {'; '.join(differ)}")


def _fingerprint(run: Results, part: str, name: str) -> str:
    value = run.manifest.get(part, {}).get(name)
    if not value:
        raise DataError(f"the manifest of {run.experiment.name} has no {part} {name}")
    return str(value)[:HASH_SHOWN]


def _common_protocols(runs: Sequence[Results]) -> dict[str, str]:
    """{protocol id: its label in the first run} of the protocols that all runs have."""
    first, *others = [
        {protocol.id: label for label, protocol in run.experiment.protocols.items()} for run in runs
    ]
    return {id: label for id, label in first.items() if all(id in other for other in others)}


def _names(runs: Mapping[str, Results]) -> list[dict[str, str]]:
    """For each run {model name: its name in the merged run}.

    Equal cells, such as those of a common baseline, are kept in the first run only.
    """
    known: set[frozenset[str]] = set()
    names_by_run: list[list[str]] = []
    for run in runs.values():
        names_by_run.append([])
        for model in run.experiment.models:
            cells = frozenset(run.cells.filter(pl.col("model") == model.name)["cell"])
            if cells not in known or not cells:
                known.add(cells)
                names_by_run[-1].append(model.name)
    every = [name for names in names_by_run for name in names]
    return [
        {name: name if every.count(name) == 1 else f"{name} ({run})" for name in names}
        for run, names in zip(runs, names_by_run)
    ]


def _renamed(run: Results, names: Mapping[str, str], labels: Mapping[str, str]) -> Results:
    """Rename models and protocols; drop protocols that are not in `labels`."""
    renamed_labels = {
        label: labels[protocol.id]
        for label, protocol in run.experiment.protocols.items()
        if protocol.id in labels
    }
    new_name = pl.col("model").replace_strict(names, return_dtype=pl.String)
    is_merged = pl.col("model").is_in(list(names))
    protocol = pl.col("protocol").replace_strict(renamed_labels, return_dtype=pl.String)
    # Runs that share a cell share its hash; merged rows need distinct ones.
    cell = pl.concat_str([new_name, pl.col("cell")], separator="/")
    values = run.values.filter(is_merged, pl.col("protocol").is_in(list(renamed_labels)))
    models = tuple(
        replace(model, name=names[model.name])
        for model in run.experiment.models
        if model.name in names
    )
    return replace(
        run,
        experiment=replace(run.experiment, models=models),
        cells=run.cells.filter(is_merged).with_columns(new_name, cell.alias("cell")),
        values=values.with_columns(new_name, protocol, cell.alias("cell")),
        units={
            renamed_labels[label]: frame.filter(is_merged).with_columns(new_name)
            for label, frame in run.units.items()
            if label in renamed_labels
        },
    )
