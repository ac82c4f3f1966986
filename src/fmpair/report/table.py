"""Tables, figures and sections of a report, independent of the output format; number formatting."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import polars as pl

NOTHING = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"
SMALLEST_P = 0.001
SLUG = 80  # characters: two slugs still fit into a file name
TITLES = {
    "ndcg": "NDCG",
    "ndcg_exp": "NDCG (exp)",
    "mrr": "MRR",
    "map": "MAP",
    "map_all": "MAP (all)",
    "auc": "AUC",
    "rmse": "RMSE",
    "mae": "MAE",
}


def figure(value: float | None) -> str:
    """Format a number with up to four decimals: 0.2312, 31.5, 1,204."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    decimals = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return _minus(f"{value:,.{decimals}f}")


def short(value: float | None) -> str:
    """Format an effect size: two decimals and a sign."""
    if value is None or not math.isfinite(value):
        return figure(value)
    return _minus(f"{value:+.2f}")


def signed(value: float | None) -> str:
    text = figure(value)
    return f"+{text}" if value is not None and value > 0 else text


def percent(value: float | None) -> str:
    """Format a share as `12 %`, or `1.2 %` if it is small."""
    if value is None or not math.isfinite(value):
        return NOTHING
    decimals = 0 if abs(value) >= 0.0995 or value == 0 else 1
    return _minus(f"{100 * value:.{decimals}f}{NO_BREAK}%")


def signed_percent(value: float | None) -> str:
    return f"+{percent(value)}" if value is not None and value > 0 else percent(value)


def p_value(value: float | None) -> str:
    """Format a p-value as `< .001` or `.012`, without line breaks."""
    if value is None or math.isnan(value):
        return NOTHING
    if value < SMALLEST_P:
        return f"<{NO_BREAK}.001"
    return f"{value:.3f}".removeprefix("0")


def p_claim(value: float | None) -> str:
    """Format a p-value as `p < .001` or `p = .012`."""
    text = p_value(value)
    sign = "" if text.startswith("<") else f"={NO_BREAK}"
    return f"p{NO_BREAK}{sign}{text}"


def interval(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"[{figure(low)}, {figure(high)}]"


def seconds(value: float | None) -> str:
    """Format a time with three significant digits: 0.0123, 1.23, 12.3, 1,230."""
    if value is None or math.isnan(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 4)}f}"


def metric_title(name: str) -> str:
    """Return `NDCG@10[uni1000]` for `ndcg@10[uni1000]`."""
    stem = re.match(r"[a-z_]+", name)
    if stem is None:
        return name
    return TITLES.get(stem[0], stem[0].capitalize()) + name[stem.end() :]


def slug(text: str) -> str:
    """Return a name that is valid on every file system."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:SLUG].strip("-") or "table"


def unique_names(names: Sequence[str]) -> list[str]:
    """Number repeated names: different titles may have the same slug."""
    used: dict[str, None] = {}
    for name in names:
        choices = (name if number == 1 else f"{name}-{number}" for number in count(1))
        used[next(choice for choice in choices if choice not in used)] = None
    return list(used)


def _minus(text: str) -> str:
    return text.replace("-", "−")


@dataclass(frozen=True)
class TableCell:
    """text: the value; detail: small text beside it; mark: +, - or =, as the notes explain.

    bold: the best value. underlined: not significantly different from the best.
    """

    text: str
    detail: str = ""
    mark: str = ""
    bold: bool = False
    underlined: bool = False


def cells(*texts: str) -> tuple[TableCell, ...]:
    """Plain cells of these texts."""
    return tuple(map(TableCell, texts))


@dataclass(frozen=True, eq=False)
class ReportTable:
    """A formatted table. name: of its files. columns: headings, the first ones of text columns.

    data: the same values in full precision, for CSV. notes: one line each. collapsed: shown on the
    page only on request. setting: what a LaTeX caption says after the title.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    data: pl.DataFrame
    text_columns: int = 1
    notes: tuple[str, ...] = ()
    collapsed: bool = False
    setting: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure as SVG and PNG. name: of its files."""

    name: str
    title: str
    caption: str
    svg: str = field(repr=False)
    png: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class Section:
    """A section of the report: paragraphs, figures, tables, facts by name, collapsed long texts.

    wide: show figures in at most two columns.
    """

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, str] = field(default_factory=dict)
    wide: bool = False

    @property
    def name(self) -> str:
        return slug(self.title)
