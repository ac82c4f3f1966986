"""The paper's tables with our numbers beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from fmpair.report.result_tables import plus_minus
from fmpair.report.table import NOTHING, Cell, Sheet, figure, metric_title, p_value
from fmpair.reproduction.claims import CLEAN, FULL, LEGACY, Claim, Found
from fmpair.reproduction.paper import DOMAINS, FEW, RECALL, SETS, TABLE1, Printed
from fmpair.reproduction.summary import Line, Summary

BESIDE = ("Model", "Paper", "Legacy", "p", "Clean", "p", "Clean, all items", "p")
SPARSE = (
    "Target",
    "Events per user, at most",
    "Target only",
    "All domains",
    "p",
    "FM-Pair-CD",
    "p",
    "Target only, all items",
    "FM-Pair-CD, all items",
    "p",
)
NOTES = (
    "Mean ± standard deviation over folds and seeds. Bold: the best of a column.",
    "p: paired randomisation test against {}, over users, with the variance between folds and "
    "seeds and Holm correction.",
)


def claims_sheet(found: Sequence[Claim]) -> Sheet:
    """One row per claim: the verdict, and what decided it under each protocol."""
    rows = [
        (
            Cell(f"{claim.number}. {claim.text}"),
            Cell(claim.verdict, bold=True),
            *(Cell(part.text if part else "not run") for part in (claim.legacy, claim.clean)),
        )
        for claim in found
    ]
    data = pl.DataFrame(
        [[cell.text for cell in row] for row in rows],
        ["claim", "verdict", "legacy", "clean"],
        orient="row",
    )
    notes = (
        "Numbers are Recall@10; p: paired randomisation test over users, with the variance between "
        "folds and seeds and Holm correction.",
    )
    return Sheet(
        "claims",
        "Eight claims",
        ("Claim", "Verdict", "Legacy", "Clean"),
        tuple(rows),
        data,
        4,
        notes,
    )


def data_sheet(found: Found) -> Sheet | None:
    """Table 1: how large the paper's sets are, and ours."""
    rows, data = [], []
    for name, title in SETS.items():
        if f"table1-{name}" not in found:
            continue
        own = found[f"table1-{name}"].manifest["data"]["statistics"]
        ours = (own["users"], own["items"], own["events"])
        rows.append((Cell(title), *(Cell(f"{n:,}") for n in (*TABLE1[name], *ours))))
        data.append((name, *TABLE1[name], *ours))
    sides = [
        f"{side}: {what}" for side in ("Paper", "Ours") for what in ("users", "items", "events")
    ]
    frame = pl.DataFrame(data, ["set", *sides], orient="row")
    note = (
        "MovieLens and Frappe are the paper's own. Its Amazon and XING subsets were never "
        "published: ours are the most similar public data.",
    )
    return Sheet("table1", "Data", ("Set", *sides), tuple(rows), frame, 1, note) if rows else None


def beside_sheet(
    name: str, title: str, found: Found, printed: Mapping[tuple[str, str], Printed], metric: str
) -> Sheet | None:
    """One row per model: the paper's number, legacy, clean, clean among all items; and p-values.

    name: of the experiments, less the protocol.
    """
    legacy, clean = found.get(f"{name}-{LEGACY}"), found.get(f"{name}-{CLEAN}")
    models = dict.fromkeys([*(legacy.models if legacy else []), *(clean.models if clean else [])])
    if not models:
        return None
    columns = [(legacy, None), (clean, None), (clean, FULL)]
    rows, data = [], []
    for model in models:
        theirs = printed.get((model, metric))
        ours = [one.row(model, metric, label) if one else None for one, label in columns]
        rows.append((Cell(model), _printed(theirs), *(c for row in ours for c in _cells(row))))
        means = [row and row["mean"] for row in ours]
        data.append((model, theirs and theirs.mean, *means))
    frame = pl.DataFrame(data, ["model", "paper", "legacy", "clean", "clean_all"], orient="row")
    baseline = (legacy or clean).experiment.compare.baseline  # type: ignore[union-attr]
    notes = (*(note.format(baseline) for note in NOTES), *distances(frame))
    return Sheet(
        f"{name}-{metric.partition('@')[0]}",
        f"{title}, {metric_title(metric)}",
        BESIDE,
        tuple(rows),
        frame,
        1,
        notes,
    )


def distances(frame: pl.DataFrame) -> tuple[str, ...]:
    """How models are ordered in the paper and under legacy, and how far the numbers are apart."""
    both = frame.drop_nulls(["paper", "legacy"])
    if len(both) < 2:
        return ()
    theirs, ours = (
        ", ".join(both.sort(side, descending=True, maintain_order=True)["model"])
        for side in ("paper", "legacy")
    )
    gaps = ", ".join(
        f"{row['model']} {row['legacy'] - row['paper']:+.4f}" for row in both.iter_rows(named=True)
    )
    orders = f"in the paper {theirs}; under legacy {'the same' if ours == theirs else ours}"
    return (f"Best first: {orders}. Legacy minus paper: {gaps}.",)


def plain_sheet(name: str, title: str, found: Summary, metrics: Sequence[str]) -> Sheet:
    """A run by itself, under all its protocols: values and p-values."""
    columns = ["Model"]
    rows: list[list[Cell]] = [[Cell(model)] for model in found.models]
    for label in found.tables:
        for metric in metrics:
            columns += [f"{metric_title(metric)}, {label}", "p"]
            for row in rows:
                row.extend(_cells(found.row(row[0].text, metric, label)))
    frame = pl.concat([table.rows for table in found.tables.values()])
    note = NOTES[1].format(found.experiment.compare.baseline)
    return Sheet(name, title, tuple(columns), tuple(map(tuple, rows)), frame, 1, (NOTES[0], note))


def sparse_sheet(found: Found) -> Sheet | None:
    """Recall@10 with and without other domains, by how many events users have in the target."""
    rows, frames = [], []
    for name, title in DOMAINS.items():
        runs = {str(most): found.get(f"ablation-sparse-{name}-{most}") for most in FEW}
        for most, run in {**runs, "no limit": found.get(f"table4-{name}-{CLEAN}")}.items():
            if run is None or not any(runs.values()):
                continue
            target, mixed, crossed = (
                [_cells(run.row(model, RECALL, label)) for label in (None, FULL)]
                for model in ("Target only", "All domains", "FM-Pair-CD")
            )
            rows.append(
                (
                    Cell(title),
                    Cell(most),
                    target[0][0],
                    *mixed[0],
                    *crossed[0],
                    target[1][0],
                    *crossed[1],
                )
            )
            frames += [
                table.rows.with_columns(pl.lit(title).alias("target"), pl.lit(most).alias("most"))
                for table in run.tables.values()
            ]
    if not rows:
        return None
    notes = (NOTES[0].replace("column", "row"), NOTES[1].format("Target only"))
    return Sheet(
        "sparse",
        "Recall@10, by events in the target domain",
        SPARSE,
        tuple(rows),
        pl.concat(frames),
        2,
        notes,
    )


def lines_sheet(lines: Mapping[str, Line]) -> Sheet:
    """Linear fits of the times of an epoch."""
    rows = [
        (
            Cell(name),
            Cell(f"{1000 * one.start:.2f}"),
            Cell(f"{1000 * one.slope:.4f}"),
            Cell(f"{one.r2:.4f}"),
        )
        for name, one in lines.items()
    ]
    data = pl.DataFrame(
        [(name, one.start, one.slope, one.r2) for name, one in lines.items()],
        ["of", "start", "slope", "r2"],
        orient="row",
    )
    columns = ("Epoch against", "Intercept, ms", "Slope, ms", "R2")
    return Sheet("complexity", "Linear fits of the times of an epoch", columns, tuple(rows), data)


def _printed(theirs: Printed | None) -> Cell:
    if theirs is None:
        return Cell(NOTHING)
    return Cell(figure(theirs.mean), plus_minus(figure(theirs.sd)) if theirs.sd else "")


def _cells(row: Mapping[str, Any] | None) -> tuple[Cell, Cell]:
    """The value and its p."""
    if row is None:
        return Cell(NOTHING), Cell(NOTHING)
    detail = plus_minus(figure(row["sd"])) if row["sd"] is not None else ""
    return Cell(figure(row["mean"]), detail, bold=row["best"]), Cell(p_value(row["p"]))
