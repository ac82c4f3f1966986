"""Figures of a report and their style: metrics with intervals, groups, curves, tuning."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl

from fmpair.errors import OptionError
from fmpair.experiment.folder import Results
from fmpair.report.model_comparison import ModelComparison
from fmpair.report.result_tables import view_means, view_title
from fmpair.report.significance import lower_is_better
from fmpair.report.table import Figure, metric_title, slug
from fmpair.report.table import figure as figure_text
from fmpair.text import harmless

HEIGHT = 2.7  # inches
NAME_WIDTH = 24  # characters of a name beside an axis
CUTS = (2 / 3, 3 / 4, 1 / 2, 1 / 3, 1 / 5)  # shares of a shortened name before the ellipsis
LEGEND_LINE = 0.17  # inches
AXIS_WIDTH = 45  # characters below a horizontal axis


def bars(results: Results, compared: ModelComparison) -> list[Figure]:
    """For each metric a bar per model with its confidence interval."""
    shade = palette(results)

    def figure_of(metric: str) -> Figure:
        rows = compared.of(metric)
        return draw_figure(
            f"{slug(compared.label)}-{slug(metric)}",
            metric_title(metric),
            "Error bars: 95 % bootstrap confidence intervals over users.",
            lambda canvas: _metric_bars(canvas.subplots(), rows, shade),
            0.55 + 0.3 * len(rows),
        )

    return [figure_of(metric) for metric in compared.metrics]


def view_bars(results: Results, compared: ModelComparison, view: str) -> Figure | None:
    """The main metric by group, a bar per model."""
    means = view_means(results, compared, view)
    groups = means["group"].unique(maintain_order=True).to_list()
    models = means["model"].unique(maintain_order=True).to_list()
    if not groups:
        return None
    shade = palette(results)

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        thick = 0.8 / len(models)
        for index, model in enumerate(models):
            part = dict(means.filter(pl.col("model") == model).select("group", "value").rows())
            heights = [part.get(group, np.nan) for group in groups]
            middle = np.arange(len(groups)) + (index - (len(models) - 1) / 2) * thick
            axes.bar(middle, heights, 0.92 * thick, color=shade[model], label=f" {model}")
        names = [name.replace(", ", ",\n") for name in _short(groups, NAME_WIDTH)]
        crowded = sum(map(len, names)) > AXIS_WIDTH and not any("\n" in n for n in names)
        axes.set_xticks(
            range(len(groups)),
            names,
            rotation=30 if crowded else 0,
            ha="right" if crowded else "center",
        )
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel(view_title(view))
        axes.set_ylabel(metric_title(compared.metric))
        axes.grid(axis="y")
        legend(canvas, axes)

    return draw_figure(
        f"{slug(compared.label)}-by-{slug(view)}",
        f"{metric_title(compared.metric)} by {view_title(view)}",
        "Mean over the units of each group.",
        draw,
        _height(len(models)),
    )


def curves(results: Results) -> list[Figure]:
    """Training loss and metric by epoch, and the metric by time."""
    frame = results.curves
    judged = frame.filter(pl.col("metric").is_not_null() & pl.col("value").is_not_null())
    losses = frame.filter(pl.col("loss").is_not_null()).unique(
        ["model", "fold", "seed", "epoch"], keep="first", maintain_order=True
    )
    panels = [("loss", "Training loss", losses, "epoch", "loss")] if len(losses) else []
    if len(judged):
        metric, part = judged.select("metric", "part").row(0)
        judged = judged.filter((pl.col("metric") == metric) & (pl.col("part") == part))
        name = f"{metric_title(metric)} on the {part} set"
        panels += [
            ("epochs", f"{name}, by epoch", judged, "epoch", "value"),
            ("seconds", f"{name}, by time", judged, "seconds", "value"),
        ]
    return [_curve(results, *panel) for panel in panels]


def _curve(
    results: Results, name: str, title: str, data: pl.DataFrame, across: str, up: str
) -> Figure:
    caption = "Mean over folds and seeds, up to the shortest."
    caption += " Band: minimum to maximum." if across == "epoch" else ""
    label = "epoch" if across == "epoch" else "training time, s"
    return _line_figure(
        results, f"learning-{name}", title, caption, data, (across, label), (up, "")
    )


def tuning(results: Results) -> Figure | None:
    """The best value so far by trial, mean over folds."""
    good = results.trials.filter(pl.col("value").is_not_null() & pl.col("error").is_null())
    if good.is_empty():
        return None
    metric = good["metric"][0]
    best = pl.col("value").cum_min() if lower_is_better(metric) else pl.col("value").cum_max()
    so_far = good.sort("trial").with_columns(
        best.over("model", "fold").alias("value"), seed=pl.lit(0)
    )
    so_far = so_far.unique(["model", "fold", "trial"], keep="last", maintain_order=True)
    title, caption = (
        "Best value on the validation set so far",
        "Mean over folds. Band: minimum to maximum.",
    )
    x, y = ("trial", "trial"), ("value", metric_title(metric))
    return _line_figure(results, "tuning", title, caption, so_far, x, y, "steps-post")


def _line_figure(
    results: Results,
    name: str,
    title: str,
    caption: str,
    data: pl.DataFrame,
    x: tuple[str, str],
    y: tuple[str, str],
    drawstyle: str = "default",
) -> Figure:
    """A line per model. x, y: (column, axis label)."""

    def draw(canvas: Any) -> None:
        axes = canvas.subplots()
        _lines(axes, data, x[0], y[0], palette(results), drawstyle)
        axes.set_xlabel(x[1])
        axes.set_ylabel(y[1])
        axes.grid(axis="y")
        legend(canvas, axes)

    return draw_figure(name, title, caption, draw, _height(data["model"].n_unique()))


def palette(results: Results) -> dict[str, str]:
    return colours(model.name for model in results.experiment.models)


def _metric_bars(axes: Any, rows: Sequence[dict[str, Any]], shade: dict[str, str]) -> None:
    """Draw horizontal bars, the first model on top, with values at their ends."""
    means = np.array([row["mean"] for row in rows], np.float64)
    low, high = (
        np.array([row[end] if row[end] is not None else row["mean"] for row in rows], np.float64)
        for end in ("low", "high")
    )
    position = np.arange(len(rows))
    axes.barh(position, means, 0.62, color=[shade[row["model"]] for row in rows])
    reach = np.abs(np.stack([np.minimum(low - means, 0), np.maximum(high - means, 0)]))
    axes.errorbar(means, position, xerr=reach, fmt="none", ecolor=INK, elinewidth=1, capsize=2.5)
    axes.set_yticks(position, _short([row["model"] for row in rows], NAME_WIDTH))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    most = np.nanmax(np.concatenate([high, means, [0]]))
    axes.set_xlim(min(0.0, float(np.nanmin(means)) * 1.1), float(most) * 1.28 or 1.0)
    for at, row, end in zip(position, rows, high):
        axes.text(end + 0.03 * most, at, figure_text(row["mean"]), va="center", fontsize=8)
    axes.locator_params(axis="x", nbins=4)
    axes.grid(axis="x")


def _lines(
    axes: Any,
    data: pl.DataFrame,
    across: str,
    up: str,
    shade: dict[str, str],
    drawstyle: str = "default",
) -> None:
    """Draw the mean of the steps that all repeats have, with a band if steps are on the x-axis."""
    step = "trial" if across == "trial" else "epoch"
    for model, colour in shade.items():
        part = data.filter(pl.col("model") == model)
        if part.is_empty():
            continue
        repeats = part.select("fold", "seed").n_unique()
        means = part.group_by(step).agg(
            pl.col(up).mean(),
            pl.col(up).min().alias("low"),
            pl.col(up).max().alias("high"),
            pl.len().alias("count"),
            *([pl.col(across).mean()] if across != step else []),
        )
        means = means.filter(pl.col("count") == repeats).sort(step)
        axes.plot(means[across], means[up], color=colour, label=f" {model}", drawstyle=drawstyle,
                  marker="o" if len(means) == 1 else None, markersize=4)  # fmt: skip
        if across == step and repeats > 1:
            axes.fill_between(
                means[across],
                means["low"],
                means["high"],
                step="post" if drawstyle != "default" else None,
                color=colour,
                alpha=0.18,
                linewidth=0,
            )
    axes.locator_params(axis="y", nbins=6)
    axes.locator_params(axis="x", nbins=5, integer=across == step)


def legend(canvas: Any, axes: Any, width: int = NAME_WIDTH) -> None:
    """Add a legend above the axes. Labels start with a space: matplotlib skips a leading _."""
    handles, labels = axes.get_legend_handles_labels()
    names = [label[1:] for label in labels]
    canvas.legend(handles, _short(names, width), loc="outside upper left", ncols=2,
                  handlelength=1.2, columnspacing=1.2)  # fmt: skip


def _height(models: int) -> float:
    """Height of a figure whose legend has two models per line."""
    return HEIGHT + LEGEND_LINE * max(0, (models + 1) // 2 - 2)


def _short(names: Sequence[str], most: int) -> list[str]:
    """Shorten long names in the middle, at a cut that keeps them distinct if there is one."""
    names = [harmless(name) for name in names]
    cuts = [[_cut(name, most, round(share * most)) for name in names] for share in CUTS]
    return next((cut for cut in cuts if len(set(cut)) == len(set(names))), cuts[0])


def _cut(name: str, most: int, head: int) -> str:
    return name if len(name) <= most else f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


# The style of all figures: palette, sizes, reproducible SVG and PNG.

# The palette of Okabe and Ito for colour-blind readers, without yellow, which is invisible on
# white, and black, which is invisible on dark pages.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#7F7F7F", "#8C6D31")
INK, LINE = "#3b4252", "#9aa3b2"
INSTALL = "pip install 'fmpair[report]'"
WIDTH = 4.2  # inches: fits side by side, and on a phone

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # part of matplotlib: the same everywhere
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name may contain dollars
    "figure.dpi": 200,
    "figure.facecolor": "white",
    **dict.fromkeys(("axes.spines.top", "axes.spines.right"), False),
    **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), LINE),
    **dict.fromkeys(("axes.labelcolor", "axes.titlecolor", "text.color"), INK),
    **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
    **dict.fromkeys(("xtick.major.width", "ytick.major.width"), 0.8),
}


def available() -> bool:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        return False
    return True


def require() -> None:
    if not available():
        raise OptionError(f"figures need matplotlib: {INSTALL}")


def colours(models: Iterable[str]) -> dict[str, str]:
    """Return the colour of each model, the same in every figure."""
    shades = [*PALETTE, *map(_paler, PALETTE)]
    return {model: shades[n % len(shades)] for n, model in enumerate(models)}


def _paler(colour: str) -> str:
    """Return the colour half way to white, for more models than the palette has colours."""
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02X}" for part in parts)


def draw_figure(
    name: str, title: str, caption: str, draw: Callable[[Any], None], height: float
) -> Figure:
    """Draw a figure as SVG and PNG; draw: adds the axes to an empty matplotlib figure."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    # Ids inside an SVG are random unless salted; with the name they also differ between figures.
    with matplotlib.rc_context({**RC, "svg.hashsalt": name}), warnings.catch_warnings():
        # Only the PNG shows a box for a glyph that the font lacks; the SVG has the text.
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
        draw(canvas)
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # keep this layout for both formats
        svg, png = io.StringIO(), io.BytesIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        # `savefig` would compute the layout again for each format.
        FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
        canvas.patch.set_visible(False)
        for axes in canvas.axes:
            axes.patch.set_visible(False)
        FigureCanvasSVG(canvas).print_svg(svg, metadata=nothing)
    return Figure(name, title, caption, svg.getvalue(), png.getvalue())


def inlined(figure: Figure) -> str:
    """Return the SVG for an HTML page: no prologue, no namespaces, unique ids."""
    svg = figure.svg[figure.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{figure.name}-\1"', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{figure.name}-", svg)
    head = re.match(r"<svg[^>]*>", svg)
    size = re.search(r'viewBox="[^"]*"', head[0]) if head else None
    opening = f'<svg {size[0] if size else ""} role="img" aria-label="{escape(figure.title)}">'
    return opening + svg[head.end() if head else 0 :]
