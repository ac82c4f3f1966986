"""Tables of the results of one protocol: models by metric, all numbers, field effects, views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from fmpair.evaluation.statistics import SEEDS
from fmpair.evaluation.views import in_order
from fmpair.experiment.folder import Results
from fmpair.report.model_comparison import ModelComparison
from fmpair.report.significance import has_a_winner, lower_is_better
from fmpair.report.table import (
    NO_BREAK,
    NOTHING,
    ReportTable,
    TableCell,
    cells,
    figure,
    interval,
    metric_title,
    p_value,
    percent,
    short,
    signed,
    signed_percent,
    slug,
)
from fmpair.text import isolated

MINUS = "−"
P_VALUE = f"p{NO_BREAK}(Holm)"
DETECTABLE = "Detectable"
TEST_NAMES = {
    "randomisation": "paired randomisation test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
}
VIEW_TITLES = {
    "popularity": "popularity of the item",
    "activity": "activity of the user",
    "events": "number of training events of the item",
}
GROUPS = (
    "head", "mid", "tail", "unseen", "warm user, warm item", "warm user, cold item",
    "cold user, warm item", "cold user, cold item", "warm user", "cold user",
)  # fmt: skip


def main_table(compared: ModelComparison) -> ReportTable:
    """One row per model: every metric, and interval, difference and test of the main metric."""
    by_metric = {metric: compared.of(metric) for metric in compared.metrics}
    main = by_metric.get(compared.metric, [])
    corrected = any(row["corrected"] is not None for row in main)
    covered = all(row["coverage"] == 1 for row in main)
    most = max((row["repeats"] for row in main), default=0)
    rows = [
        (
            TableCell(_model_name(row, most), bold=row["best"]),
            *(
                _value_cell(by_metric[metric][index], missed=metric != compared.metric)
                for metric in compared.metrics
            ),
            *([TableCell(figure(row["corrected"]))] if corrected else []),
            TableCell(interval(row["low"], row["high"])),
            _difference_cell(row),
            TableCell(p_value(row["p"])),
            _detectable_cell(row),
            *([] if covered else [TableCell(percent(row["coverage"]))]),
        )
        for index, row in enumerate(main)
    ]
    metric = metric_title(compared.metric.partition("[")[0])
    columns = (
        "Model",
        *(metric_title(name) for name in compared.metrics),
        *([f"{metric} corrected"] if corrected else []),
        f"{metric}, 95 % interval",
        f"vs {baseline_name(compared)}",
        P_VALUE,
        DETECTABLE,
        *([] if covered else ["Coverage"]),
    )  # fmt: skip
    notes = _main_notes(compared, corrected, covered)
    return ReportTable(
        slug(compared.label), title_of(compared), columns, tuple(rows), compared.rows, notes=notes,
        setting=setting(compared),
    )  # fmt: skip


def details_table(compared: ModelComparison) -> ReportTable:
    """All numbers of the comparison, one row per model and metric."""
    rows = [
        (
            *cells(row["model"], metric_title(row["metric"])),
            replace(_value_cell(row), detail=""),
            *cells(figure(row["sd"]), interval(row["low"], row["high"]), figure(row["corrected"])),
            *cells(signed(row["difference"]), percent(row["relative"]), p_value(row["p"])),
            *cells(figure(row["detectable"]), short(row["effect"]), p_value(row["p_best"])),
            *cells(percent(row["coverage"]), str(row["repeats"])),
            *cells(f"{row['users']:,}", f"{row['units']:,}"),
        )
        for row in compared.rows.to_dicts()
    ]
    columns = ("Model", "Metric", "Mean", "SD", "95 % interval", "Corrected", "Difference",
               "Relative", P_VALUE, DETECTABLE, "d", "p vs best", "Coverage", "Repeats", "Users",
               "Units")  # fmt: skip
    name, title = f"{slug(compared.label)}-details", f"{title_of(compared)}: all numbers"
    notes = (f"{_mark_note(compared)} {_test_note(compared, effect=True)}".strip(),)
    return ReportTable(
        name, title, columns, tuple(rows), compared.rows, 2, notes, True, setting(compared)
    )


def field_tables(compared: ModelComparison) -> list[ReportTable]:
    """The effect of each field, a table per model with an ablation."""
    return [_field_table(compared, model) for model in compared.fields]


def view_table(results: Results, compared: ModelComparison, view: str) -> ReportTable | None:
    """The main metric by group: one row per model, one column per group."""
    means = view_means(results, compared, view)
    if means.is_empty():
        return None
    groups = means["group"].unique(maintain_order=True).to_list()
    values = {(row["model"], row["group"]): row for row in means.to_dicts()}
    way = -1 if lower_is_better(compared.metric) else 1
    best = {
        group: max(way * row["value"] for key, row in values.items() if key[1] == group)
        for group in groups
    }
    rows = []
    for model in means["model"].unique(maintain_order=True):
        cells = [TableCell(model)]
        for group in groups:
            row = values.get((model, group))
            bold = row is not None and way * row["value"] == best[group]
            bold = bold and has_a_winner(compared.metric)
            cells.append(TableCell(figure(row["value"] if row else None), bold=bold))
        rows.append(tuple(cells))
    counts = {row["group"]: row["units"] for row in means.to_dicts()}
    return ReportTable(
        f"{slug(compared.label)}-by-{slug(view)}",
        f"{metric_title(compared.metric)} by {isolated(view_title(view))}",
        ("Model", *(f"{isolated(group)} ({counts[group]:,})" for group in groups)),
        tuple(rows),
        means,
        notes=("In parentheses: units per seed. Bold: the best mean, not a significance test.",),
        setting=setting(compared),
    )


def view_means(results: Results, compared: ModelComparison, view: str) -> pl.DataFrame:
    """(model, group, units, value): means over folds and seeds, weighted by units."""
    power = 2 if compared.metric.startswith("rmse") else 1
    part = results.views.filter(
        (pl.col("protocol") == compared.label)
        & (pl.col("view") == view)
        & (pl.col("metric") == compared.metric)
    ).with_columns(pl.col("group").cast(pl.String).fill_null("unknown"))
    part = part.filter(pl.col("value").is_not_null() & pl.col("value").is_not_nan())
    weighted = (pl.col("value") ** power * pl.col("units")).sum() / pl.col("units").sum()
    ranged = view == "events" or view.startswith("context:")
    groups = in_order(part["group"].unique()) if ranged else GROUPS
    order = pl.col("group").replace_strict(groups, range(len(groups)), default=len(groups))
    return (
        part.group_by("model", "group", maintain_order=True)
        .agg(
            value=weighted ** (1 / power), units=pl.col("units").sum() // pl.col("seed").n_unique()
        )
        .select("model", "group", "units", "value")
        .sort(model_order(results), order)
    )


def view_title(view: str) -> str:
    """Return `daytime` for `context:daytime`, `popularity of the item` for `popularity`."""
    kind, _, column = view.partition(":")
    return column or VIEW_TITLES.get(kind, kind)


def model_order(results: Results) -> pl.Expr:
    """Sort key of rows: the order of the experiment's models, others last."""
    names = [model.name for model in results.experiment.models]
    return pl.col("model").replace_strict(names, range(len(names)), default=len(names))


def plus_minus(text: str) -> str:
    """Return ± and a deviation; nothing without one, as that of a deterministic model."""
    return "" if text in (NOTHING, figure(0.0)) else f"± {text}"


def _model_name(row: dict[str, Any], most: int) -> str:
    """The model's name, with its number of repeats if other models have more."""
    if row["repeats"] == most:
        return row["model"]
    return f"{isolated(row['model'])} ({row['repeats']} of {most} repeats)"


def _value_cell(row: dict[str, Any], missed: bool = False) -> TableCell:
    """The mean and its deviation; missed: and the detectable difference, unless there is a mark."""
    beside = f"({figure(row['detectable'])})" if missed and was_detectable(row) else ""
    return TableCell(
        figure(row["mean"]),
        f"{plus_minus(figure(row['sd']))} {beside}".strip(),
        row["mark"].replace("-", MINUS),
        row["best"],
        row["near_best"],
    )


def _difference_cell(row: dict[str, Any]) -> TableCell:
    change = signed(row["difference"]) if row["difference"] is not None else ""
    return TableCell(signed_percent(row["relative"]), change)


def _detectable_cell(row: dict[str, Any]) -> TableCell:
    """The detectable difference, in the unit of the difference; empty beside a mark + or -."""
    if not was_detectable(row):
        return TableCell(NOTHING)
    if not row["relative"]:
        return TableCell(figure(row["detectable"]))
    base = abs(row["difference"] / row["relative"])
    return TableCell(percent(row["detectable"] / base), figure(row["detectable"]))


def was_detectable(row: dict[str, Any]) -> bool:
    """Return whether a row without a mark + or - has a difference that would have been found.

    Models that give every user the same value have none.
    """
    known = figure(row["detectable"]) not in (NOTHING, figure(0.0))
    return known and row["mark"] not in ("+", "-")


def baseline_name(compared: ModelComparison) -> str:
    """The baseline's name, or `the best` if each metric is compared with its best model."""
    names = set(compared.rows["baseline"].drop_nulls())
    best = set(compared.rows.filter("best")["model"])
    return isolated(names.pop()) if len(names) == 1 and names != best else "the best"


def mean_over(compared: ModelComparison) -> str:
    """Return what the means are over: users with one list each, users in contexts, or events."""
    count = max(compared.rows["units"].drop_nulls(), default=0)
    lists = {
        "user": f"means over {count:,} users, one list each",
        "user-context": f"means over {count:,} users in their contexts, one list each",
    }
    events = f"means over {count:,} test events, one list each"
    return lists.get(compared.protocol.partition("/")[0], events)


def title_of(compared: ModelComparison) -> str:
    """Return the label of the protocol, with a capital letter."""
    return isolated(f"{compared.label[:1].upper()}{compared.label[1:]}")


def setting(compared: ModelComparison) -> str:
    """Return what the numbers come from, for a caption: data, filters, split, protocol, seeds."""
    data, split = isolated(compared.data), isolated(compared.split)
    names = ", ".join(map(isolated, compared.filters))
    filters = f" {'Filters' if len(compared.filters) > 1 else 'Filter'}: {names}." if names else ""
    folds = f", on each of {compared.folds} folds" if compared.folds > 1 else ""
    return (
        f"Data: {data}.{filters} Split: {split}. Protocol: {compared.protocol}. "
        f"Seeds: {compared.seeds}{folds}."
    )


def _main_notes(compared: ModelComparison, corrected: bool, covered: bool) -> tuple[str, ...]:
    repeats = " or ".join(map(str, sorted(set(compared.rows["repeats"])))) or "0"
    several = f"Mean ± standard deviation over {repeats} repeats (folds and seeds);"
    spread = "One fit of each model;" if repeats == "1" else several
    coverage = "Every model gave a list to every unit." if covered else "A missing list counts 0."
    notes = [
        f"Bold: the best. Underlined: not significantly different from the best at "
        f"{compared.level:g}. {_mark_note(compared)}".strip(),
        f"{spread} 95 % confidence interval over users (bootstrap-t). {_test_note(compared)}"
        f"{_missed_note(compared)}",
        f"Protocol: {compared.protocol}, {mean_over(compared)}. {coverage}",
    ]
    if corrected:
        notes.append("Corrected: the metric among all items, estimated from the sample.")
    return tuple(notes)


def _missed_note(compared: ModelComparison) -> str:
    """Explain the parentheses in the columns of metrics besides the main one, if there are any."""
    others = compared.rows.filter(pl.col("metric") != compared.metric)
    some = any(was_detectable(row) for row in others.to_dicts())
    return f" In parentheses: the {DETECTABLE.lower()} difference." if some else ""


def _mark_note(compared: ModelComparison) -> str:
    """Explain the marks that occur in the table."""
    marks = set(compared.rows["mark"]) - {""}
    base = baseline_name(compared)
    words = {
        "+": f"+: significantly better than {base}",
        "-": f"{MINUS}: significantly worse than {base}",
        "=": f"=: equivalent to {base}, within {_margin(compared)} (two one-sided tests)",
    }
    note = "; ".join(words[mark] for mark in words if mark in marks)
    return f"{note}." if note else ""


def _test_note(compared: ModelComparison, effect: bool = False) -> str:
    """Explain the columns of the test. effect: whether the table has effect sizes."""
    size = ", d (Cohen's d over users)" if effect else ""
    return (
        f"Differences, p{size} and {DETECTABLE.lower()} differences are relative to "
        f"{baseline_name(compared)}. {DETECTABLE}: the smallest true difference that the test, "
        f"before Holm correction, finds with a power of 80 %; a smaller difference that is not "
        f"significant does not mean that models are equal. {_p_note(compared)}"
    )


def _p_note(compared: ModelComparison) -> str:
    """Name the test, its sample, and whether it includes the variance between fits."""
    rows = compared.rows
    users = max(rows["users"].drop_nulls(), default=0) if "users" in rows else 0
    over = f"over {users:,} users" if users else "over users"
    return (
        f"p: {TEST_NAMES[compared.test]} {over}, differences summed by user, Holm-corrected for "
        f"all comparisons of a metric. {_fits_note(compared)}"
    )


def _fits_note(compared: ModelComparison) -> str:
    counts = {"folds": compared.folds, "seeds": compared.seeds}
    several = " and ".join(f"{count} {name}" for name, count in counts.items() if count > 1)
    if several:
        return f"Tests and intervals include the variance between {several}."
    return one_fit_note(compared)


def one_fit_note(compared: ModelComparison) -> str:
    """Return a note on what one fit of each model can show; empty with several fits.

    Another fit of a model that counts is the same, so that a table of these needs no note.
    """
    if compared.folds > 1 or compared.seeds > 1 or not compared.rows["p"].count():
        return ""
    if set(compared.rows["model"]) <= set(compared.seedless):
        return ""
    rows = compared.rows.filter(pl.col("metric") == compared.metric)
    shown = rows["with_seeds"].drop_nulls() if "with_seeds" in rows.columns else rows["mean"][:0]
    more = f" by {figure(float(max(shown)))} or more" if len(shown) else ""
    return (
        f"Each model was fitted once: the test compares these fitted models, over users. Another "
        f"fit of the same recipe may differ by as much. {SEEDS} seeds of each model would show "
        f"whether the recipes differ{more}."
    )


def _margin(compared: ModelComparison) -> str:
    return f"{100 * compared.margin:g}{NO_BREAK}%"


def _field_table(compared: ModelComparison, model: str) -> ReportTable:
    data = compared.fields[model]
    alone = data["alone"][1:].is_not_null().any()
    rows = [
        (
            TableCell(row["field"]),
            TableCell(row["verdict"] or NOTHING, bold=row["verdict"] in ("helps", "hurts")),
            TableCell(
                signed(row["difference"]),
                "" if row["relative"] is None else signed_percent(row["relative"]),
            ),
            *cells(p_value(row["p"]), figure(row["detectable"]), figure(row["without"])),
            *(
                [TableCell(figure(row["alone"]), mark=row["mark"].replace("-", MINUS))]
                if alone
                else []
            ),
        )
        for row in data.to_dicts()
    ]
    columns = ("Field", "Verdict", "Difference", P_VALUE, DETECTABLE, "Without it",
               *(["Only it"] if alone else []))  # fmt: skip
    name = f"{slug(compared.label)}-fields-{slug(model)}"
    title = f"Which fields help {isolated(model)}: {metric_title(compared.metric)}"
    notes = _field_notes(compared, model, alone)
    return ReportTable(name, title, columns, tuple(rows), data, 2, notes, setting=setting(compared))


def _field_notes(compared: ModelComparison, model: str, alone: bool) -> tuple[str, ...]:
    whole = compared.fields[model].row(0, named=True)
    metric = metric_title(compared.metric)
    notes = [
        f"{isolated(model)} has {metric} {figure(whole['alone'])} with all fields and "
        f"{figure(whole['without'])} with none. Without it: all fields but this one. "
        "Difference: the effect of adding the field to the others.",
        f"Helps, hurts: significant at {compared.level:g}. No difference: shown to be within "
        f"{_margin(compared)}. Undecided: neither was shown; effects from {DETECTABLE.lower()} on "
        f"would have been found. {_p_note(compared)}",
    ]
    if any(" x " in name for name in compared.fields[model]["field"]):
        notes.append(
            "a x b: the third-order interactions of the fields a and b; without it: with all other "
            "such interactions."
        )
    if alone:
        notes.append(
            f"Only it: this field and no other; + and {MINUS}: significantly better and worse than "
            "no field, =: equivalent to no field. A field that helps alone but adds nothing to the "
            "others is redundant."
        )
    return tuple(notes)
