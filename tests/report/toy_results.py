"""Results of small comparisons, judged for real on generated data."""

import json
from dataclasses import replace

import polars as pl

from fmpair import FMPair, Popularity
from fmpair.config.experiment import Candidate, Comparison, Experiment, Source, Step
from fmpair.data import synthetic
from fmpair.data.describe import figures
from fmpair.data.split_leakage import report
from fmpair.data.splits import folds
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.views import context, item_popularity, view
from fmpair.experiment.folder import Results

CELLS = {
    "cell": pl.String, "model": pl.String, "options": pl.String, "fold": pl.Int64,
    "seed": pl.Int64, "error": pl.String, "train_seconds": pl.Float64, "judge_seconds": pl.Float64,
    "epoch_seconds": pl.Float64, "epochs": pl.Int64, "peak_mb": pl.Float64,
}  # fmt: skip
VALUES = {
    "cell": pl.String, "model": pl.String, "fold": pl.Int64, "seed": pl.Int64,
    "protocol": pl.String, "metric": pl.String, "value": pl.Float64, "corrected": pl.Float64,
    "coverage": pl.Float64,
}  # fmt: skip
VIEWS = {
    "model": pl.String, "fold": pl.Int64, "seed": pl.Int64, "protocol": pl.String,
    "view": pl.String, "group": pl.String, "units": pl.Int64, "metric": pl.String,
    "value": pl.Float64,
}  # fmt: skip
CURVES = {
    "model": pl.String, "fold": pl.Int64, "seed": pl.Int64, "epoch": pl.Int64,
    "seconds": pl.Float64, "loss": pl.Float64, "part": pl.String, "metric": pl.String,
    "value": pl.Float64,
}  # fmt: skip
TRIALS = {
    "model": pl.String, "fold": pl.Int64, "trial": pl.Int64, "options": pl.String,
    "chosen": pl.Boolean, "metric": pl.String, "value": pl.Float64, "seconds": pl.Float64,
    "error": pl.String,
}  # fmt: skip


def results_of(units, protocol=None, metrics=("ndcg@10",), compare=None, **frames):
    """Results by hand; units: {(model, fold, seed): {metric: values of the units}}."""
    protocol = protocol or Protocol()
    label = "full ranking"
    names = list(dict.fromkeys(model for model, _, _ in units))
    cells, values, kept = [], [], []
    for number, ((model, fold, seed), found) in enumerate(units.items()):
        cells.append({"cell": f"c{number}", "model": model, "options": "{}", "fold": fold,
                      "seed": seed, "train_seconds": 1.5, "judge_seconds": 0.5})  # fmt: skip
        size = len(next(iter(found.values())))
        ids = {"model": model, "fold": fold, "seed": seed, "unit": range(size),
               "row": range(size), "user": [f"u{n}" for n in range(size)],
               "item": ["i"] * size}  # fmt: skip
        columns = {protocol.name(k): pl.Series(v, dtype=pl.Float64) for k, v in found.items()}
        kept.append(pl.DataFrame({**ids, **columns}))
        for metric, column in columns.items():
            values.append({"cell": f"c{number}", "model": model, "fold": fold, "seed": seed,
                           "protocol": label, "metric": metric, "value": column.mean(),
                           "coverage": 1.0})  # fmt: skip
    experiment = Experiment(
        "toy", Source(generate={}), tuple(Candidate(name, "fm-pair") for name in names),
        Step("folds"), protocols={label: protocol}, metrics=metrics,
        compare=compare or Comparison(),
    )  # fmt: skip
    made = Results(
        experiment, pl.DataFrame(cells, CELLS), pl.DataFrame(values, VALUES),
        pl.DataFrame(schema=VIEWS), pl.DataFrame(schema=CURVES), pl.DataFrame(schema=TRIALS),
        {label: pl.concat(kept)}, {"data": {"fingerprint": "d"}, "split": {"hash": "s"}},
    )  # fmt: skip
    return replace(made, **frames)


def judged_world(users=80, items=60, events=2400, count=2, epochs=6):
    """Popularity and three FM-Pairs on a generated world, under two protocols."""
    world, seeds, metrics = synthetic.make(users, items, events), (0,), ("ndcg@10", "recall@10")
    experiment = Experiment(
        "Context in a generated world", Source(generate={"users": users}),
        (
            Candidate("popularity", "popularity"),
            Candidate("FM-Pair without context", "fm-pair", {"factors": 8}, context=()),
            Candidate("FM-Pair, 4 factors", "fm-pair", {"factors": 4}),
            Candidate("FM-Pair with context", "fm-pair", {"factors": 8}),
        ),
        Step("folds", {"count": count}),
        protocols={
            "full ranking": Protocol(seen="none"),
            "one-plus-random": Protocol(candidates="uniform", n=30, seen="none"),
        },
        metrics=metrics, compare=Comparison(baseline="popularity"), seeds=seeds,
    )  # fmt: skip
    frames = {name: [] for name in ("cells", "values", "views", "curves")}
    units = {label: [] for label in experiment.protocols}
    splits, leaks = folds(world.data, count), []
    for fold, split in enumerate(splits):
        train, _, test = split.parts(world.data)
        leaks.append(report(train, test))
        for candidate in experiment.models:
            for seed in seeds:
                keys = {"model": candidate.name, "fold": fold, "seed": seed}
                _judge(experiment, candidate, keys, (train, test), epochs, frames, units)
    manifest = {
        "data": {"fingerprint": "5e1f", "files": {}, "statistics": figures(world.data)},
        "split": {"hash": "a1b2", "folds": [
            {"fold": fold, "hash": "f0e1", "train": len(split.train),
             "validation": len(split.validation), "test": len(split.test)}
            for fold, split in enumerate(splits)]},
        "leakage": [{"fold": fold, "lines": found.lines(), "figures": found.frame().to_dicts()}
                    for fold, found in enumerate(leaks)],
        "versions": {"python": "3.11.9", "fmpair": "0.1.0"},
        "machine": {"system": "Linux", "cores": 2, "memory_gb": 7.6},
        "seeds": list(seeds), "command": "fmpair run context.yaml",
        "began": "2024-05-01 10:00:00 UTC", "ended": "2024-05-01 10:04:12 UTC",
        "seconds": 250.4, "peak_mb": 412.0,
    }  # fmt: skip
    schemas = {"cells": CELLS, "values": VALUES, "views": VIEWS, "curves": CURVES}
    made = {name: pl.DataFrame(rows, schemas[name]) for name, rows in frames.items()}
    return Results(
        experiment, **made, trials=_trials(count), manifest=manifest,
        units={label: pl.concat(found) for label, found in units.items()},
    )  # fmt: skip


def _judge(experiment, candidate, keys, parts, epochs, frames, units):
    train, test = parts
    given = train if candidate.context is None else replace(train, context=candidate.context)
    asked = test if candidate.context is None else replace(test, context=candidate.context)
    cell = f"{candidate.name}-{keys['fold']}-{keys['seed']}"
    frames["cells"].append({
        "cell": cell, **keys, "options": json.dumps(dict(candidate.options)),
        "train_seconds": 1.25, "judge_seconds": 0.25, "peak_mb": 210.0,
        "epochs": epochs if candidate.kind == "fm-pair" else None,
        "epoch_seconds": 0.05 if candidate.kind == "fm-pair" else None,
    })  # fmt: skip
    if candidate.kind == "popularity":
        model = Popularity().fit(given)
    else:
        plain = {"history": 0, "times": False, "order": 2}  # no trials
        recipe = FMPair(**candidate.options, **plain, epochs=epochs, seed=keys["seed"])
        for epoch in recipe.train(given):
            model = epoch.recommender()
            found = evaluate(model, given, asked, Protocol(seen="none"), ["ndcg@10"])
            frames["curves"].append({
                **keys, "epoch": epoch.number, "seconds": 0.05 * epoch.number * (1 + keys["fold"]),
                "loss": epoch.loss, "part": "test", "metric": "ndcg@10",
                "value": found.means["ndcg@10"],
            })  # fmt: skip
    for label, protocol in experiment.protocols.items():
        found = evaluate(model, given, asked, protocol, experiment.metrics)
        names = [pl.lit(value).alias(name) for name, value in keys.items()]
        units[label].append(found.units.select(*names, pl.all()))
        for metric, value in found.means.items():
            frames["values"].append({
                "cell": cell, **keys, "protocol": label, "metric": metric, "value": value,
                "corrected": found.corrected.get(metric.partition("[")[0]),
                "coverage": found.coverage,
            })  # fmt: skip
        groups = {"popularity": item_popularity(found, train),
                  "context:daytime": context(found, test, "daytime")}  # fmt: skip
        for name, series in groups.items():
            for row in view(found, series).to_dicts():
                for metric in found.metrics:
                    frames["views"].append({
                        **keys, "protocol": label, "view": name, "group": row["group"],
                        "units": row["units"], "metric": metric, "value": row[metric],
                    })  # fmt: skip


def _trials(count):
    rows = [
        {"model": "FM-Pair with context", "fold": fold, "trial": trial,
         "options": json.dumps({"learning_rate": 0.02 * (trial + 1)}), "metric": "ndcg@10",
         "chosen": trial == 1, "value": 0.3 + 0.01 * ((3 * trial + fold) % 5), "seconds": 1.0}
        for fold in range(count) for trial in range(1, 5)
    ]  # fmt: skip
    return pl.DataFrame(rows, TRIALS)
