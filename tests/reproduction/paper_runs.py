"""Summaries by hand: tables with given means and p-values, and times that follow a line."""

import polars as pl

from fmpair.config.experiment import Candidate, Comparison, Experiment, Source, Step
from fmpair.evaluation import Protocol
from fmpair.report.model_comparison import SCHEMA, ModelComparison
from fmpair.reproduction.summary import Summary

CURVES = {
    "model": pl.String, "fold": pl.Int64, "seed": pl.Int64, "epoch": pl.Int64,
    "seconds": pl.Float64, "loss": pl.Float64, "part": pl.String, "metric": pl.String,
    "value": pl.Float64,
}  # fmt: skip


def judged(baseline, means, p=0.001, label="legacy", seeds=6, same=False, detectable=0.002):
    """A run of four folds with one table; means: of every model; p: of all tests, or by model.

    same: whether models were shown to be level; detectable: what would have shown.
    """
    protocol = Protocol()
    rows = [
        {"model": model, "metric": metric, "mean": mean, "sd": 0.001, "repeats": 4 * seeds,
         "units": 100, "users": 50, "baseline": baseline, "best": mean == max(means.values()),
         "same": same, "detectable": detectable,
         "p": None if model == baseline else p.get(model, 0.001) if isinstance(p, dict) else p}
        for metric in ("recall@10", "mrr@10")
        for model, mean in means.items()
    ]  # fmt: skip
    frame = pl.DataFrame(rows, {name: SCHEMA[name] for name in rows[0]})
    metrics = ("recall@10", "mrr@10")
    table = ModelComparison(label, protocol.id, metrics[0], metrics, "t", 0.05, frame, folds=4)
    return run_of([Candidate(name, "popularity") for name in means], baseline, {label: table})


def timed(seconds, models=None):
    """A run of which every epoch after the first takes the given time; seconds: by model."""
    points = [
        {"model": model, "fold": 0, "seed": 0, "epoch": epoch, "loss": 0.5, "part": "test",
         "seconds": 9.0 + each * (epoch - 1)}
        for model, each in seconds.items()
        for epoch in (1, 2, 3)
    ]  # fmt: skip
    models = models or [Candidate(name, "fm-pair") for name in seconds]
    return run_of(models, None, {}, pl.DataFrame(points, CURVES))


def run_of(models, baseline, tables, curves=None):
    experiment = Experiment(
        "toy", Source(generate={}), tuple(models), Step("folds"),
        protocols={label: Protocol() for label in tables}, compare=Comparison(baseline=baseline),
    )  # fmt: skip
    manifest = {"data": {"statistics": {"users": 943, "items": 1682, "events": 100_000}}}
    cells = pl.DataFrame({"model": [model.name for model in models]})
    return Summary(experiment, tables, cells, pl.DataFrame(schema=CURVES) if curves is None
                   else curves, manifest)  # fmt: skip


def by_factors(slope, start=0.1, bend=0.0, sizes=tuple(range(16, 176, 16))):
    """Epochs whose time grows with the number of factors."""
    models = [Candidate(f"k={k}", "fm-pair", {"factors": k}) for k in sizes]
    times = {m.name: start + slope * m.options["factors"] + bend * m.options["factors"] ** 3
             for m in models}  # fmt: skip
    return timed(times, models)
