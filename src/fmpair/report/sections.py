"""The report part by part: what the page and the Markdown both show, in their order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from fmpair.config.experiment import as_plain
from fmpair.errors import listing
from fmpair.experiment.results import Results
from fmpair.report import figures, result_tables, run_tables, style
from fmpair.report.comparison import Table
from fmpair.report.result_tables import fields_sheets
from fmpair.report.significance import has_a_winner
from fmpair.report.table import Figure, Section, Sheet, metric_title, told_apart
from fmpair.report.verdict import cautions, giveaway_sheet
from fmpair.text import isolated

# What a run depends on, as names and values a reader can check.


SHOWN = 16  # of a list


def facts(value: Any, name: str = "") -> dict[str, str]:
    """Nested values as lines: {"data": {"users": 3}} gives {"data, users": "3"}."""
    if isinstance(value, Mapping):
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= facts(inner, f"{name}, {_words(key)}" if name else _words(key))
        return found
    if value is None or value == "" or value == []:
        return {}
    return {name: text_of(value)}


def text_of(value: Any) -> str:
    """One value in one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 0.01 or value == 0 else f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return listing((text_of(one) for one in value), SHOWN)
    return str(value)


def _words(name: object) -> str:
    return str(name).replace("_", " ")


ORDER = ("command", "began", "ended", "seconds", "peak_mb", "seeds", "versions", "machine")
HIDDEN = ("data", "split", "leakage", "context", "experiment")  # they have places of their own


def sections(results: Results, found: list[Table]) -> list[Section]:
    """All parts that have something to show; found: a table per protocol."""
    parts = [
        *(_result(results, table) for table in found),
        *(_fields(table) for table in found),
        *(_views(results, table) for table in found),
        _learning(results),
        _tuning(results),
        _times(results),
        _failures(results),
        *_boxes(results),
    ]  # fmt: skip
    return _told_apart(
        [part for part in parts if part.figures or part.sheets or part.facts or part.unfold]
    )


def _told_apart(parts: list[Section]) -> list[Section]:
    """No two tables and no two figures of one name: their files would be one."""
    sheets, figures = (
        iter(told_apart([one.name for part in parts for one in getattr(part, kind)]))
        for kind in ("sheets", "figures")
    )
    return [
        replace(
            part,
            sheets=tuple(replace(sheet, name=next(sheets)) for sheet in part.sheets),
            figures=tuple(replace(figure, name=next(figures)) for figure in part.figures),
        )
        for part in parts
    ]


def warnings(results: Results, found: list[Table]) -> list[str]:
    """What a reader must know before believing the numbers."""
    told = cautions(results)
    failed = results.cells["error"].is_not_null().sum()
    if failed:
        told.append(f"{failed} of {len(results.cells)} repeats failed: see Failures.")
    for table in found:
        label = isolated(table.label)
        part = table.rows.group_by("model", maintain_order=True).agg(pl.col("coverage").min())
        for model, share in part.filter(pl.col("coverage") < 1).rows():
            told.append(f"{label}: {isolated(model)} gave a list to {100 * share:.1f} % of the "
                        "units; the others count 0.")  # fmt: skip
        told += [f"{label}: {words}" for words in _too_clean(table)]
        if results.experiment.protocols[table.label].drawn:
            told.append(f"{label}: sampled candidates, which can order models differently "
                        "than full ranking.")  # fmt: skip
    baseline = results.experiment.compare.baseline
    if baseline and any(baseline not in set(table.rows["model"]) for table in found):
        told.append(
            f"The baseline {isolated(baseline)} has no results: models are tested against the best."
        )
    if not style.available():
        told.append(f"Figures need matplotlib: {style.INSTALL}")
    return told


def _too_clean(table: Table) -> list[str]:
    """Metrics that are exactly 0 or 1 for every list of a model, which hardly any model earns."""
    told = []
    for metric in filter(has_a_winner, table.metrics):
        for value in (0.0, 1.0):
            names = [isolated(row["model"]) for row in table.of(metric) if row["mean"] == value]
            if names:
                told.append(
                    f"{metric_title(metric)} is exactly {value:g} for every list of "
                    f"{listing(names)}: check candidates, seen items and ids before you believe it."
                )
    return told


def _result(results: Results, table: Table) -> Section:
    if table.rows.is_empty():
        return Section(table.label)
    drawn = tuple(figures.bars(results, table)) if style.available() else ()
    sheets = (result_tables.main_sheet(table), result_tables.details_sheet(table))
    return Section(f"Results: {isolated(table.label)}", (), drawn, sheets)


def _fields(table: Table) -> Section:
    return Section(
        f"Which fields help: {isolated(table.label)}", sheets=tuple(fields_sheets(table))
    )


def _views(results: Results, table: Table) -> Section:
    drawn: list[Figure] = []
    sheets: list[Sheet] = []
    part = results.views.filter(pl.col("protocol") == table.label)
    for view in part["view"].unique(maintain_order=True):
        sheet = result_tables.view_sheet(results, table, view)
        if sheet is not None:
            sheets.append(sheet)
            figure = figures.view_bars(results, table, view) if style.available() else None
            drawn += [figure] if figure else []
    if len(drawn) > 1:  # the figures say the same at a glance
        sheets = [replace(sheet, folded=True) for sheet in sheets]
    text = ("head, mid and tail each have a third of the training events, the most popular items "
            "or the most active users first.",)  # fmt: skip
    return Section(f"By group: {isolated(table.label)}", text, tuple(drawn), tuple(sheets))


def _learning(results: Results) -> Section:
    drawn = tuple(figures.curves(results)) if style.available() else ()
    return Section("Learning curves", (), drawn, wide=True)


def _tuning(results: Results) -> Section:
    sheet = run_tables.tuning_sheet(results)
    figure = figures.tuning(results) if style.available() else None
    return Section("Tuning", (), (figure,) if figure else (), (sheet,) if sheet else ())


def _times(results: Results) -> Section:
    sheet = run_tables.times_sheet(results)
    return Section("Times and memory", (), (), (sheet,) if sheet.rows else ())


def _failures(results: Results) -> Section:
    sheet = run_tables.failures_sheet(results)
    return Section("Failures", (), (), (sheet,) if sheet else ())


def _boxes(results: Results) -> list[Section]:
    return [_data(results.manifest), _leakage(results.manifest), _provenance(results)]


def _data(manifest: Mapping[str, Any]) -> Section:
    data = manifest.get("data", {})
    told = {name: value for name, value in data.items() if name != "statistics"}
    sheet = run_tables.folds_sheet(manifest)
    return Section(
        "Data",
        facts=facts(data.get("statistics", {})) | facts(told),
        sheets=(sheet,) if sheet else (),
    )


def _leakage(manifest: Mapping[str, Any]) -> Section:
    """Sentences where there is one fold; a table of them all where there are more."""
    folds = manifest.get("leakage", [])
    # Leakage into validation is in the table: the test set matters most.
    lines = [line for fold in folds[:1] for line in fold["lines"] if "validation" not in line]
    first = "" if len(folds) < 2 else "In the first fold: "
    sheet = run_tables.leakage_sheet(folds)
    told = (first + "; ".join(lines) + ".",) if lines else ()
    told = (run_tables.leakage_verdict(folds), *told) if folds else told
    sheets = [one for one in (giveaway_sheet(manifest), sheet) if one]
    return Section("Leakage", told, sheets=tuple(sheets))


def _provenance(results: Results) -> Section:
    manifest = results.manifest
    command = manifest.get("command", "fmpair run FILE")
    resume = (
        f"The same command, {command}, resumes an interrupted run and reproduces a finished one; "
        "nothing that is done is computed twice.",
    )
    rest = {name: value for name, value in manifest.items() if name not in HIDDEN}
    known = {name: rest[name] for name in (*ORDER, *rest) if name in rest}
    split = {"split hash": manifest.get("split", {}).get("hash")}
    plain = manifest.get("experiment") or as_plain(results.experiment)
    text = json.dumps(plain, indent=2, default=str, ensure_ascii=False)
    return Section(
        "Provenance",
        resume,
        facts=facts(known | split),
        unfold={"The whole experiment, resolved": text},
    )
