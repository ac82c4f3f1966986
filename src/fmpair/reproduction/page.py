"""The page of the reproduction: verdicts, the paper's tables beside ours, figures, errata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.files import make_folder, write_atomically
from fmpair.report.figures import INK, LINE, PALETTE, colours, draw_figure, legend
from fmpair.report.output import page
from fmpair.report.sections import facts
from fmpair.report.table import Figure, ReportTable, Section, figure, metric_title
from fmpair.report.table_formats import markdown_report
from fmpair.reproduction import paper_tables
from fmpair.reproduction.paper import (
    CONTEXTS,
    DOMAINS,
    MRR,
    RULES,
    SETS,
    TABLE2,
    TABLE3,
    TABLE4,
    Runs,
    claims,
    cost_fits,
    runs_of,
)
from fmpair.reproduction.summary import RECALL, LinearFit, Summary, baseline_difference

TITLE = "The paper, reproduced"
IMAGES = "images"
INTRODUCTION = (
    "This page compares the results of the FM-Pair paper with ours, and says which of its claims "
    "hold. fmpair reproduce all runs the experiment files of examples/paper and writes the tables, "
    "figures and verdicts of this page from their results.",
    "Each comparison is made under two protocols, legacy and clean.",
    "Legacy repeats the code behind the paper's numbers. Every rating is positive. Each test item "
    "is ranked among 1000 other items: the first ones of the shuffled training events that the "
    "user has no event with. Constants that the paper does not state are those of that code.",
    "Clean follows the text of the paper. Ratings above the user's mean are positive. Each test "
    "event is ranked among 1000 random items that its user has no event with. The columns 'Clean, "
    "all items' rank it among all items.",
    "The hyper-parameters of clean were chosen on a validation set and are the same in all folds. "
    "The validation set is part of the training events of the last fold, so some of its events are "
    "test events of other folds. Each experiment file states the number of trials. Item bias is "
    "one of the hyper-parameters: it is left out if it lowered validation NDCG@10 by more than "
    ".001. This was the case on Amazon and XING, where FM-Pair without context is therefore the "
    "same model as BPR-MF.",
)
ERRATA = (
    "Signs of the update rule. The paper prints sigma(g) and + lambda theta. Gradient ascent on "
    "the sum of ln sigma(g) minus the penalty gives theta + eta (sigma(-g) dg/dtheta - lambda "
    "theta). The authors' code had the wrong sigmoid for two weeks, and always subtracted the "
    "penalty. fmpair checks its gradients by finite differences.",
    "Candidates. The paper says 1000 random items. The code took the first 1000 items that the "
    "user has no event with, in the order of the shuffled training events. These are mostly "
    "popular items, and nearly the same ones for all users.",
    "Thresholds. The paper says that ratings above the user's mean are positive. Its MovieLens "
    "numbers are reproduced only if every rating is positive.",
    "Duplicates. Frappe's 96,203 records are repeated uses of 18,842 pairs of user and app. The "
    "paper's numbers are reproduced only with distinct pairs, each with one of its contexts. With "
    "all records, the same pair is in the training and the test set, and Recall@10 is several "
    "times as high.",
    "Constants that are only in the code. Regularisation is .0025 for users and positive items, "
    ".00025 for negative items and for features, and 0 for biases. Every feature has the value 0.1 "
    "instead of 1. Events are not sampled uniformly: the code draws a user, then one of the user's "
    "items.",
)
TRIALS = (
    "The validation results of other losses, regularisation and choices of source items are in "
    "docs/LOG.md, under 'Context and attributes' and 'Other domains'."
)


def write(runs: Runs, folder: Path) -> Path:
    """Write report.html, reproduction.md and its images; return the path of the HTML page."""
    parts = sections(runs)
    write_page(runs, folder, parts)
    target = folder / "report.html"
    write_atomically(target, page(TITLE, verdict(runs), [], parts).encode())
    return target


def write_page(runs: Runs, folder: Path, parts: list[Section] | None = None) -> Path:
    """Write reproduction.md and images/*.svg into a folder, such as docs."""
    parts = sections(runs) if parts is None else parts
    make_folder(folder / IMAGES)
    for drawing in (drawing for part in parts for drawing in part.figures):
        write_atomically(folder / IMAGES / f"{drawing.name}.svg", drawing.svg.encode())
    target = folder / "reproduction.md"
    write_atomically(target, markdown_report(TITLE, verdict(runs), parts, IMAGES).encode())
    return target


def sections(runs: Runs) -> list[Section]:
    """The sections of the page that have content."""
    epochs = dict(runs_of(runs, "epoch-time", SETS))
    parts = [
        Section("Verdicts", (*INTRODUCTION, *RULES), tables=_claims_tables(runs)),
        Section("Table 1: data", tables=_present(paper_tables.data_table(runs))),
        _beside("Table 2: methods", "table2", SETS, TABLE2, runs, RECALL),
        _beside("Table 3: context and genres", "table3", CONTEXTS, TABLE3, runs, RECALL, MRR),
        _beside("Table 4: cross-domain", "table4", DOMAINS, TABLE4, runs, RECALL, MRR),
        Section("Time of an epoch", figures=(epoch_times(epochs),) if epochs else ()),
        _convergence(runs),
        _complexity(runs),
        _ablation(runs),
        Section("When source domains help", tables=_present(paper_tables.sparse_table(runs))),
        Section("Errata", tuple(errata(runs))),
        Section("Layouts", figures=layouts()),
        Section("How it was run", facts=provenance(runs)),
    ]
    return [part for part in parts if part.tables or part.figures or part.text or part.facts]


def verdict(runs: Runs) -> str:
    """Return the verdicts, each with the numbers of its claims."""
    numbers: dict[str, list[str]] = {}
    for claim in claims(runs):
        numbers.setdefault(claim.verdict, []).append(str(claim.number))
    verdicts = (f"{', '.join(each)}: {verdict}." for verdict, each in numbers.items())
    return " ".join(["Verdicts by claim of the paper.", *verdicts])


def _claims_tables(runs: Runs) -> tuple[ReportTable, ...]:
    decided = claims(runs)
    return paper_tables.claims_table(decided), paper_tables.evidence_table(decided)


def errata(runs: Runs) -> list[str]:
    """Errors and omissions of the paper, with the effect of the genre leak if it was measured."""
    leak = (
        "Genres leak the answer. In the paper, genres are context: negatives get the genres of the "
        "positive item, in training and in ranking, so the query contains the genres of the answer "
        "(target leakage)."
    )
    run = runs.get("table3-leak-legacy")
    small, whole = (
        baseline_difference(run, f"FM-Pair, leaked genres{of}") for of in ("", " of value 1")
    )
    if small is not None and whole is not None:
        leak += (
            f" Recall@10 under legacy rises from {figure(small.base)} to {figure(small.model)} "
            f"with features of value 0.1, and to {figure(whole.model)} with features of value 1. "
            "Neither is a measure of recommendation quality."
        )
    return [*ERRATA, leak]


def provenance(runs: Runs) -> dict[str, str]:
    """Facts about the machine and the budget of all runs together."""
    manifests = [run.manifest for run in runs.values() if run.manifest.get("ended")]
    if not manifests:
        return {}
    budget = {
        "experiments": len(manifests),
        "models fitted": sum(len(run.cells) for run in runs.values()),
        "seconds": round(sum(manifest["seconds"] for manifest in manifests)),
        "peak_mb": max(manifest["peak_mb"] for manifest in manifests),
    }
    return facts(budget | {name: manifests[0][name] for name in ("versions", "machine")})


def _present(*tables: ReportTable | None) -> tuple[ReportTable, ...]:
    return tuple(table for table in tables if table is not None)


def _beside(
    title: str, table: str, names: Mapping[str, str], printed: Mapping, runs: Runs, *metrics: str
) -> Section:
    """The tables of one of the paper's tables, one per data set and metric."""
    tables = [
        paper_tables.comparison_table(f"{table}-{name}", shown, runs, printed[name], metric)
        for name, shown in names.items()
        for metric in metrics
    ]
    return Section(title, tables=_present(*tables))


def _convergence(runs: Runs) -> Section:
    figures = [
        convergence(name, title, runs[f"convergence-{name}"])
        for name, title in (SETS | DOMAINS).items()
        if f"convergence-{name}" in runs
    ]
    return Section("Convergence", figures=tuple(figures))


def _complexity(runs: Runs) -> Section:
    by_factors, by_contexts = cost_fits(runs)
    figures: list[Figure] = []
    if by_factors:
        figures.append(cost("complexity-factors", "Cost by number of factors", "k", by_factors))
    if by_contexts:
        title = "Cost by number of contexts"
        figures.append(cost("complexity-contexts", title, "contexts", by_contexts))
    fits = {f"k, {name}": fit for name, fit in by_factors.items()}
    fits |= {f"contexts, {name}": fit for name, fit in by_contexts.items()}
    tables = (paper_tables.linear_fits_table(fits),) if fits else ()
    return Section("Complexity", figures=tuple(figures), tables=tables)


def _ablation(runs: Runs) -> Section:
    titles = {
        "frappe": "Frappe, context by context",
        "books": "Books, domain by domain",
        "music": "Music, domain by domain",
    }
    tables = [
        paper_tables.run_table(f"ablation-{name}", title, runs[f"ablation-{name}"])
        for name, title in titles.items()
        if f"ablation-{name}" in runs
    ]
    title, text = "What makes context and other domains help", (TRIALS,) if tables else ()
    return Section(title, text, tables=tuple(tables))


# Figures.

HEIGHT, LAYOUT_HEIGHT = 2.6, 1.9  # inches
LEGEND_WIDTH = 40  # characters of a name
REPEATS = "The fastest epoch of a fit: mean and standard deviation over repeats."


class ColumnBlock(NamedTuple):
    """A group of columns: a heading, the names of its columns, and rows of values as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]


FM_LAYOUT = (
    ColumnBlock("user", ("ann", "bob"), ("1 0", "1 0", "0 1")),
    ColumnBlock("item", ("maps", "mail", "chess"), ("1 0 0", "0 1 0", "0 0 1")),
    ColumnBlock("context", ("day", "night"), ("1 0", "0 1", "0 1")),
    ColumnBlock("item attributes", ("free", "paid"), ("1 0", "1 0", "0 1")),
)
DOMAIN_LAYOUT = (
    ColumnBlock("user", ("ann", "bob"), ("1 0", "1 0", "0 1")),
    ColumnBlock("book", ("b1", "b2", "b3"), ("1 0 0", "0 1 0", "0 0 1")),
    ColumnBlock("user's music", ("m1", "m2"), ("1/2 1/2", "1/2 1/2", "0 1")),
    ColumnBlock("user's films", ("f1", "f2"), ("0 1", "0 1", "1/2 1/2")),
)


def layouts() -> tuple[Figure, ...]:
    """Drawings of the data layouts of a factorization machine and of FM-Pair-CD."""
    return (
        _layout(
            "layout-machine",
            "Data layout of a factorization machine",
            FM_LAYOUT,
            "One row per event. A positive item and its negatives share the context; each has its "
            "own attributes.",
        ),
        _layout(
            "layout-domains",
            "Data layout of FM-Pair-CD",
            DOMAIN_LAYOUT,
            "One row per event of the target domain. The user's items of other domains are "
            "features of value 1/n, n the number of the user's items in that domain.",
        ),
    )


def _layout(name: str, title: str, blocks: Sequence[ColumnBlock], caption: str) -> Figure:
    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        axes.axis("off")
        left = 0.0
        for colour, block in zip(PALETTE, blocks):
            _block(axes, left, block, colour)
            left += len(block.columns) + 0.4
        axes.set_xlim(-0.1, left)
        axes.set_ylim(-len(blocks[0].rows) - 0.1, 2.1)

    return draw_figure(name, title, caption, draw, LAYOUT_HEIGHT)


def _block(axes: Any, left: float, block: ColumnBlock, colour: str) -> None:
    from matplotlib.patches import Rectangle

    title_at = left + len(block.columns) / 2
    axes.text(title_at, 1.6, block.title, ha="center", color=colour, weight="bold", fontsize=7.5)
    for across, column in enumerate(block.columns):
        axes.text(left + across + 0.5, 0.45, column, ha="center", color=INK, fontsize=7)
        for down, row in enumerate(block.rows):
            value = row.split()[across]
            filled = value != "0"
            look: dict[str, Any] = {
                "fill": filled,
                "alpha": 0.25 if filled else 1,
                "linewidth": 0.6,
            }
            corner = (left + across, -down - 1)
            axes.add_patch(Rectangle(corner, 1, 1, edgecolor=LINE, facecolor=colour, **look))
            middle = (left + across + 0.5, -down - 0.5)
            ink = INK if filled else LINE
            axes.text(*middle, value, ha="center", va="center", color=ink, fontsize=7)


def epoch_times(runs: Mapping[str, Summary]) -> Figure:
    """Seconds of an epoch by set, a bar per model, on a log scale."""
    shade = colours(next(iter(runs.values())).models)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        thick = 0.8 / len(shade)
        for index, model in enumerate(shade):
            rows = [_spread(run, model) for run in runs.values()]
            at = np.arange(len(rows)) + (index - (len(shade) - 1) / 2) * thick
            means, sds = zip(*rows)
            axes.bar(at, means, 0.9 * thick, yerr=sds, color=shade[model], label=f" {model}")
        axes.set_yscale("log")
        axes.set_xticks(range(len(runs)), list(runs))
        axes.set_ylabel("time of an epoch, s")
        axes.grid(axis="y")
        legend(canvas, axes, LEGEND_WIDTH)

    return draw_figure("epoch-time", "Time of an epoch", REPEATS, draw, HEIGHT)


def convergence(name: str, title: str, run: Summary) -> Figure:
    """The first metric every ten epochs, a line per model."""
    judged = run.curves.filter(pl.col("metric").is_not_null())
    metric = judged["metric"][0]
    means = (
        judged.filter(pl.col("metric") == metric)
        .group_by("model", "epoch", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    shade = colours(run.models)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        for model, colour in shade.items():
            part = means.filter(pl.col("model") == model).sort("epoch")
            axes.plot(part["epoch"], part["value"], color=colour, label=f" {model}")
        axes.set_xlabel("epoch")
        axes.set_ylabel(metric_title(metric))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        legend(canvas, axes, LEGEND_WIDTH)

    return draw_figure(
        f"convergence-{name}", f"Convergence, {title}", "On the test set.", draw, HEIGHT
    )


def cost(name: str, title: str, across: str, fits: Mapping[str, LinearFit]) -> Figure:
    """Milliseconds of an epoch by size, with linear fits."""

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        for colour, (label, fit) in zip(PALETTE, fits.items()):
            x, mean, sd = (fit.points[column].to_numpy() for column in ("x", "mean", "sd"))
            reach, text = 1000 * np.nan_to_num(sd.astype(float)), f" {label}, R2 {fit.r2:.3f}"
            axes.errorbar(x, 1000 * mean, reach, fmt="o", color=colour, markersize=3.5, label=text)
            axes.plot(x, 1000 * (fit.intercept + fit.slope * x), color=colour, linewidth=1)
        axes.set_xlabel(across)
        axes.set_ylabel("time of an epoch, ms")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        legend(canvas, axes, LEGEND_WIDTH)

    return draw_figure(name, title, REPEATS, draw, HEIGHT)


def _spread(run: Summary, model: str) -> tuple[float, float]:
    """Mean and standard deviation over folds, 0 for a single fold."""
    seconds = run.epoch_seconds().filter(pl.col("model") == model)["seconds"].to_numpy()
    return float(seconds.mean()), float(seconds.std(ddof=1)) if len(seconds) > 1 else 0.0
