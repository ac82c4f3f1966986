"""File formats of tables: CSV, LaTeX, Markdown, WrapRec's result file, LaTeX for papers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from polars import selectors

from fmpair.experiment.folder import Results
from fmpair.metrics import Metric
from fmpair.report.model_comparison import ModelComparison, data_name
from fmpair.report.result_tables import (
    TEST_NAMES,
    mean_over,
    one_fit_note,
    setting,
    title_of,
    was_detectable,
)
from fmpair.report.significance import has_a_winner
from fmpair.report.table import (
    NO_BREAK,
    ReportTable,
    Section,
    TableCell,
    figure,
    metric_title,
    slug,
)
from fmpair.text import harmless, isolated, without_isolates

# First characters of a spreadsheet formula, in ASCII and full width.
FORMULA = r"(?s)^[=+\-@\t\r\n\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}]."
NUMBER = r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"
TEXT = selectors.by_dtype(pl.String, pl.Categorical, pl.Enum)
QUOTE = "'"  # makes a cell text, and is not shown
RAISED = {"+": "⁺", "−": "⁻", "=": "⁼"}


def csv(frame: pl.DataFrame, exact: bool = False) -> bytes:
    """Write a frame as CSV; text that looks like a formula is quoted unless `exact`.

    Numbers stay numbers, also in a text column.
    """
    if not exact:
        headings = pl.DataFrame({"name": pl.Series(frame.columns, dtype=pl.String)})
        safe = headings.select(_quote_formulas(pl.col("name")))["name"]
        frame = frame.with_columns(_quote_formulas(TEXT)).rename(dict(zip(frame.columns, safe)))
    return frame.write_csv().encode()


def _quote_formulas(column: pl.Expr) -> pl.Expr:
    text = column.cast(pl.String)
    formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(formula).then(pl.lit(QUOTE) + text).otherwise(text).name.keep()


ESCAPED = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", "−": "$-$", "±": r"$\pm$", "∞": r"$\infty$", "–": "--",
    "≥": r"$\geq$", "…": r"\dots{}", NO_BREAK: "~",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}  # fmt: skip


def latex(table: ReportTable) -> str:
    """Return a table environment; it needs \\usepackage{booktabs}."""
    kinds = "l" * table.text_columns + "r" * (len(table.columns) - table.text_columns)
    notes = r" \\ ".join(escape_latex(note) for note in table.notes)
    caption = f"{table.title}. {table.setting}" if table.setting else table.title
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape_latex(caption)}}}",
        rf"  \label{{tab:{table.name}}}",
        *_tabular(kinds, table.columns, (map(_latex_cell, row) for row in table.rows)),
        *([rf"  \par\smallskip\footnotesize {notes}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tabular(kinds: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a tabular; the rows are LaTeX already."""
    return [
        rf"  \begin{{tabular}}{{{kinds}}}",
        r"    \toprule",
        f"    {_latex_line(map(escape_latex, columns))}",
        r"    \midrule",
        *(f"    {_latex_line(row)}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]


def _latex_cell(cell: TableCell) -> str:
    text = escape_latex(cell.text)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    if cell.underlined:
        text = rf"\underline{{{text}}}"
    if cell.mark:
        text += "$^{-}$" if cell.mark == "−" else f"$^{{{cell.mark}}}$"
    return text + (rf" {{\scriptsize {escape_latex(cell.detail)}}}" if cell.detail else "")


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def escape_latex(text: str) -> str:
    """Return text with the characters escaped that have a meaning in LaTeX."""
    text = without_isolates(harmless(text)).replace("\n", " ")
    return "".join(ESCAPED.get(letter, letter) for letter in text)


def markdown(table: ReportTable) -> str:
    """Return a pipe table and its notes; italic replaces underlining."""
    lines = [
        _markdown_line(_escape_markdown(name) for name in table.columns),
        _markdown_line(
            "---" if index < table.text_columns else "--:" for index in range(len(table.columns))
        ),
        *(_markdown_line(_markdown_cell(cell) for cell in row) for row in table.rows),
    ]
    notes = [_escape_markdown(note.replace("Underlined:", "Italic:")) for note in table.notes]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes)])


def markdown_report(
    title: str,
    verdict: str,
    sections: Sequence[Section],
    images: str = "figures",
    warnings: Sequence[str] = (),
) -> str:
    """Return the whole report; images: the folder of its figures; warnings: below the verdict."""
    parts = [f"# {_escape_markdown(title)}", f"**{_escape_markdown(verdict)}**"]
    parts += (
        ["\n".join(f"- Warning: {_escape_markdown(text)}" for text in warnings)] if warnings else []
    )
    for section in sections:
        parts.append(f"## {_escape_markdown(section.title)}")
        parts += [_escape_markdown(text) for text in section.text]
        if section.facts:
            facts = [
                _markdown_line(_escape_markdown(isolated(text)) for text in fact)
                for fact in section.facts.items()
            ]
            parts.append(
                "\n".join([_markdown_line(("", "")), _markdown_line(("---", "---")), *facts])
            )
        parts += [f"![{_escape_markdown(f.title)}]({images}/{f.name}.svg)" for f in section.figures]
        for table in section.tables:
            parts.append(f"### {_escape_markdown(table.title)}\n\n{markdown(table)}".rstrip())
        for name, text in section.details.items():
            parts.append(f"{_escape_markdown(name)}:\n\n```\n{harmless(text).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _markdown_cell(cell: TableCell) -> str:
    text = _escape_markdown(isolated(cell.text)) + RAISED.get(cell.mark, cell.mark)
    text = f"**{text}**" if cell.bold else f"*{text}*" if cell.underlined else text
    return f"{text} {cell.detail}".strip()


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape_markdown(text: str) -> str:
    text = harmless(text)
    for character in "\\`*_|<[":
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")


# Columns of WrapRec, in its spelling; times are whole milliseconds.
HEAD = ("ExpeimentId", "ModelId", "SplitId", "ContainerId", "AllowDuplicates", "CurrentIter",
        "EpochTime")  # fmt: skip
TIMES = ("TrainTime", "EvaluationTime", "PureTrainTime", "PureEvaluationTime", "TotalTime",
         "PureTotalTime")  # fmt: skip
TAIL = ("TestedCases", "CandidatesMode", "NumCandidates", "CutOff")
MEASURES = {
    "precision": "Precision", "recall": "Recall", "map": "MAP", "mrr": "MRR", "ndcg": "NDCG",
    "rmse": "RMSE", "mae": "MAE", "auc": "AUC", "hit": "Hit", "coverage": "%Coverage",
}  # fmt: skip


def wraprec_results(results: Results) -> pl.DataFrame:
    """Return WrapRec's result table: one row per repeat, protocol and cut-off.

    WrapRec writes a new header for each model; here one header has the parameters of all models.
    """
    good = {row["cell"]: row for row in results.cells.to_dicts() if row["error"] is None}
    values: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in results.values.to_dicts():
        metric = Metric.parse(row["metric"].partition("[")[0])
        key = (row["cell"], row["protocol"], metric.cutoff)
        factor = 100 if metric.name == "coverage" else 1
        if metric.name in MEASURES and row["cell"] in good:
            values.setdefault(key, {})[MEASURES[metric.name]] = factor * row["value"]
    options = {cell: json.loads(row["options"] or "{}") for cell, row in good.items()}
    names = list(dict.fromkeys(name for known in options.values() for name in known))
    measures = [name for name in MEASURES.values() if any(name in row for row in values.values())]
    columns = [*HEAD, *names, *TIMES, *TAIL, *measures, "EvalMethod"]
    rows = [
        _head(results, good[cell])
        | {name: _text(options[cell].get(name)) for name in names}
        | _times(good[cell])
        | _tail(results, good[cell], label, cutoff)
        | metrics
        for (cell, label, cutoff), metrics in values.items()
    ]
    return pl.DataFrame(
        [{name: row.get(name) for name in columns} for row in rows],
        schema={name: pl.Float64 if name in measures else pl.String for name in columns},
        strict=False,
    )


def _head(results: Results, cell: dict[str, Any]) -> dict[str, Any]:
    filters = [step.kind.replace("-", "_") for step in results.experiment.filters]
    values = (
        results.experiment.name,
        cell["model"],
        f"fold{cell['fold']}-seed{cell['seed']}",
        data_name(results.experiment.data),
        str("merge_duplicates" not in filters),
        _text(cell["epochs"]),
        _milliseconds(cell["epoch_seconds"]),
    )
    return dict(zip(HEAD, values))


def _times(cell: dict[str, Any]) -> dict[str, Any]:
    """WrapRec's pure times exclude reading, as all times here do."""
    train, judge = cell["train_seconds"], cell["judge_seconds"]
    total = None if train is None or judge is None else train + judge
    times = (train, judge, train, judge, total, total)
    return dict(zip(TIMES, map(_milliseconds, times)))


def _tail(results: Results, cell: dict[str, Any], label: str, cutoff: int) -> dict[str, Any]:
    protocol = results.experiment.protocols[label]
    units = results.units.get(label)
    tested = None
    if units is not None:
        same = (pl.col(name) == cell[name] for name in ("model", "fold", "seed"))
        tested = len(units.filter(*same))
    modes = {"all": "UNION", "file": "EXPLICIT"}
    return {
        "TestedCases": _text(tested),
        "CandidatesMode": modes.get(protocol.candidates, "TRAINING"),
        "NumCandidates": str(protocol.n) if protocol.drawn else "max",
        "CutOff": str(cutoff) if cutoff else None,
        "EvalMethod": "OPR" if protocol.unit == "interaction" else "UserBased",
    }


def _milliseconds(value: float | None) -> str | None:
    return None if value is None else str(round(1000 * value))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


# LaTeX tables for papers: one that fits a column, one that fits both columns of a page. Marks stand
# for p-values, and deterministic models have no deviation.

IN_COLUMN = 3  # metrics that fit beside a model's name in a column of 8.5 cm
STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))


def paper_tables(compared: ModelComparison) -> dict[str, str]:
    """Return both tables by the suffix of their file; nothing if no model has a result.

    column: a `table` with the main metric and at most two others. page: a `table*` with all metrics
    and their deviations over folds and seeds.
    """
    metrics = _metrics(compared)
    if compared.rows.is_empty() or not metrics:
        return {}
    return {
        "column": _paper_table(compared, metrics[:IN_COLUMN], "table", deviations=False),
        "page": _paper_table(compared, metrics, "table*", deviations=True),
    }


def _metrics(compared: ModelComparison) -> list[str]:
    """The metrics that have a best model, the main one first."""
    others = [name for name in compared.metrics if name != compared.metric]
    return [name for name in (compared.metric, *others) if has_a_winner(name)]


def _paper_table(compared: ModelComparison, metrics: list[str], kind: str, deviations: bool) -> str:
    rows = [compared.of(metric) for metric in metrics]
    lines = [
        [escape_latex(of_model[0]["model"]), *(_cell(row, deviations) for row in of_model)]
        for of_model in zip(*rows)
    ]
    columns = ["Model", *map(metric_title, metrics)]
    label = slug(compared.label)
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            rf"\begin{{{kind}}}",
            r"  \centering\small",
            rf"  \caption{{{escape_latex(_caption(compared, rows, deviations))}}}",
            rf"  \label{{tab:{label}{'-page' if deviations else ''}}}",
            *_tabular(f"@{{}}l{'r' * len(metrics)}@{{}}", columns, lines),
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _cell(row: dict[str, Any], deviations: bool) -> str:
    """A value with its deviation, the stars of its p, or the detectable difference."""
    text = escape_latex(_bare(row["mean"]))
    text = rf"\textbf{{{text}}}" if row["best"] else text
    if deviations and row["sd"] and figure(row["sd"]) != figure(0.0):
        text += rf" {{\scriptsize $\pm$ {_bare(row['sd'])}}}"
    if row["p"] is None:
        return text
    stars = _stars(row)
    if stars:
        return rf"{text}$^{{{stars}}}$"
    return rf"{text} {{\scriptsize ({_bare(row['detectable'])})}}" if was_detectable(row) else text


def _stars(row: dict[str, Any]) -> str:
    """Return the stars of a significant difference, empty if it is not."""
    if row["mark"] not in ("+", "-"):
        return ""
    return next((mark for most, mark in STARS if row["p"] < most), "")


def _bare(value: float | None) -> str:
    """.2312 instead of 0.2312."""
    text = figure(value)
    return text[1:] if text.startswith("0.") else text


def _caption(compared: ModelComparison, rows: list[list[dict[str, Any]]], deviations: bool) -> str:
    """Return the caption: what is averaged and tested, and what marks and parentheses mean."""
    tested = [row for of_metric in rows for row in of_metric if row["p"] is not None]
    over = mean_over(compared)
    parts = [f"{title_of(compared)}. {setting(compared)}", f"{over[:1].upper()}{over[1:]}."]
    parts.append("Bold: the best.")
    if deviations and any(row["sd"] for of_metric in rows for row in of_metric):
        parts.append("±: standard deviation over folds and seeds.")
    if tested:
        users = max(row["users"] for row in tested)
        parts.append(f"Test: {TEST_NAMES[compared.test]} over {users:,} users.")
        parts.append("Correction: Holm, for all comparisons of a metric.")
    starred = [row for row in tested if _stars(row)]
    if starred:
        parts.append(_stars_note(starred))
    if any(map(was_detectable, tested)):
        parts.append(
            "In parentheses: the smallest difference that would have been found, with a power of "
            "80 % before the correction."
        )
    return " ".join([*parts, one_fit_note(compared)]).strip()


def _stars_note(starred: list[dict[str, Any]]) -> str:
    """Explain the stars: against which model, and whether its values are higher or lower."""
    senses = {row["difference"] > 0 for row in starred}
    way = "higher" if senses == {True} else "lower" if senses == {False} else "higher or lower"
    seen = ", as the values show" if len(senses) > 1 else ""
    bases = {row["baseline"] for row in starred}
    base = isolated(bases.pop()) if len(bases) == 1 else "the best of the metric"
    return f"Stars: significantly {way} than {base}{seen} (*, **, ***: p < .05, .01, .001)."
