"""Tables about the run: times, tuning, failures, folds, leakage between the parts of the split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from fmpair.config.model_section import budget_of
from fmpair.errors import listing
from fmpair.experiment.folder import Results
from fmpair.report.result_tables import model_order, plus_minus
from fmpair.report.table import (
    NOTHING,
    ReportTable,
    TableCell,
    cells,
    figure,
    metric_title,
    percent,
    seconds,
)
from fmpair.text import isolated
from fmpair.training.search import Budget

# Whether a finding about the split is a problem, if its count is not 0.
HARDER = "no: makes the task harder"
FORECAST_ONLY = "only for forecasts: models see later events; split by time to avoid it"
PROBLEMS = {
    "older": FORECAST_ONLY,
    "older_for_user": FORECAST_ONLY,
    "unseen_users": HARDER,
    "unseen_user_events": HARDER,
    "unseen_items": HARDER,
    "unseen_item_events": HARDER,
    "same_pair": "only if new items matter: repeating items is rewarded; use relevant: new",
    "same_situation": "only if new items matter",
    "same_event": "yes, unless users repeat: the same event twice; the filter distinct removes it",
}


def times_table(results: Results) -> ReportTable:
    """Times and memory of each model, means over the repeats that did not fail."""
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
            TableCell(row["model"]),
            TableCell(seconds(row["train_seconds"]), plus_minus(seconds(row["train_sd"]))),
            *cells(seconds(row["epoch_seconds"]), _count(row["epochs"])),
            *cells(seconds(row["judge_seconds"]), seconds(row["peak_mb"])),
        )
        for row in data.to_dicts()
    ]
    columns = ("Model", "Training, s", "One epoch, s", "Epochs", "Evaluation, s", "Peak memory, MB")
    note = "Mean ± standard deviation over folds and seeds. Compilation is not included."
    return ReportTable("times", "Times and memory", columns, tuple(rows), data, notes=(note,))


def _count(value: float | None) -> str:
    """Format a mean of counts: 12 or 12.5."""
    return NOTHING if value is None else f"{value:,.1f}".removesuffix(".0")


def tuning_table(results: Results) -> ReportTable | None:
    """The hyper-parameters chosen in each fold, and the number of trials."""
    if results.trials.is_empty():
        return None
    searched = {model.name: set(model.search) for model in results.experiment.models}
    final = {(row["model"], row["fold"]): row["options"] for row in results.cells.to_dicts()}
    chosen = [
        _chosen(str(model), fold, trials, searched, final.get((model, fold)))
        for (model, fold), trials in results.trials.group_by("model", "fold", maintain_order=True)
    ]
    data = pl.DataFrame(chosen, infer_schema_length=None).sort(model_order(results), "fold")
    rows = []
    for row in data.to_dicts():
        value = NOTHING
        if row.get("metric"):
            value = f"{metric_title(row['metric'])} {figure(row['value'])}"
        texts = (row["model"], options_text(row.get("options")), str(row["fold"]), value)
        counts = (str(row["trials"]), str(row["failed"]), seconds(row["seconds"]))
        rows.append(cells(*texts, *counts))
    columns = ("Model", "Chosen", "Fold", "On validation", "Trials", "Failed", "Seconds")
    usual = results.experiment.tune.trials
    budgets = [budget_of(model, usual) for model in results.experiment.models if model.tuned]
    budget = budgets[0] if budgets else Budget(trials=usual)  # they are equal
    fewer = budget.trials is not None and any(row["trials"] < budget.trials for row in chosen)
    note = f"Chosen on the validation set, with {budget} per model and fold"
    note += ", or fewer if the search space is smaller." if fewer else "."
    notes = (note, *_short_notes(data))
    return ReportTable("tuning", "Chosen hyper-parameters", columns, tuple(rows), data, 2, notes)


def _short_notes(data: pl.DataFrame) -> list[str]:
    """Return a note per model whose chosen setting had no trial with all epochs in some fold."""
    notes = []
    for (model,), part in data.filter("shorter").group_by("model", maintain_order=True):
        folds = listing(map(str, part["fold"]))
        notes.append(
            f"{isolated(str(model))}, fold {folds}: the time ended before a trial of this setting "
            "had all epochs. The value on validation is that of a trial with fewer."
        )
    return notes


def _chosen(
    model: str,
    fold: object,
    trials: pl.DataFrame,
    searched: Mapping[str, set[str]],
    final: str | None,
) -> dict[str, Any]:
    """The setting chosen for a model in a fold; final: the options of its cells, which have it.

    The value is that of its trial with the most epochs; shorter: whether the cells have more.
    """
    good = trials.filter(pl.col("error").is_null() & pl.col("value").is_not_null())
    row = {
        "model": model,
        "fold": fold,
        "trials": trials["trial"].n_unique(),
        "failed": len(trials) - len(good),
        "seconds": trials["seconds"].sum(),
        "options": None if final is None else _only(final, searched.get(model)),
        "shorter": False,
    }
    tried = good.filter("chosen")
    if len(tried):
        last = tried.row(-1, named=True)
        row |= {name: last[name] for name in ("metric", "value")}
        row["shorter"] = last["options"] != final
    return row


def _only(options: str, names: set[str] | None) -> str:
    """Keep the searched options of a JSON text; names may be dotted."""
    if not names:
        return options
    chosen = {}
    for name in sorted(names):
        value = json.loads(options)
        for key in name.split("."):
            value = value[key]
        chosen[name] = value
    return json.dumps(chosen)


def options_text(options: str | None) -> str:
    """Return `factors 16` for `{"factors": 16}`."""
    shown: dict[str, Any] = json.loads(options or "{}")
    texts = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in shown.items()}
    return ", ".join(f"{name} {value}" for name, value in texts.items()) or "defaults"


def failures_table(results: Results) -> ReportTable | None:
    """The errors of each model, with the folds and seeds in which they occurred."""
    failed = results.failed
    if failed.is_empty():
        return None
    data = failed.select("model", "fold", "seed", "error", "options").sort(
        model_order(results), "fold"
    )
    rows = [
        cells(
            str(model),
            str(error),
            *(", ".join(map(str, part[name].unique().sort())) for name in ("fold", "seed")),
        )
        for (model, error), part in data.group_by("model", "error", maintain_order=True)
    ]
    columns = ("Model", "Error", "Folds", "Seeds")
    return ReportTable("failures", "Failures", columns, tuple(rows), data, 2)


def folds_table(manifest: Mapping[str, Any]) -> ReportTable | None:
    """The number of events in each part of each fold."""
    folds = manifest.get("split", {}).get("folds", [])
    if not folds:
        return None
    data = pl.DataFrame(folds)
    rows = [
        cells(
            f"fold {row['fold']}",
            *(f"{row[name]:,}" for name in ("train", "validation", "test")),
            str(row["hash"])[:12],
        )
        for row in data.to_dicts()
    ]
    columns = ("Fold", "Training events", "Validation events", "Test events", "Hash")
    return ReportTable("splits", "Folds", columns, tuple(rows), data, collapsed=True)


def leakage_table(folds: Sequence[Mapping[str, Any]]) -> ReportTable | None:
    """Leakage between the parts of the split, means over folds."""
    findings = [{"fold": fold["fold"], **row} for fold in folds for row in fold["figures"]]
    if not findings:
        return None
    data = pl.DataFrame(findings, infer_schema_length=None)
    means = data.group_by("before", "after", "figure", maintain_order=True).agg(
        pl.col("count").cast(pl.Float64).mean(), pl.col("share").cast(pl.Float64).mean()
    )
    rows = [
        cells(
            row["figure"].replace("_", " "),
            f"{row['after']} vs {row['before']}",
            PROBLEMS.get(row["figure"], NOTHING) if row["count"] else "no",
            _count(row["count"]),
            percent(row["share"]),
        )
        for row in means.drop_nulls("count").to_dicts()
    ]
    columns = ("Finding", "Parts", "Problem?", "Count", "Share")
    note = "Means over folds. Older: before the latest training event."
    title = "Leakage, all findings"
    return ReportTable("leakage", title, columns, tuple(rows), data, 3, (note,), True)


def leakage_verdict(folds: Sequence[Mapping[str, Any]]) -> str:
    """Return one or two sentences about leakage between the parts."""
    present = {row["figure"] for fold in folds for row in fold["figures"] if row["count"]}
    sentences = []
    if "same_event" in present:
        sentences.append("Some test events are also training events, equal in every column: a "
                         "problem unless users repeat.")  # fmt: skip
    if present & {"older", "older_for_user"}:
        sentences.append("The split is not by time, so models see later events: a problem for "
                         "forecasts, common otherwise.")  # fmt: skip
    if "same_pair" in present:
        sentences.append("Users repeat items, which rewards models that remember them.")
    return " ".join(sentences) or "No problem was found between the parts of the split."
