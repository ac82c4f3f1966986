"""Figures of the reproduction: data layouts, epoch times, learning curves, cost by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.report.figures import legend
from fmpair.report.style import INK, LINE, PALETTE, colours, drawn
from fmpair.report.table import Figure, metric_title
from fmpair.reproduction.summary import LinearFit, Summary

HEIGHT, LAYOUT_HEIGHT = 2.6, 1.9  # inches
LEGEND_WIDTH = 40  # characters of a name
REPEATS = "The fastest epoch of a fit: mean and standard deviation over repeats."


class ColumnBlock(NamedTuple):
    """A group of columns: a heading, the names of its columns, and rows of values as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[str]


MACHINE = (
    ColumnBlock("user", ("ann", "bob"), ("1 0", "1 0", "0 1")),
    ColumnBlock("item", ("maps", "mail", "chess"), ("1 0 0", "0 1 0", "0 0 1")),
    ColumnBlock("context", ("day", "night"), ("1 0", "0 1", "0 1")),
    ColumnBlock("item attributes", ("free", "paid"), ("1 0", "1 0", "0 1")),
)
DOMAINS = (
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
            MACHINE,
            "One row per event. A positive item and its negatives share the context; each has its "
            "own attributes.",
        ),
        _layout(
            "layout-domains",
            "Data layout of FM-Pair-CD",
            DOMAINS,
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

    return drawn(name, title, caption, draw, LAYOUT_HEIGHT)


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

    return drawn("epoch-time", "Time of an epoch", REPEATS, draw, HEIGHT)


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

    return drawn(f"convergence-{name}", f"Convergence, {title}", "On the test set.", draw, HEIGHT)


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

    return drawn(name, title, REPEATS, draw, HEIGHT)


def _spread(run: Summary, model: str) -> tuple[float, float]:
    """Mean and standard deviation over folds, 0 for a single fold."""
    seconds = run.epoch_seconds().filter(pl.col("model") == model)["seconds"].to_numpy()
    return float(seconds.mean()), float(seconds.std(ddof=1)) if len(seconds) > 1 else 0.0
