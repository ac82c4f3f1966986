"""The tables about the run: times, tuning, failures, folds, leakage."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from fmpair.experiment.results import Results
from fmpair.report.result_tables import model_order, plus_minus
from fmpair.report.significance import lower_is_better
from fmpair.report.table import NOTHING, Cell, Sheet, figure, metric_title, percent, seconds

# Whether a figure of leakage is bad, where it is not 0.
NOT_BAD = "no: harder, not easier"
IF_FORECAST = "only for a forecast: models know what came later; split by time to avoid it"
IS_IT_BAD = {
    "older": IF_FORECAST,
    "older_for_user": IF_FORECAST,
    "unseen_users": NOT_BAD,
    "unseen_user_events": NOT_BAD,
    "unseen_items": NOT_BAD,
    "unseen_item_events": NOT_BAD,
    "same_pair": "only if new items are what counts: remembering is rewarded; relevant: new avoids "
    "it",
    "same_situation": "only if new items are what counts, as above",
    "same_event": "yes, unless users do repeat: one event twice; the filter distinct drops it",
}


def times_sheet(results: Results) -> Sheet:
    """Means over the repeats that did not fail."""
    names = ("train_seconds", "epoch_seconds", "epochs", "judge_seconds", "peak_mb")
    data = (
        results.cells.filter(pl.col("error").is_null())
        .group_by("model", maintain_order=True)
        .agg(
            *(pl.col(name).cast(pl.Float64).mean() for name in names),
            train_sd=pl.col("train_seconds").cast(pl.Float64).std(),
            repeats=pl.len(),
        )
        .sort(model_order(results))
    )
    rows = [
        (
            Cell(row["model"]),
            Cell(seconds(row["train_seconds"]), plus_minus(seconds(row["train_sd"]))),
            Cell(seconds(row["epoch_seconds"])),
            Cell(NOTHING if row["epochs"] is None else f"{row['epochs']:,.1f}".removesuffix(".0")),
            Cell(seconds(row["judge_seconds"])),
            Cell(seconds(row["peak_mb"])),
        )
        for row in data.to_dicts()
    ]
    columns = ("Model", "Training, s", "One epoch, s", "Epochs", "Evaluation, s", "Peak memory, MB")
    return Sheet(
        "times",
        "Times and memory",
        columns,
        tuple(rows),
        data,
        notes=("Means over folds and seeds, ± standard deviation. Compiling is not counted.",),
    )


def tuning_sheet(results: Results) -> Sheet | None:
    """The hyper-parameters chosen in each fold, from how many trials."""
    if results.trials.is_empty():
        return None
    chosen = []
    searched = {model.name: set(model.search) for model in results.experiment.models}
    for (model, fold), part in results.trials.group_by("model", "fold", maintain_order=True):
        good = part.filter(pl.col("error").is_null() & pl.col("value").is_not_null())
        row = {
            "model": model,
            "fold": fold,
            "trials": len(part),
            "failed": len(part) - len(good),
            "seconds": part["seconds"].sum(),
        }
        if len(good):
            falling = not lower_is_better(good["metric"][0])
            best = good.sort("value", descending=falling, maintain_order=True).row(0, named=True)
            row |= {name: best[name] for name in ("metric", "value")}
            row["options"] = _only(best["options"], searched.get(str(model)))
        chosen.append(row)
    data = pl.DataFrame(chosen, infer_schema_length=None).sort(model_order(results), "fold")
    rows = [_trials_row(row) for row in data.to_dicts()]
    columns = ("Model", "Chosen", "Fold", "On validation", "Trials", "Failed", "Seconds")
    budget = results.experiment.tune.trials
    fewer = any(row["trials"] < budget for row in chosen)
    note = f"Chosen on the validation set only, with {budget} trials per model and fold"
    note += ", or as many as there are settings." if fewer else "."
    return Sheet("tuning", "Chosen hyper-parameters", columns, tuple(rows), data, 2, (note,))


def _trials_row(row: dict[str, Any]) -> tuple[Cell, ...]:
    value = f"{metric_title(row['metric'])} {figure(row['value'])}" if row.get("metric") else "–"
    texts = (row["model"], options_text(row.get("options")), str(row["fold"]), value)
    return tuple(
        map(Cell, (*texts, str(row["trials"]), str(row["failed"]), seconds(row["seconds"])))
    )


def failures_sheet(results: Results) -> Sheet | None:
    failed = results.cells.filter(pl.col("error").is_not_null())
    if failed.is_empty():
        return None
    data = failed.select("model", "fold", "seed", "error", "options").sort(
        model_order(results), "fold"
    )
    rows = [
        (
            Cell(str(model)),
            Cell(str(error)),
            Cell(_counted(part["fold"])),
            Cell(_counted(part["seed"])),
        )
        for (model, error), part in data.group_by("model", "error", maintain_order=True)
    ]
    return Sheet("failures", "Failures", ("Model", "Error", "Folds", "Seeds"), tuple(rows), data, 2)


def _counted(numbers: pl.Series) -> str:
    """Each number once: `0, 1, 2`."""
    return ", ".join(map(str, numbers.unique().sort()))


def folds_sheet(manifest: Mapping[str, Any]) -> Sheet | None:
    """How many events each part of each fold has."""
    folds = manifest.get("split", {}).get("folds", [])
    if not folds:
        return None
    data = pl.DataFrame(folds)
    names = ("train", "validation", "test")
    rows = [
        (
            Cell(f"fold {row['fold']}"),
            *(Cell(f"{row[name]:,}") for name in names),
            Cell(str(row["hash"])[:12]),
        )
        for row in data.to_dicts()
    ]
    columns = ("Fold", "Training events", "Validation events", "Test events", "Hash")
    return Sheet("splits", "Folds", columns, tuple(rows), data, folded=True)


def leakage_sheet(folds: Sequence[Mapping[str, Any]]) -> Sheet | None:
    """Leakage between the parts, the mean over folds."""
    rows = [{"fold": fold["fold"], **row} for fold in folds for row in fold["figures"]]
    if not rows:
        return None
    data = pl.DataFrame(rows, infer_schema_length=None)
    means = data.group_by("before", "after", "figure", maintain_order=True).agg(
        pl.col("count").cast(pl.Float64).mean(), pl.col("share").cast(pl.Float64).mean()
    )
    shown = [
        (
            Cell(row["figure"].replace("_", " ")),
            Cell(f"{row['after']} against {row['before']}"),
            Cell(IS_IT_BAD.get(row["figure"], NOTHING) if row["count"] else "no"),
            Cell(seconds(row["count"])),
            Cell(percent(row["share"])),
        )
        for row in means.drop_nulls("count").to_dicts()
    ]
    columns = ("Finding", "Parts", "Is it bad?", "Count", "Share")
    note = "Means over folds. Older: before the latest training event."
    return Sheet("leakage", "Leakage, all figures", columns, tuple(shown), data, 3, (note,), True)


def leakage_verdict(folds: Sequence[Mapping[str, Any]]) -> str:
    """Whether anything that was found is bad, in a sentence or two."""
    there = {row["figure"] for fold in folds for row in fold["figures"] if row["count"]}
    told = []
    if "same_event" in there:
        told.append("Some test events are in the training events too, every column alike: that is "
                    "bad, unless users do repeat.")  # fmt: skip
    if there & {"older", "older_for_user"}:
        told.append("The split is not by time: models know what came later, which is bad for a "
                    "forecast and usual otherwise.")  # fmt: skip
    if "same_pair" in there:
        told.append("Users repeat items: remembering them is rewarded.")
    return " ".join(told) or "Nothing bad was found between the parts of the split."


def _only(options: str, names: set[str] | None) -> str:
    """Of a model's options, as JSON, those that were searched; names may be dotted."""
    if not names:
        return options
    found = json.loads(options)
    chosen = {}
    for name in sorted(names):
        value = found
        for key in name.split("."):
            value = value[key]
        chosen[name] = value
    return json.dumps(chosen)


def options_text(options: str | None) -> str:
    """`{"factors": 16}` as `factors 16`."""
    if not options:
        return "defaults"
    found: dict[str, Any] = json.loads(options)
    shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in found.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items()) or "defaults"
