"""The paper's figures: epoch times, learning curves, cost against size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from fmpair.report.number import metric_title
from fmpair.report.sheet import Figure
from fmpair.report.style import PALETTE, colours, drawn
from fmpair.reproduction.line import Line
from fmpair.reproduction.summary import Summary

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
