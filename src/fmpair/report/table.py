"""A table ready to be shown, whatever it is shown in; and a part of the report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import polars as pl

# Numbers and names as a reader wants to see them.


NOTHING = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"
SMALLEST_P = 0.001
SLUG = 80  # letters: two of them in a file's name are still short enough
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
    """Four decimals where they matter: 0.2312, 31.5, 1,204."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    decimals = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return _minus(f"{value:,.{decimals}f}")


def short(value: float | None) -> str:
    """Two decimals: an effect size."""
    if value is None or not math.isfinite(value):
        return figure(value)
    return _minus(f"{value:+.2f}")


def signed(value: float | None) -> str:
    """A difference, with its sign."""
    text = figure(value)
    return f"+{text}" if value is not None and value > 0 else text


def percent(value: float | None) -> str:
    """A share as `12 %`, with a decimal where the number is small."""
    if value is None or not math.isfinite(value):
        return NOTHING
    decimals = 0 if abs(value) >= 0.0995 or value == 0 else 1
    return _minus(f"{100 * value:.{decimals}f}{NO_BREAK}%")


def p_value(value: float | None) -> str:
    """`< .001`, `.012`, or nothing; like the other texts here never cut in two by a line's end."""
    if value is None or math.isnan(value):
        return NOTHING
    if value < SMALLEST_P:
        return f"<{NO_BREAK}.001"
    return f"{value:.3f}".removeprefix("0")


def p_claim(value: float | None) -> str:
    """`p < .001` or `p = .012`."""
    text = p_value(value)
    sign = "" if text.startswith("<") else f"={NO_BREAK}"
    return f"p{NO_BREAK}{sign}{text}"


def interval(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"[{figure(low)}, {figure(high)}]"


def seconds(value: float | None) -> str:
    """Three figures of a time: 0.0123, 1.23, 12.3, 1,230."""
    if value is None or math.isnan(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 4)}f}"


def metric_title(name: str) -> str:
    """`ndcg@10[uni1000]` as `NDCG@10[uni1000]`."""
    stem = re.match(r"[a-z_]+", name)
    if stem is None:
        return name
    return TITLES.get(stem[0], stem[0].capitalize()) + name[stem.end() :]


def slug(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:SLUG].strip("-") or "table"


def told_apart(names: Sequence[str]) -> list[str]:
    """Each name once: names of other letters than slugs have may come to the same."""
    known: dict[str, None] = {}
    for name in names:
        tries = (name if number == 1 else f"{name}-{number}" for number in count(1))
        known[next(one for one in tries if one not in known)] = None
    return list(known)


def _minus(text: str) -> str:
    return text.replace("-", "−")


@dataclass(frozen=True)
class Cell:
    """text: the value; detail: what stands beside it, smaller. mark: + or -, see the notes.

    bold: the best. underlined: not significantly different from the best.
    """

    text: str
    detail: str = ""
    mark: str = ""
    bold: bool = False
    underlined: bool = False


@dataclass(frozen=True, eq=False)
class Sheet:
    """name: of its files. columns: headings; the first `words` of them hold text, not numbers.

    notes: what a reader must know, one line each. data: the same in full precision, for CSV.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    data: pl.DataFrame
    words: int = 1
    notes: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """name: of its files. svg: text for the page; png: bytes."""

    name: str
    title: str
    caption: str
    svg: str = field(repr=False)
    png: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the report: words, figures, tables, facts by name, and long text to unfold.

    wide: its figures need room, and stand in two columns at most.
    """

    title: str
    text: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    unfold: Mapping[str, str] = field(default_factory=dict)
    wide: bool = False

    @property
    def name(self) -> str:
        return slug(self.title)
