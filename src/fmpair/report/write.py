"""Everything a report consists of, written to a folder."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from fmpair.experiment.results import Results
from fmpair.files import make_folder, write_atomically
from fmpair.report.comparison import comparison
from fmpair.report.csv import csv
from fmpair.report.giveaway import headline
from fmpair.report.latex import latex
from fmpair.report.legacy import wraprec_results
from fmpair.report.markdown import markdown, markdown_report
from fmpair.report.page import page
from fmpair.report.sections import sections, warnings
from fmpair.report.sheet import Section

FOLDERS = ("tables", "figures")
LISTED = ".report"  # names the files of the report, one a line


def write(results: Results, folder: str | Path, exact: bool = False) -> Path:
    """Write the page, its tables and figures into the folder; gives the path of report.html.

    report.html, report.md; tables/*.csv, *.md, *.tex; figures/*.svg, *.png; results.csv and
    results.parquet (every value); wraprec.csv. Each file is written whole or not at all, the
    page last; those of an earlier report in the folder that this one lacks are removed.
    exact: text in CSV as it is, also where a spreadsheet would take it for a formula.
    """
    place = Path(folder)
    found = [comparison(results, label) for label in results.experiment.protocols]
    told = headline(results, found[0]) if found else ""
    parts, doubts = sections(results, found), warnings(results, found)
    title = results.experiment.name
    files = {
        **{name: data for part in parts for name, data in _files(part, exact)},
        **_values(results, exact),
        "report.md": markdown_report(title, told, parts, warnings=doubts).encode(),
        "report.html": page(title, told, doubts, parts).encode(),
    }
    for name in FOLDERS:
        make_folder(place / name)
    with _in_place_of_the_last(place, list(files)):
        for name, data in files.items():
            write_atomically(place / name, data)
    return place / "report.html"


def long_values(results: Results) -> pl.DataFrame:
    """Every value with the id of its protocol and the times of its cell."""
    ids = {label: protocol.id for label, protocol in results.experiment.protocols.items()}
    kept = (
        "cell",
        "options",
        "train_seconds",
        "judge_seconds",
        "epoch_seconds",
        "epochs",
        "peak_mb",
    )
    named = results.values.with_columns(
        protocol_id=pl.col("protocol").replace_strict(ids, return_dtype=pl.String)
    )
    return named.join(results.cells.select(kept), on="cell", how="left", maintain_order="left")


@contextmanager
def _in_place_of_the_last(folder: Path, names: list[str]) -> Iterator[None]:
    """Files that the last report had and this one does not are gone afterwards; no others are."""
    listed = folder / LISTED
    text = listed.read_text("utf-8", "replace") if listed.is_file() else ""
    before = [name for name in text.splitlines() if _is_ours(name)]
    write_atomically(listed, "\n".join(dict.fromkeys([*before, *names])).encode())
    yield
    for name in set(before) - set(names):
        if (folder / name).is_file():
            (folder / name).unlink()
    write_atomically(listed, "\n".join(names).encode())


def _is_ours(name: str) -> bool:
    """Whether a report could have a file of that name: the list may have been tampered with."""
    folder, _, file = name.rpartition("/")
    return folder in ("", *FOLDERS) and file not in ("", ".", "..")


def _files(part: Section, exact: bool) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of the files of a part's tables and figures."""
    for sheet in part.sheets:
        yield f"tables/{sheet.name}.csv", csv(sheet.data, exact)
        yield f"tables/{sheet.name}.md", markdown(sheet).encode()
        yield f"tables/{sheet.name}.tex", latex(sheet).encode()
    for figure in part.figures:
        yield f"figures/{figure.name}.svg", figure.svg.encode()
        yield f"figures/{figure.name}.png", figure.png


def _values(results: Results, exact: bool) -> dict[str, bytes]:
    values, parquet = long_values(results), io.BytesIO()
    values.write_parquet(parquet)
    return {
        "results.parquet": parquet.getvalue(),
        "results.csv": csv(values, exact),
        "wraprec.csv": csv(wraprec_results(results), exact),
    }
