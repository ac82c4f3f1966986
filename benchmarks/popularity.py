"""Who gets seen: what holding popular items back costs, and what it brings.

    FMPAIR_DATA=... python benchmarks/popularity.py [FOLDER] [--write]

Runs examples/benchmarks/popularity.yaml into FOLDER (runs/published unless given; what is there
already is not run again) and prints its tables. --write puts them into docs/popularity.md, and
the figure beside it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tasks import in_one_line

from fmpair.config.read import read
from fmpair.experiment.folder import Results
from fmpair.experiment.run import run
from fmpair.files import write_atomically
from fmpair.report.figures import PALETTE, draw_figure
from fmpair.report.table import metric_title

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
METRICS = ("ndcg@10", "recall@10", "coverage@10", "gini@10", "popularity@10")
THIRDS = ("head", "mid", "tail")
WAYS = ("damping", "power")
POWER = "popularity_power"  # in tables and figures: power
LEVELS = {"coverage@10": (0.35, 0.4, 0.45, 0.5, 0.55), "gini@10": (0.85, 0.8, 0.75, 0.7)}
SIZE = (8.4, 6.4)  # inches


class Point(NamedTuple):
    """One model: its loss, the way popularity bias is reduced, how strongly, and its metrics."""

    loss: str
    way: str
    strength: float
    values: Mapping[str, float]


def main() -> None:
    folder = folder_given()
    changes = [f"output.folder={folder / 'popularity'}", "output.refit=false"]
    changes += ["run.workers=1", "run.threads=2"]
    results = run(read(ROOT / "examples" / "benchmarks" / "popularity.yaml", changes))
    lines = lines_of(points(results))
    text = "\n".join([*table(results), "", *at_equal_levels(lines)])
    print(text)
    figure = draw_figure("popularity", "", "", lambda canvas: draw(canvas, lines), SIZE[1])
    (folder / "popularity.png").write_bytes(figure.png)
    if "--write" in sys.argv:
        page, begin, end = DOCS / "popularity.md", "<!-- results -->", "<!-- /results -->"
        before, rest = page.read_text().split(begin)
        page.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
        write_atomically(DOCS / "images" / "popularity.svg", figure.svg.encode())


def folder_given() -> Path:
    """Where runs go: the folder named on the command line, else runs/published."""
    given = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    folder = given[0] if given else ROOT / "runs" / "published"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def values_of(results: Results, model: str) -> dict[str, float]:
    """Each metric of a model per user, and recall per event by the popularity of its item."""
    whole = results.values.filter(model=model, protocol="per user")
    thirds = results.views.filter(model=model, protocol="per event", metric="recall@10")
    return dict(whole.select("metric", "value").rows()) | dict(
        thirds.select("group", "value").rows()
    )


def points(results: Results) -> list[Point]:
    """The models that reduce popularity bias, in the order of the file."""
    found = []
    for model in results.cells["model"]:
        loss, _, setting = model.replace(POWER, "power").partition(" ")
        way, _, strength = setting.partition("=")
        if way in WAYS:
            found.append(Point(loss, way, float(strength), values_of(results, model)))
    return found


def lines_of(found: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    """By loss and way the points in order of strength; no damping is also a power of 0."""
    lines: dict[tuple[str, str], list[Point]] = {}
    for point in found:
        if point.way == "damping" and point.strength == 0:
            lines.setdefault((point.loss, "power"), []).append(point._replace(way="power"))
        lines.setdefault((point.loss, point.way), []).append(point)
    return lines


def table(results: Results) -> list[str]:
    """The lines of a Markdown table: a row for each model."""
    titles = [*map(metric_title, METRICS), *THIRDS]
    lines = ["| | " + " | ".join(titles) + " |", "|---|" + "--:|" * len(titles)]
    for model in results.cells["model"]:
        values = values_of(results, model)
        cells = [f"{values[name]:.{1 if name == 'popularity@10' else 4}f}" for name in METRICS]
        cells += [f"{values[name]:.3f}" for name in THIRDS]
        label = model.replace(POWER, "power").replace("=", " ")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def at_equal_levels(lines: Mapping[tuple[str, str], list[Point]]) -> list[str]:
    """A Markdown table: the NDCG of every line where coverage, or Gini, are alike."""
    levels = [(metric, level) for metric in LEVELS for level in LEVELS[metric]]
    titles = [f"{metric.partition('@')[0]} {level:g}" for metric, level in levels]
    out = ["| NDCG@10 at | " + " | ".join(titles) + " |", "|---|" + "--:|" * len(titles)]
    for (loss, way), line in lines.items():
        cells = [_between(line, metric, level) for metric, level in levels]
        out.append(f"| {loss}, {way} | " + " | ".join(cells) + " |")
    return out


def _between(line: Sequence[Point], metric: str, level: float) -> str:
    """NDCG where the straight line between neighbouring points has the level; else nothing."""
    across = np.array([point.values[metric] for point in line])
    up = np.array([point.values["ndcg@10"] for point in line])
    order = np.argsort(across)
    found = np.interp(level, across[order], up[order], left=np.nan, right=np.nan)
    return "" if np.isnan(found) else f"{found:.3f}"


def draw(canvas: Any, lines: Mapping[tuple[str, str], list[Point]]) -> None:
    """NDCG against coverage above, against Gini below; a column for each loss, a line a way."""
    canvas.set_size_inches(SIZE)
    losses = list(dict.fromkeys(loss for loss, _ in lines))
    panels = canvas.subplots(len(LEVELS), len(losses), sharex="row", sharey=True)
    for row, metric in zip(panels, LEVELS):
        for axes, loss in zip(row, losses):
            for way, colour in zip(WAYS, PALETTE):
                _line(axes, lines[loss, way], metric, colour)
            axes.set_xlabel(metric_title(metric))
            axes.grid()
            axes.margins(0.13, 0.1)
        row[0].set_ylabel(metric_title("ndcg@10"))
    for axes, loss in zip(panels[0], losses):
        axes.set_title(loss)
    panels[1][0].invert_xaxis()  # fairer lists to the right, as above
    panels[0][1].legend()


def _line(axes: Any, line: Sequence[Point], metric: str, colour: str) -> None:
    """One way, with the strength at each point: damping above the line, power below."""
    way = line[0].way
    x = [point.values[metric] for point in line]
    y = [point.values["ndcg@10"] for point in line]
    axes.plot(x, y, "o-" if way == "damping" else "s--", color=colour, markersize=4, label=way)
    above = way == "damping"
    for point, at in zip(line, zip(x, y)):
        if above or point.strength:  # the one point that both have is named once
            text = f"{point.strength:g}".replace("-", "\N{MINUS SIGN}")
            right = above and point.strength >= 0
            axes.annotate(
                text, at, (4 if right else -4, 3 if above else -3), textcoords="offset points",
                ha="left" if right else "right", va="bottom" if above else "top", fontsize=8,
                color=colour,
            )  # fmt: skip


if __name__ == "__main__":
    in_one_line(main)
