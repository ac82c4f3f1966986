"""The paper's tables with our numbers beside its own, and the table of claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from fmpair.report.result_tables import plus_minus
from fmpair.report.table import (
    NOTHING,
    ReportTable,
    TableCell,
    cells,
    figure,
    metric_title,
    p_value,
)
from fmpair.reproduction.paper import (
    CLEAN,
    DOMAINS,
    FEW,
    FULL,
    LEGACY,
    SETS,
    TABLE1,
    Claim,
    Printed,
    Runs,
)
from fmpair.reproduction.summary import RECALL, LinearFit, Summary

MODEL_COLUMNS = ("Model", "Paper", "Legacy", "p", "Clean", "p", "Clean, all items", "p")
SPARSE_COLUMNS = ("Target", "Events per user, at most", "Target only", "All domains", "p",
                  "FM-Pair-CD", "p", "Target only, all items", "FM-Pair-CD, all items",
                  "p")  # fmt: skip
PROTOCOLS = ("Legacy", "Clean")
MEANS_NOTE = "Mean ± standard deviation over folds and seeds. Bold: the best of a column."
TEST_NOTE = (
    "p: paired randomisation test over users{}. It is Holm-corrected and includes the variance "
    "between folds and seeds."
)


def claims_table(claims: Sequence[Claim]) -> ReportTable:
    """One row per claim: when it holds, and its verdict under each protocol."""
    verdicts = (
        [part.verdict if part else "not run" for part in (claim.legacy, claim.clean)]
        for claim in claims
    )
    texts = [(f"{c.number}. {c.text}", c.rule, *both) for c, both in zip(claims, verdicts)]
    return _text_table("claims", "The paper's claims", ("Claim", "Holds if", *PROTOCOLS), texts)


def evidence_table(claims: Sequence[Claim]) -> ReportTable:
    """One row per comparison that a claim is decided by, with its result under each protocol."""
    texts = []
    for claim in claims:
        both = [part.evidence if part else {} for part in (claim.legacy, claim.clean)]
        for compared in dict.fromkeys(name for evidence in both for name in evidence):
            results = (evidence.get(compared, NOTHING) for evidence in both)
            texts.append((str(claim.number), compared, *results))
    note = f"Means of two models are Recall@10. {TEST_NOTE.format('')}"
    columns = ("Claim", "Comparison", *PROTOCOLS)
    return _text_table("evidence", "Comparisons behind the verdicts", columns, texts, note)


def _text_table(
    name: str, title: str, columns: tuple[str, ...], texts: Sequence[Sequence[str]], *notes: str
) -> ReportTable:
    data = pl.DataFrame(texts, dict.fromkeys(columns, pl.String), orient="row")
    rows = tuple(cells(*row) for row in texts)
    return ReportTable(name, title, columns, rows, data, len(columns), notes)


def data_table(runs: Runs) -> ReportTable | None:
    """Table 1: sizes of the paper's data sets and of ours."""
    rows, data = [], []
    for name, title in SETS.items():
        if f"table1-{name}" not in runs:
            continue
        statistics = runs[f"table1-{name}"].manifest["data"]["statistics"]
        sizes = (*TABLE1[name], *(statistics[part] for part in ("users", "items", "events")))
        rows.append(cells(title, *(f"{size:,}" for size in sizes)))
        data.append((name, *sizes))
    if not rows:
        return None
    sides = [
        f"{side}: {part}" for side in ("Paper", "Ours") for part in ("users", "items", "events")
    ]
    frame = pl.DataFrame(data, ["set", *sides], orient="row")
    note = (
        "MovieLens and Frappe are the sets of the paper. Its subsets of Amazon and XING were never "
        "published; ours are the most similar public data."
    )
    return ReportTable("table1", "Data", ("Set", *sides), tuple(rows), frame, 1, (note,))


def comparison_table(
    name: str, title: str, runs: Runs, printed: Mapping[tuple[str, str], Printed], metric: str
) -> ReportTable | None:
    """One row per model: the paper's number, legacy, clean, clean among all items; p-values.

    name: of the experiments, without the protocol.
    """
    legacy, clean = runs.get(f"{name}-{LEGACY}"), runs.get(f"{name}-{CLEAN}")
    present = [run for run in (legacy, clean) if run is not None]
    if not present:
        return None
    rows, data = [], []
    for model in dict.fromkeys(model for run in present for model in run.models):
        in_paper = printed.get((model, metric))
        columns = ((legacy, None), (clean, None), (clean, FULL))
        ours = [run.row(model, metric, label) if run else None for run, label in columns]
        values = (cell for row in ours for cell in _value_and_p(row))
        rows.append((TableCell(model), _printed(in_paper), *values))
        data.append((model, in_paper and in_paper.mean, *(row and row["mean"] for row in ours)))
    frame = pl.DataFrame(data, ["model", "paper", "legacy", "clean", "clean_all"], orient="row")
    notes = (*_notes(present[0]), *order_note(frame))
    file, title = f"{name}-{metric.partition('@')[0]}", f"{title}, {metric_title(metric)}"
    return ReportTable(file, title, MODEL_COLUMNS, tuple(rows), frame, 1, notes)


def order_note(frame: pl.DataFrame) -> tuple[str, ...]:
    """Return notes on the order of models and their means, in the paper and under legacy."""
    both = frame.drop_nulls(["paper", "legacy"])
    if len(both) < 2:
        return ()
    in_paper, ours = (
        ", ".join(both.sort(side, descending=True, maintain_order=True)["model"])
        for side in ("paper", "legacy")
    )
    gaps = ", ".join(
        f"{row['model']} {row['legacy'] - row['paper']:+.4f}" for row in both.iter_rows(named=True)
    )
    ours = "the same" if ours == in_paper else ours
    return (
        f"Order of the models in the paper, best first: {in_paper}. Under legacy: {ours}.",
        f"Legacy minus paper: {gaps}.",
    )


def run_table(name: str, title: str, run: Summary) -> ReportTable:
    """One run under all its protocols: values and p-values of Recall@10."""
    columns = ["Model"]
    rows: list[list[TableCell]] = [[TableCell(model)] for model in run.models]
    for label in run.comparisons:
        columns += [f"{metric_title(RECALL)}, {label}", "p"]
        for row in rows:
            row.extend(_value_and_p(run.row(row[0].text, RECALL, label)))
    frame = pl.concat([compared.rows for compared in run.comparisons.values()])
    return ReportTable(name, title, tuple(columns), tuple(map(tuple, rows)), frame, 1, _notes(run))


def sparse_table(runs: Runs) -> ReportTable | None:
    """Recall@10 with and without other domains, by events per user in the target domain."""
    rows, frames = [], []
    for name, title in DOMAINS.items():
        sparse = {str(most): runs.get(f"ablation-sparse-{name}-{most}") for most in FEW}
        for most, run in {**sparse, "no limit": runs.get(f"table4-{name}-{CLEAN}")}.items():
            if run is None or not any(sparse.values()):
                continue
            target, mixed, crossed = (
                [_value_and_p(run.row(model, RECALL, label)) for label in (None, FULL)]
                for model in ("Target only", "All domains", "FM-Pair-CD")
            )
            sampled = (target[0][0], *mixed[0], *crossed[0])
            rows.append((*cells(title, most), *sampled, target[1][0], *crossed[1]))
            frames += [
                compared.rows.with_columns(target=pl.lit(title), most=pl.lit(most))
                for compared in run.comparisons.values()
            ]
    if not rows:
        return None
    title = "Recall@10 by events per user in the target domain"
    notes = (
        MEANS_NOTE.replace("column", "row"),
        TEST_NOTE.format(", with Target only as baseline"),
    )
    return ReportTable("sparse", title, SPARSE_COLUMNS, tuple(rows), pl.concat(frames), 2, notes)


def linear_fits_table(fits: Mapping[str, LinearFit]) -> ReportTable:
    """Linear fits of the time of an epoch."""
    numbers = [(name, fit.intercept, fit.slope, fit.r2) for name, fit in fits.items()]
    rows = tuple(
        cells(name, f"{1000 * intercept:.2f}", f"{1000 * slope:.4f}", f"{r2:.4f}")
        for name, intercept, slope, r2 in numbers
    )
    data = pl.DataFrame(numbers, ["of", "start", "slope", "r2"], orient="row")
    columns = ("Epoch time by", "Intercept, ms", "Slope, ms", "R2")
    return ReportTable("complexity", "Linear fits of the time of an epoch", columns, rows, data)


def _notes(run: Summary) -> tuple[str, str]:
    return MEANS_NOTE, TEST_NOTE.format(f", with {run.experiment.compare.baseline} as baseline")


def _printed(in_paper: Printed | None) -> TableCell:
    if in_paper is None:
        return TableCell(NOTHING)
    return TableCell(figure(in_paper.mean), plus_minus(figure(in_paper.sd)) if in_paper.sd else "")


def _value_and_p(row: Mapping[str, Any] | None) -> tuple[TableCell, TableCell]:
    if row is None:
        return TableCell(NOTHING), TableCell(NOTHING)
    value = TableCell(figure(row["mean"]), plus_minus(figure(row["sd"])), bold=row["best"])
    return value, TableCell(p_value(row["p"]))
