"""The paper's figures: epoch times, learning curves, cost against size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.report.style import INK, LINE, PALETTE, colours, drawn
from fmpair.report.table import Figure, metric_title
from fmpair.reproduction.summary import Line, Summary

# Drawings of the two data layouts: of a factorization machine, and across domains.


DRAWING_HEIGHT = 1.9  # inches


class Block(NamedTuple):
    """A group of columns: a heading, the names of its columns, and rows of values."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


MACHINE = (
    Block("user", ("ann", "bob"), (("1", "0"), ("1", "0"), ("0", "1"))),
    Block("item", ("maps", "mail", "chess"), (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1"))),
    Block("context", ("day", "night"), (("1", "0"), ("0", "1"), ("0", "1"))),
    Block("item's own", ("free", "paid"), (("1", "0"), ("1", "0"), ("0", "1"))),
)
DOMAINS = (
    Block("user", ("ann", "bob"), (("1", "0"), ("1", "0"), ("0", "1"))),
    Block("book", ("b1", "b2", "b3"), (("1", "0", "0"), ("0", "1", "0"), ("0", "0", "1"))),
    Block("their music", ("m1", "m2"), (("1/2", "1/2"), ("1/2", "1/2"), ("0", "1"))),
    Block("their films", ("f1", "f2"), (("0", "1"), ("0", "1"), ("1/2", "1/2"))),
)


def layouts() -> tuple[Figure, ...]:
    """The drawings, the same wherever they are made."""
    return (
        _layout(
            "layout-machine",
            "Data layout of a factorization machine",
            MACHINE,
            "One row per event. Context is shared by the positive item and its negatives; "
            "attributes of an item are its own.",
        ),
        _layout(
            "layout-domains",
            "Data layout of FM-Pair-CD",
            DOMAINS,
            "One row per event of the target domain; the user's items of other domains are "
            "features, each of value one by the number of the user's items in its domain.",
        ),
    )


def _layout(name: str, title: str, blocks: Sequence[Block], caption: str) -> Figure:
    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        axes.axis("off")
        left = 0.0
        for colour, block in zip(PALETTE, blocks):
            _block(axes, left, block, colour)
            left += len(block.columns) + 0.4
        axes.set_xlim(-0.1, left)
        axes.set_ylim(-len(blocks[0].rows) - 0.1, 2.1)

    return drawn(name, title, caption, draw, DRAWING_HEIGHT)


def _block(axes: Any, left: float, block: Block, colour: str) -> None:
    middle = left + len(block.columns) / 2
    axes.text(middle, 1.6, block.title, ha="center", color=colour, weight="bold", fontsize=7.5)
    for across, column in enumerate(block.columns):
        axes.text(left + across + 0.5, 0.45, column, ha="center", color=INK, fontsize=7)
        for down, row in enumerate(block.rows):
            value = row[across]
            shade = LINE if value == "0" else colour
            box = {"fill": value != "0", "alpha": 0.25 if value != "0" else 1}
            corner = (left + across, -down - 1)
            axes.add_patch(_square(corner, edgecolor=LINE, facecolor=colour, **box))
            axes.text(
                left + across + 0.5,
                -down - 0.5,
                value,
                ha="center",
                va="center",
                color=INK if value != "0" else shade,
                fontsize=7,
            )


def _square(corner: tuple[float, float], **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle(corner, 1, 1, linewidth=0.6, **look)


HEIGHT = 2.6  # inches
REPEATS = "The fastest epoch of a fit: mean and standard deviation over repeats."


def epoch_times(found: Mapping[str, Summary]) -> Figure:
    """Seconds of an epoch by set, a bar per model, on a log scale."""
    first = next(iter(found.values()))
    shade = colours(first.models)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        thick = 0.8 / len(shade)
        for place, model in enumerate(shade):
            rows = [_spread(one, model) for one in found.values()]
            at = np.arange(len(rows)) + (place - (len(shade) - 1) / 2) * thick
            axes.bar(
                at,
                [mean for mean, _ in rows],
                0.9 * thick,
                yerr=[sd for _, sd in rows],
                color=shade[model],
                label=model,
            )
        axes.set_yscale("log")
        axes.set_xticks(range(len(found)), list(found))
        axes.set_ylabel("seconds of an epoch")
        axes.grid(axis="y")
        _legend(canvas, axes)

    return drawn("epoch-time", "Time of an epoch", REPEATS, draw, HEIGHT)


def convergence(name: str, title: str, found: Summary) -> Figure:
    """The first metric after every ten epochs, a line per model."""
    judged = found.curves.filter(pl.col("metric").is_not_null())
    metric = judged["metric"][0]
    means = (
        judged.filter(pl.col("metric") == metric)
        .group_by("model", "epoch", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    shade = colours(found.models)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        for model, colour in shade.items():
            part = means.filter(pl.col("model") == model).sort("epoch")
            axes.plot(part["epoch"], part["value"], color=colour, label=model)
        axes.set_xlabel("epochs")
        axes.set_ylabel(metric_title(metric))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        _legend(canvas, axes)

    return drawn(f"convergence-{name}", f"Convergence, {title}", "On the test set.", draw, HEIGHT)


def cost(name: str, title: str, across: str, lines: Mapping[str, Line]) -> Figure:
    """Milliseconds of an epoch against a size, with the straight lines through them."""

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        for colour, (label, one) in zip(PALETTE, lines.items()):
            x, mean, sd = (one.points[column].to_numpy() for column in ("x", "mean", "sd"))
            reach, told = 1000 * np.nan_to_num(sd.astype(float)), f"{label}, R2 {one.r2:.3f}"
            axes.errorbar(x, 1000 * mean, reach, fmt="o", color=colour, markersize=3.5, label=told)
            axes.plot(x, 1000 * (one.start + one.slope * x), color=colour, linewidth=1)
        axes.set_xlabel(across)
        axes.set_ylabel("milliseconds of an epoch")
        axes.set_ylim(bottom=0)
        axes.grid(axis="y")
        _legend(canvas, axes)

    return drawn(name, title, REPEATS, draw, HEIGHT)


def _spread(found: Summary, model: str) -> tuple[float, float]:
    """Mean and standard deviation over folds, 0 where there is one fold only."""
    seconds = found.epoch_seconds().filter(pl.col("model") == model)["seconds"].to_numpy()
    return float(seconds.mean()), float(seconds.std(ddof=1)) if len(seconds) > 1 else 0.0


def _legend(canvas: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    canvas.legend(
        handles, labels, loc="outside upper left", ncols=2, handlelength=1.2, columnspacing=1.2
    )
