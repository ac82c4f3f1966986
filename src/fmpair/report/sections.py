"""The sections of the report in order, as the page and the Markdown file show them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from fmpair.config.experiment import as_plain
from fmpair.errors import listing
from fmpair.evaluation.views import SPARSE
from fmpair.experiment.folder import Results
from fmpair.report import figures, result_tables, run_tables
from fmpair.report.model_comparison import ModelComparison
from fmpair.report.significance import has_a_winner
from fmpair.report.table import Figure, ReportTable, Section, metric_title, unique_names
from fmpair.report.verdict import (
    command_of,
    context_leakage_table,
    rating_warnings,
    repeat_warnings,
    waiting_warnings,
)
from fmpair.text import isolated

LISTED = 16  # values of a list that are shown
LABELS = {  # of keys of the manifest that need more than their words
    "seconds": "seconds of fits and evaluations",
    "peak_mb": "peak memory in MB",
    "memory_gb": "memory in GB",
}
PROVENANCE = ("command", "began", "ended", "seconds", "peak_mb", "seeds", "versions", "machine")
ELSEWHERE = ("data", "split", "leakage", "context", "experiment")  # have their own sections


def sections(results: Results, comparisons: list[ModelComparison]) -> list[Section]:
    """All sections with content; comparisons: one per protocol."""
    times = run_tables.times_table(results)
    parts = [
        *(_results(results, compared) for compared in comparisons),
        *(_section(f"Which fields help: {isolated(compared.label)}",
                   tables=result_tables.field_tables(compared)) for compared in comparisons),
        *(_views(results, compared) for compared in comparisons),
        _section("Learning curves", figures.curves(results) if figures.available() else (),
                 wide=True),
        _section("Tuning", [figures.tuning(results) if figures.available() else None],
                 [run_tables.tuning_table(results)]),
        _section("Times and memory", tables=[times if times.rows else None]),
        _section("Failures", tables=[run_tables.failures_table(results)]),
        _data(results.manifest),
        _leakage(results.manifest),
        _provenance(results),
    ]  # fmt: skip
    return _with_unique_names(
        [part for part in parts if part.figures or part.tables or part.facts or part.details]
    )


def warnings(results: Results, comparisons: list[ModelComparison]) -> list[str]:
    """What a reader must know before trusting the numbers."""
    lines = [*waiting_warnings(results), *repeat_warnings(results), *rating_warnings(results)]
    failed = len(results.failed)
    if failed:
        lines.append(f"{failed} of {len(results.cells)} repeats failed: see Failures.")
    for compared in comparisons:
        label = isolated(compared.label)
        part = compared.rows.group_by("model", maintain_order=True).agg(pl.col("coverage").min())
        for model, share in part.filter(pl.col("coverage") < 1).rows():
            lines.append(f"{label}: {isolated(model)} gave a list to {100 * share:.1f} % of the "
                         "units; the others count 0.")  # fmt: skip
        lines += [f"{label}: {text}" for text in _suspicious_values(compared)]
        if results.experiment.protocols[compared.label].drawn:
            lines.append(f"{label}: candidates are sampled, which can order models differently "
                         "from full ranking.")  # fmt: skip
    baseline = results.experiment.compare.baseline
    if baseline and any(baseline not in set(each.rows["model"]) for each in comparisons):
        lines.append(
            f"The baseline {isolated(baseline)} has no results: models are compared with the best."
        )
    if not figures.available():
        lines.append(f"Figures need matplotlib: {figures.INSTALL}")
    return lines


def facts(value: Any, name: str = "") -> dict[str, str]:
    """Flatten nested values: {"data": {"users": 3}} becomes {"data, users": "3"}."""
    if isinstance(value, Mapping):
        lines: dict[str, str] = {}
        for key, inner in value.items():
            words = LABELS.get(key, str(key).replace("_", " "))
            lines |= facts(inner, f"{name}, {words}" if name else words)
        return lines
    if value is None or value == "" or value == []:
        return {}
    return {name: text_of(value)}


def text_of(value: Any) -> str:
    """Format one value in one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return listing((text_of(item) for item in value), LISTED)
    return str(value)


def _with_unique_names(parts: list[Section]) -> list[Section]:
    """Give every table and figure its own name, so that their files do not collide."""
    tables, figure_names = (
        iter(unique_names([each.name for part in parts for each in getattr(part, kind)]))
        for kind in ("tables", "figures")
    )
    return [
        replace(
            part,
            tables=tuple(replace(table, name=next(tables)) for table in part.tables),
            figures=tuple(replace(figure, name=next(figure_names)) for figure in part.figures),
        )
        for part in parts
    ]


def _suspicious_values(compared: ModelComparison) -> list[str]:
    """Metrics that are exactly 0 or 1 for every list of a model: usually a mistake."""
    lines = []
    for metric in filter(has_a_winner, compared.metrics):
        for value in (0.0, 1.0):
            names = [isolated(row["model"]) for row in compared.of(metric) if row["mean"] == value]
            if names:
                lines.append(
                    f"{metric_title(metric)} is exactly {value:g} for every list of "
                    f"{listing(names)}: check candidates, seen items and ids before you trust it."
                )
    return lines


def _section(
    title: str,
    maybe_figures: Iterable[Figure | None] = (),
    tables: Iterable[ReportTable | None] = (),
    wide: bool = False,
) -> Section:
    """A section of the figures and tables that are not None."""
    drawn = tuple(figure for figure in maybe_figures if figure)
    return Section(title, (), drawn, tuple(table for table in tables if table), wide=wide)


def _results(results: Results, compared: ModelComparison) -> Section:
    if compared.rows.is_empty():
        return Section(compared.label)
    shown_figures = figures.bars(results, compared) if figures.available() else ()
    tables = (result_tables.main_table(compared), result_tables.details_table(compared))
    return _section(f"Results: {isolated(compared.label)}", shown_figures, tables)


def _views(results: Results, compared: ModelComparison) -> Section:
    shown_figures: list[Figure] = []
    tables: list[ReportTable] = []
    part = results.views.filter(pl.col("protocol") == compared.label)
    sparse = part.filter(pl.col("view") == "events")["group"].is_in(SPARSE).any()
    for view in part["view"].unique(maintain_order=True):
        if view == "events" and not sparse:
            continue  # no cold or sparse items: popularity says as much
        table = result_tables.view_table(results, compared, view)
        if table is not None:
            tables.append(table)
            figure = figures.view_bars(results, compared, view) if figures.available() else None
            shown_figures += [figure] if figure else []
    if len(shown_figures) > 1:  # the figures show the same at a glance
        tables = [replace(table, collapsed=True) for table in tables]
    text = ("head, mid and tail each have a third of the training events, most popular items or "
            "most active users first.",)  # fmt: skip
    return Section(
        f"By group: {isolated(compared.label)}", text, tuple(shown_figures), tuple(tables)
    )


def _data(manifest: Mapping[str, Any]) -> Section:
    data = manifest.get("data", {})
    rest = {name: value for name, value in data.items() if name not in ("statistics", "removed")}
    section = _section("Data", tables=[run_tables.folds_table(manifest)])
    text = (f"{data['removed']}.",) if data.get("removed") else ()
    return replace(section, text=text, facts=facts(data.get("statistics", {})) | facts(rest))


def _leakage(manifest: Mapping[str, Any]) -> Section:
    """A verdict and the findings in the first fold, tables of context leakage and of all folds."""
    folds = manifest.get("leakage", [])
    # The table has leakage into validation too; the text is about the test set only.
    lines = [line for fold in folds[:1] for line in fold["lines"] if "validation" not in line]
    first = "" if len(folds) < 2 else "In the first fold: "
    text = (first + "; ".join(lines) + ".",) if lines else ()
    text = (run_tables.leakage_verdict(folds), *text) if folds else text
    tables = (context_leakage_table(manifest), run_tables.leakage_table(folds))
    return replace(_section("Leakage", tables=tables), text=text)


def _provenance(results: Results) -> Section:
    manifest = results.manifest
    command = command_of(results)
    resume = (
        f"The same command, {command}, resumes an interrupted run and reproduces a finished one; "
        "finished parts are not computed again.",
    )
    rest = {name: value for name, value in manifest.items() if name not in ELSEWHERE}
    known = {name: rest[name] for name in (*PROVENANCE, *rest) if name in rest}
    split = {"split hash": manifest.get("split", {}).get("hash")}
    plain = manifest.get("experiment") or as_plain(results.experiment)
    text = json.dumps(plain, indent=2, default=str, ensure_ascii=False)
    details = {"The experiment with all defaults": text}
    return Section("Provenance", resume, facts=facts(known | split), details=details)
