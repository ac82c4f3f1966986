"""The table of which fields help a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from fmpair.evaluation.views import in_order
from fmpair.experiment.results import Results
from fmpair.report.comparison import Table
from fmpair.report.significance import has_a_winner, lower_is_better
from fmpair.report.table import (
    NO_BREAK,
    NOTHING,
    Cell,
    Sheet,
    figure,
    interval,
    metric_title,
    p_value,
    percent,
    short,
    signed,
    slug,
)
from fmpair.text import isolated

# The tables of results: models by metric, every number, views.


MINUS = "−"
P_VALUE = f"p{NO_BREAK}(Holm)"
DETECTABLE = "Detectable"
TEST_NAMES = {
    "randomisation": "paired randomisation test",
    "t": "paired t-test",
    "wilcoxon": "Wilcoxon signed-rank test",
}


def main_sheet(table: Table) -> Sheet:
    """One row per model: every metric, and of the main one the interval, difference and test."""
    by_metric = {metric: table.of(metric) for metric in table.metrics}
    main = by_metric.get(table.metric, [])
    corrected = any(row["corrected"] is not None for row in main)
    covered = all(row["coverage"] == 1 for row in main)
    most = max((row["repeats"] for row in main), default=0)
    rows = [
        (
            Cell(_model(row, most), bold=row["best"]),
            *(_value_cell(by_metric[metric][place]) for metric in table.metrics),
            *([Cell(figure(row["corrected"]))] if corrected else []),
            *_test_cells(row),
            *([] if covered else [Cell(percent(row["coverage"]))]),
        )
        for place, row in enumerate(main)
    ]
    columns = (
        "Model",
        *(metric_title(metric) for metric in table.metrics),
        *([f"{_stem(table)} corrected"] if corrected else []),
        f"{_stem(table)}, 95 % interval",
        f"to {_baseline(table)}",
        P_VALUE,
        DETECTABLE,
        *([] if covered else ["Coverage"]),
    )  # fmt: skip
    title = isolated(f"{table.label[:1].upper()}{table.label[1:]}")
    notes = _legend(table, corrected, covered)
    return Sheet(slug(table.label), title, columns, tuple(rows), table.rows, notes=notes)


def details_sheet(table: Table) -> Sheet:
    """Every number of the comparison, one row per model and metric."""
    rows = [
        (
            Cell(row["model"]),
            Cell(metric_title(row["metric"])),
            replace(_value_cell(row), detail=""),
            Cell(figure(row["sd"])),
            Cell(interval(row["low"], row["high"])),
            Cell(figure(row["corrected"])),
            Cell(signed(row["difference"])),
            Cell(percent(row["relative"])),
            Cell(p_value(row["p"])),
            Cell(figure(row["detectable"])),
            Cell(short(row["effect"])),
            Cell(p_value(row["p_best"])),
            Cell(percent(row["coverage"])),
            Cell(str(row["repeats"])),
            Cell(f"{row['users']:,}"),
            Cell(f"{row['units']:,}"),
        )
        for row in table.rows.to_dicts()
    ]  # fmt: skip
    columns = ("Model", "Metric", "Mean", "SD", "95 % interval", "Corrected", "Difference",
               "in %", P_VALUE, DETECTABLE, "d", "p to best", "Coverage", "Repeats", "Users",
               "Units")  # fmt: skip
    title = f"{isolated(table.label)}: every number"
    notes = (_against(table, effect=True),)
    return Sheet(f"{slug(table.label)}-details", title, columns, tuple(rows), table.rows, 2, notes,
                 folded=True)  # fmt: skip


def view_sheet(results: Results, table: Table, view: str) -> Sheet | None:
    """One row per model, one column per group of the view, by the main metric."""
    found = view_means(results, table, view)
    if found.is_empty():
        return None
    groups = found["group"].unique(maintain_order=True).to_list()
    values = {(row["model"], row["group"]): row for row in found.to_dicts()}
    way = -1 if lower_is_better(table.metric) else 1
    best = {
        group: max(way * row["value"] for key, row in values.items() if key[1] == group)
        for group in groups
    }
    decided = has_a_winner(table.metric)
    rows = []
    for model in found["model"].unique(maintain_order=True):
        cells = [Cell(model)]
        for group in groups:
            row = values.get((model, group))
            bold = decided and row is not None and way * row["value"] == best[group]
            cells.append(Cell(figure(row["value"] if row else None), bold=bold))
        rows.append(tuple(cells))
    counts = {row["group"]: row["units"] for row in found.to_dicts()}
    return Sheet(
        f"{slug(table.label)}-by-{slug(view)}",
        f"{metric_title(table.metric)} by {isolated(view_title(view))}",
        ("Model", *(f"{isolated(group)} ({counts[group]:,})" for group in groups)),
        tuple(rows),
        found,
        notes=("In brackets: units of one seed. Bold: the best, which is not a test.",),
    )


def view_means(results: Results, table: Table, view: str) -> pl.DataFrame:
    """(model, group, units, value): means over folds and seeds, weighted by their units."""
    power = 2 if table.metric.startswith("rmse") else 1
    part = results.views.filter(
        (pl.col("protocol") == table.label)
        & (pl.col("view") == view)
        & (pl.col("metric") == table.metric)
    ).with_columns(pl.col("group").cast(pl.String).fill_null("unknown"))
    part = part.filter(pl.col("value").is_not_null() & pl.col("value").is_not_nan())
    weighted = (pl.col("value") ** power * pl.col("units")).sum() / pl.col("units").sum()
    seeds = pl.col("seed").n_unique()
    return (
        part.group_by("model", "group", maintain_order=True)
        .agg(value=weighted ** (1 / power), units=pl.col("units").sum() // seeds)
        .select("model", "group", "units", "value")
        .sort(model_order(results), _group_order(view, part["group"]))
    )


def view_title(view: str) -> str:
    """`context:daytime` as `daytime`, `popularity` as `popularity of the item`."""
    kind, _, column = view.partition(":")
    told = {"popularity": "popularity of the item", "activity": "activity of the user"}
    return column or told.get(kind, kind)


def _model(row: dict[str, Any], most: int) -> str:
    """The model's name; one with fewer repeats than others must not pass for their equal."""
    if row["repeats"] == most:
        return row["model"]
    return f"{isolated(row['model'])} ({row['repeats']} of {most} repeats)"


def _value_cell(row: dict[str, Any]) -> Cell:
    return Cell(
        figure(row["mean"]),
        plus_minus(figure(row["sd"])),
        row["mark"].replace("-", MINUS),
        row["best"],
        row["near_best"],
    )


def plus_minus(text: str) -> str:
    return "" if text == "–" else f"± {text}"


def _test_cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    change = signed(row["difference"]) if row["difference"] is not None else ""
    relative = percent(row["relative"])
    rise = "+" if row["relative"] is not None and row["relative"] > 0 else ""
    return (
        Cell(interval(row["low"], row["high"])),
        Cell(f"{rise}{relative}", change),
        Cell(p_value(row["p"])),
        Cell(figure(row["detectable"])),
    )


def _stem(table: Table) -> str:
    return metric_title(table.metric.partition("[")[0])


def _baseline(table: Table) -> str:
    """The baseline's name, or `the best` where each metric has its own."""
    found = set(table.rows["baseline"].drop_nulls())
    best = set(table.rows.filter("best")["model"])
    return isolated(found.pop()) if len(found) == 1 and found != best else "the best"


def _against(table: Table, effect: bool = False) -> str:
    """effect: whether the table has effect sizes."""
    size = ", d (Cohen's d over users)" if effect else ""
    return (
        f"Difference, p{size} and {DETECTABLE.lower()} are to "
        f"{_baseline(table)}. {DETECTABLE}: the least true difference that the test, before Holm, "
        f"finds in four of five such experiments. {test_text(table)}"
    )


def test_text(table: Table) -> str:
    """Which test it was, over what, and whether the variance between fits is in it."""
    users = max(table.rows["users"].drop_nulls(), default=0) if "users" in table.rows else 0
    over = f"over {users:,} users" if users else "over users"
    return (
        f"p: {TEST_NAMES[table.test]} {over}, whose differences are summed first, with Holm "
        f"correction over all comparisons of a metric. {fits_text(table)}"
    )


def margin_text(table: Table) -> str:
    return f"{100 * table.margin:g}{NO_BREAK}%"


def fits_text(table: Table) -> str:
    """Whether the variance between folds and seeds is in the test."""
    counts = {"folds": table.folds, "seeds": table.seeds}
    several = " and ".join(f"{count} {name}" for name, count in counts.items() if count > 1)
    if several:
        return f"The variance between {several} is in the test and in the intervals."
    if table.protocol.startswith("interaction/"):
        return (
            "Each model was fitted once: the variance between items stands in for that between "
            "seeds, on the safe side; with several seeds the test finds more."
        )
    return (
        "Each model was fitted once: what another seed would change is not in the test, and can "
        "be as large as what it finds."
    )


def _legend(table: Table, corrected: bool, covered: bool) -> tuple[str, ...]:
    repeats = " or ".join(map(str, sorted(set(table.rows["repeats"])))) or "0"
    notes = [
        f"Bold: the best. Underlined: not significantly different from the best at "
        f"{table.level:g}. {_marks(table)}".strip(),
        f"Mean over {repeats} repeats (folds and seeds) ± standard deviation; bootstrap "
        f"confidence interval over users. {_against(table)}",
        f"Protocol {table.protocol}."
        + (" Every unit got a list from every model." if covered else " A missing list counts 0."),
    ]
    if corrected:
        notes.append("Corrected: estimate, from the sample, of the metric among all items.")
    return tuple(notes)


def _marks(table: Table) -> str:
    """What the marks in the table mean; nothing where there is none."""
    marks = set(table.rows["mark"]) - {""}
    base = _baseline(table)
    words = {
        "+": f"+ significantly better than {base}",
        "-": f"{MINUS} significantly worse than {base}",
        "=": f"= level with {base}, within {margin_text(table)} (two one-sided tests)",
    }
    told = "; ".join(words[mark] for mark in words if mark in marks)
    return f"{told[:1].upper()}{told[1:]}." if told else ""


def model_order(results: Results) -> pl.Expr:
    """Rows in the order of the experiment's models; others after them."""
    names = [model.name for model in results.experiment.models]
    return pl.col("model").replace_strict(names, range(len(names)), default=len(names))


def _group_order(view: str, groups: pl.Series) -> pl.Expr:
    """Rows in the order of a view's groups."""
    known = [
        "head",
        "mid",
        "tail",
        "unseen",
        "warm user, warm item",
        "warm user, cold item",
        "cold user, warm item",
        "cold user, cold item",
        "warm user",
        "cold user",
    ]
    if view.startswith("context:"):
        known = in_order(groups.unique())
    return pl.col("group").replace_strict(known, range(len(known)), default=len(known))


def fields_sheets(table: Table) -> list[Sheet]:
    """A table for each model of the protocol that was run with and without its fields."""
    return [_sheet(table, model) for model in table.fields]


def _sheet(table: Table, model: str) -> Sheet:
    data, metric = table.fields[model], metric_title(table.metric)
    alone = data["alone"][1:].is_not_null().any()
    rows = [
        (
            Cell(row["field"]),
            Cell(row["verdict"] or NOTHING, bold=row["verdict"] in ("helps", "hurts")),
            _change(row),
            Cell(p_value(row["p"])),
            Cell(figure(row["detectable"])),
            Cell(figure(row["without"])),
            *([Cell(figure(row["alone"]), mark=row["mark"].replace("-", MINUS))] if alone else []),
        )
        for row in data.to_dicts()
    ]
    columns = (
        "Field",
        "Verdict",
        "Difference",
        P_VALUE,
        DETECTABLE,
        "Without it",
        *(["Only it"] if alone else []),
    )
    name = f"{slug(table.label)}-fields-{slug(model)}"
    title = f"Which fields help {isolated(model)}: {metric}"
    return Sheet(name, title, columns, tuple(rows), data, 2, _notes(table, model, alone))


def _change(row: dict[str, Any]) -> Cell:
    if row["relative"] is None:
        return Cell(signed(row["difference"]))
    rise = "+" if row["relative"] > 0 else ""
    return Cell(signed(row["difference"]), f"{rise}{percent(row['relative'])}")


def _notes(table: Table, model: str, alone: bool) -> tuple[str, ...]:
    whole = table.fields[model].row(0, named=True)
    metric = metric_title(table.metric)
    notes = [
        f"{isolated(model)} has {metric} {figure(whole['alone'])} with all fields and "
        f"{figure(whole['without'])} with none. Without it: with all fields but this one. "
        "Difference: the effect of adding it to the others.",
        f"Helps and hurts: significantly at {table.level:g}. No difference: shown to be within "
        f"{margin_text(table)}. Undecided: neither was shown; from {DETECTABLE.lower()} on an "
        f"effect would have been. {test_text(table)}",
    ]
    if any(" x " in name for name in table.fields[model]["field"]):
        notes.append(
            "Two fields with an x between them: the terms of order three in which they meet; "
            "without it: with every other such term."
        )
    if alone:
        notes.append(
            f"Only it: with this field and no other; + and {MINUS}: significantly better and worse "
            "than with none, =: level with it. "
            "A field that helps alone and adds nothing to the others is redundant."
        )
    return tuple(notes)
