"""LaTeX tables for papers: one that fits a column, one that fits both columns of a page.

Marks stand for p-values, and deterministic models have no deviation.
"""

from __future__ import annotations

from typing import Any

from fmpair.report.model_comparison import ModelComparison
from fmpair.report.result_tables import baseline_name, mean_over, one_fit_note
from fmpair.report.significance import has_a_winner
from fmpair.report.table import figure, metric_title, slug
from fmpair.report.table_formats import escape_latex

IN_COLUMN = 3  # metrics that fit beside a model's name in a column of 8.5 cm
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def column_table(compared: ModelComparison) -> str:
    """Return a `table` with the main metric and at most two others."""
    return _latex(compared, _metrics(compared)[:IN_COLUMN], "table", deviations=False)


def page_table(compared: ModelComparison) -> str:
    """Return a `table*` with all metrics and their deviations over folds and seeds."""
    return _latex(compared, _metrics(compared), "table*", deviations=True)


def _metrics(compared: ModelComparison) -> list[str]:
    """The metrics that have a best model, the main one first."""
    others = [name for name in compared.metrics if name != compared.metric]
    return [name for name in (compared.metric, *others) if has_a_winner(name)]


def _latex(compared: ModelComparison, metrics: list[str], kind: str, deviations: bool) -> str:
    rows = [compared.of(metric) for metric in metrics]
    lines = [
        " & ".join(
            [escape_latex(of_model[0]["model"]), *(_cell(row, deviations) for row in of_model)]
        )
        for of_model in zip(*rows)
    ]
    names = [escape_latex(metric_title(name)) for name in metrics]
    label = slug(compared.label)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{{kind}}}",
            r"  \centering\small",
            rf"  \caption{{{escape_latex(_caption(compared, rows, deviations))}}}",
            rf"  \label{{tab:{label}{'-page' if deviations else ''}}}",
            rf"  \begin{{tabular}}{{@{{}}l{'r' * len(names)}@{{}}}}",
            r"    \toprule",
            f"    {' & '.join(['Model', *names])} \\\\",
            r"    \midrule",
            *(f"    {line} \\\\" for line in lines),
            r"    \bottomrule",
            r"  \end{tabular}",
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _cell(row: dict[str, Any], deviations: bool) -> str:
    """A value with its deviation, the stars of its p, or what could have been found."""
    text = escape_latex(_bare(row["mean"]))
    text = rf"\textbf{{{text}}}" if row["best"] else text
    if deviations and row["sd"] and figure(row["sd"]) != figure(0.0):
        text += rf" {{\scriptsize $\pm$ {_bare(row['sd'])}}}"
    if row["p"] is None:
        return text
    stars = next((mark for most, mark in STARS if row["p"] < most), "")
    if row["mark"] in ("+", "-") and stars:
        return rf"{text}$^{{{stars}}}$"
    return rf"{text} {{\scriptsize ({_bare(row['detectable'])})}}"


def _bare(value: float | None) -> str:
    """.2312 instead of 0.2312."""
    text = figure(value)
    return text[1:] if text.startswith("0.") else text


def _caption(compared: ModelComparison, rows: list[list[dict[str, Any]]], deviations: bool) -> str:
    """Say what is averaged, and what the marks and parentheses mean."""
    tested = [row for of_metric in rows for row in of_metric if row["p"] is not None]
    parts = [f"{compared.label}: {mean_over(compared)}. Bold: the best."]
    if deviations and any(row["sd"] for of_metric in rows for row in of_metric):
        parts.append("±: standard deviation over folds and seeds.")
    if any(row["mark"] in ("+", "-") for row in tested):
        base = baseline_name(compared)
        parts.append(f"*, **, ***: p < .05, .01, .001 against {base} (over users, Holm).")
    if any(row["mark"] not in ("+", "-") for row in tested):
        parts.append("In parentheses: the smallest difference that would have been found.")
    return " ".join([*parts, one_fit_note(compared)]).strip()


def paper_tables(compared: ModelComparison) -> dict[str, str]:
    """Return both tables by the suffix of their file; nothing if no model has a result."""
    if compared.rows.is_empty() or not _metrics(compared):
        return {}
    return {"column": column_table(compared), "page": page_table(compared)}
