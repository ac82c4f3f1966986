"""A table ready to be shown, whatever it is shown in; and a part of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from fmpair.report.number import slug


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
