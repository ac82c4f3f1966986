"""Everything a report consists of, written to a folder."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from fmpair.experiment.results import Results
from fmpair.files import write_atomically
from fmpair.report.comparison import comparison
from fmpair.report.latex import latex
from fmpair.report.legacy import wraprec_results
from fmpair.report.markdown import markdown, markdown_report
from fmpair.report.page import page
from fmpair.report.sections import sections, warnings
from fmpair.report.sheet import Figure, Sheet
from fmpair.report.verdict import verdict


def write(results: Results, folder: str | Path) -> Path:
    """Write the page, its tables and figures into the folder; gives the path of report.html.

    report.html, report.md; tables/*.csv, *.md, *.tex; figures/*.svg, *.png; results.csv and
    results.parquet (every value); wraprec.csv. Each file is written whole or not at all, the
    page last.
    """
    place = Path(folder)
    found = [comparison(results, label) for label in results.experiment.protocols]
    told = verdict(found[0]) if found else ""
    parts = sections(results, found)
    for name in ("tables", "figures"):
        (place / name).mkdir(parents=True, exist_ok=True)
    for part in parts:
        for sheet in part.sheets:
            _write_sheet(sheet, place / "tables")
        for figure in part.figures:
            _write_figure(figure, place / "figures")
    _write_values(results, place)
    title = results.experiment.name
    _text(place / "report.md", markdown_report(title, told, parts))
    target = place / "report.html"
    _text(target, page(title, told, warnings(results, found), parts))
    return target


def long_values(results: Results) -> pl.DataFrame:
    """Every value with the id of its protocol and the times of its cell."""
    ids = {label: protocol.id for label, protocol in results.experiment.protocols.items()}
    kept = ("cell", "options", "train_seconds", "judge_seconds", "epoch_seconds", "epochs",
            "peak_mb")  # fmt: skip
    named = results.values.with_columns(
        protocol_id=pl.col("protocol").replace_strict(ids, return_dtype=pl.String)
    )
    return named.join(results.cells.select(kept), on="cell", how="left", maintain_order="left")


def _write_sheet(sheet: Sheet, folder: Path) -> None:
    _text(folder / f"{sheet.name}.csv", sheet.data.write_csv())
    _text(folder / f"{sheet.name}.md", markdown(sheet))
    _text(folder / f"{sheet.name}.tex", latex(sheet))


def _write_figure(figure: Figure, folder: Path) -> None:
    _text(folder / f"{figure.name}.svg", figure.svg)
    write_atomically(folder / f"{figure.name}.png", figure.png)


def _write_values(results: Results, folder: Path) -> None:
    values, parquet = long_values(results), io.BytesIO()
    values.write_parquet(parquet)
    write_atomically(folder / "results.parquet", parquet.getvalue())
    _text(folder / "results.csv", values.write_csv())
    _text(folder / "wraprec.csv", wraprec_results(results).write_csv())


def _text(path: Path, text: str) -> None:
    write_atomically(path, text.encode())
