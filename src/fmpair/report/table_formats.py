"""WrapRec's result file: its columns and units, for scripts that read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl
from polars import selectors

from fmpair.experiment.results import Results
from fmpair.metrics import Metric
from fmpair.report.table import NO_BREAK, Cell, Section, Sheet
from fmpair.text import harmless, isolated, without_isolates

# Tables for people as CSV: what a spreadsheet would take for a formula stays text.


# What spreadsheets begin a formula with, in both widths of letters.
FORMULA = r"(?s)^[=+\-@\t\r\n\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}]."
NUMBER = r"^[+\-]?(\d+\.?\d*|\.\d+)([eE][+\-]?\d+)?$"
TEXT = selectors.by_dtype(pl.String, pl.Categorical, pl.Enum)
QUOTE = "'"  # makes a cell text, and is not shown


def csv(frame: pl.DataFrame, exact: bool = False) -> bytes:
    """The frame as CSV; a text that begins as a formula gets a quote before it, unless `exact`.

    Numbers stay numbers, also those that stand in a column of text.
    """
    if not exact:
        headings = pl.DataFrame({"name": pl.Series(frame.columns, dtype=pl.String)})
        safe = headings.select(_quoted(pl.col("name")))["name"]
        frame = frame.with_columns(_quoted(TEXT)).rename(dict(zip(frame.columns, safe)))
    return frame.write_csv().encode()


def _quoted(column: pl.Expr) -> pl.Expr:
    text = column.cast(pl.String)
    formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    return pl.when(formula).then(pl.lit(QUOTE) + text).otherwise(text).name.keep()


# Tables for a paper: LaTeX with booktabs.


ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "−": "$-$",
    "±": r"$\pm$",
    "∞": r"$\infty$",
    "–": "--",
    "≥": r"$\geq$",
    "…": r"\dots{}",
    NO_BREAK: "~",
}


def latex(sheet: Sheet) -> str:
    """A table environment; it needs \\usepackage{booktabs}."""
    kinds = "l" * sheet.words + "r" * (len(sheet.columns) - sheet.words)
    notes = r" \\ ".join(_escaped(note) for note in sheet.notes)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_escaped(sheet.title)}}}",
        rf"  \label{{tab:{sheet.name}}}",
        rf"  \begin{{tabular}}{{{kinds}}}",
        r"    \toprule",
        f"    {_latex_line(_escaped(name) for name in sheet.columns)}",
        r"    \midrule",
        *(f"    {_latex_line(_latex_cell(cell) for cell in row)}" for row in sheet.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        *([rf"  \par\smallskip\footnotesize {notes}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell) -> str:
    text = _escaped(cell.text)
    if cell.bold:
        text = rf"\textbf{{{text}}}"
    if cell.underlined:
        text = rf"\underline{{{text}}}"
    if cell.mark:
        text += "$^{-}$" if cell.mark == "−" else f"$^{{{cell.mark}}}$"
    return text + (rf" {{\scriptsize {_escaped(cell.detail)}}}" if cell.detail else "")


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escaped(text: str) -> str:
    text = without_isolates(harmless(text)).replace("\n", " ")
    return "".join(ESCAPED.get(letter, letter) for letter in text)


# Tables and the whole report as Markdown.


RAISED = {"+": "⁺", "−": "⁻", "=": "⁼"}


def markdown(sheet: Sheet) -> str:
    """A pipe table and its notes; what is underlined elsewhere is italic here."""
    lines = [
        _markdown_line(_plain(name) for name in sheet.columns),
        _markdown_line(
            "---" if place < sheet.words else "--:" for place in range(len(sheet.columns))
        ),
        *(_markdown_line(_markdown_cell(cell) for cell in row) for row in sheet.rows),
    ]
    notes = [_plain(note.replace("Underlined:", "Italic:")) for note in sheet.notes]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes)])


def markdown_report(
    title: str,
    verdict: str,
    sections: Sequence[Section],
    images: str = "figures",
    warnings: Sequence[str] = (),
) -> str:
    """The whole report; images: the folder of its figures; warnings: said below the verdict."""
    parts = [f"# {_plain(title)}", f"**{_plain(verdict)}**"]
    parts += ["\n".join(f"- Warning: {_plain(text)}" for text in warnings)] if warnings else []
    for section in sections:
        parts.append(f"## {_plain(section.title)}")
        parts += [_plain(text) for text in section.text]
        if section.facts:
            facts = [_markdown_line((_plain(isolated(name)), _plain(isolated(fact))))
                     for name, fact in section.facts.items()]  # fmt: skip
            parts.append(
                "\n".join([_markdown_line(("", "")), _markdown_line(("---", "---")), *facts])
            )
        parts += [f"![{_plain(f.title)}]({images}/{f.name}.svg)" for f in section.figures]
        for sheet in section.sheets:
            parts.append(f"### {_plain(sheet.title)}\n\n{markdown(sheet)}".rstrip())
        for name, text in section.unfold.items():
            parts.append(f"{_plain(name)}:\n\n```\n{harmless(text).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _markdown_cell(cell: Cell) -> str:
    text = _plain(isolated(cell.text)) + RAISED.get(cell.mark, cell.mark)
    text = f"**{text}**" if cell.bold else f"*{text}*" if cell.underlined else text
    return f"{text} {cell.detail}".strip()


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """What Markdown would take for its own, taken literally."""
    text = harmless(text)
    for sign in "\\`*_|<[":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")


# Spelled as WrapRec spells them; times are whole milliseconds.
HEAD = (
    "ExpeimentId",
    "ModelId",
    "SplitId",
    "ContainerId",
    "AllowDuplicates",
    "CurrentIter",
    "EpochTime",
)
TIMES = (
    "TrainTime",
    "EvaluationTime",
    "PureTrainTime",
    "PureEvaluationTime",
    "TotalTime",
    "PureTotalTime",
)
TAIL = ("TestedCases", "CandidatesMode", "NumCandidates", "CutOff")
MEASURES = {
    "precision": "Precision",
    "recall": "Recall",
    "map": "MAP",
    "mrr": "MRR",
    "ndcg": "NDCG",
    "rmse": "RMSE",
    "mae": "MAE",
    "auc": "AUC",
    "hit": "Hit",
    "coverage": "%Coverage",
}


def wraprec_results(results: Results) -> pl.DataFrame:
    """One row per repeat, protocol and cut-off; columns of parameters are those of all models.

    WrapRec writes a new header whenever the model changes; here one header has them all.
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
    names = list(dict.fromkeys(name for found in options.values() for name in found))
    measures = [name for name in MEASURES.values() if any(name in row for row in values.values())]
    columns = [*HEAD, *names, *TIMES, *TAIL, *measures, "EvalMethod"]
    rows = [
        _head(results, good[cell])
        | {name: _text(options[cell].get(name)) for name in names}
        | _times(good[cell])
        | _tail(results, good[cell], label, cutoff)
        | found
        for (cell, label, cutoff), found in values.items()
    ]
    return pl.DataFrame(
        [{name: row.get(name) for name in columns} for row in rows],
        schema={name: pl.Float64 if name in measures else pl.String for name in columns},
        strict=False,
    )


def _head(results: Results, cell: dict[str, Any]) -> dict[str, Any]:
    source = results.experiment.data
    container = source.set or source.path or source.train or "generated"
    filters = [step.kind.replace("-", "_") for step in results.experiment.filters]
    values = (
        results.experiment.name,
        cell["model"],
        f"fold{cell['fold']}-seed{cell['seed']}",
        container.rsplit("/", 1)[-1],
        str("merge_duplicates" not in filters),
        _text(cell["epochs"]),
        _milliseconds(cell["epoch_seconds"]),
    )
    return dict(zip(HEAD, values))


def _times(cell: dict[str, Any]) -> dict[str, Any]:
    """WrapRec's pure times leave out the reading, which is not in ours to begin with."""
    train, judge = cell["train_seconds"], cell["judge_seconds"]
    total = None if train is None or judge is None else train + judge
    found = [_milliseconds(value) for value in (train, judge, train, judge, total, total)]
    return dict(zip(TIMES, found))


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
