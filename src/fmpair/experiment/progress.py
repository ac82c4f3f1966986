"""Progress of a run: a bar on a terminal, plain lines elsewhere, and the time that is left."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fmpair.experiment.cell import VALIDATION, Cell
from fmpair.text import harmless

Show = bool | Callable[[str], None]
BAR_WIDTH = 10  # leaves room for the text on a terminal of 80 columns


@dataclass
class Pace:
    """The seconds that a cell of each model takes, from those that are done.

    Trials count only until a cell is done: they learn from fewer events, some with fewer epochs.
    """

    cells: dict[str, list[float]] = field(default_factory=dict)
    trials: dict[str, list[float]] = field(default_factory=dict)

    def add(self, cell: Cell, record: Mapping[str, Any]) -> None:
        seconds = record.get("train_seconds", 0.0) + record.get("judge_seconds", 0.0)
        by_model = self.trials if cell.part == VALIDATION else self.cells
        by_model.setdefault(cell.model.name, []).append(seconds)

    def left(self, waiting: Mapping[str, int], workers: int) -> str:
        """Return the time that the waiting cells take; at least that if a model has no cell yet.

        waiting: their number by model.
        """
        known = {name: self.cells.get(name) or self.trials.get(name) for name in waiting}
        seconds = sum(sum(s) / len(s) * waiting[name] for name, s in known.items() if s) / workers
        if all(name in self.cells for name in waiting):
            return f"about {duration(seconds)} left"
        return f"more than {duration(seconds)} left" if seconds >= 1 else ""


@dataclass
class Progress:
    """Counts cells. tell: prints a line; tell_cell: the line of a cell; move: moves the bar.

    waiting: the cells that are not done, by model. by_time: during a search with a time budget,
    whose number of trials is not known before.
    """

    waiting: Counter[str]
    tell: Callable[[str], None]
    tell_cell: Callable[[str], None]
    move: Callable[[int, int | None, str], None] = lambda done, total, text: None
    done: int = 0
    total: int = 0
    by_time: bool = False
    pace: Pace = field(default_factory=Pace)
    running: int = 0
    workers: int = 1  # most cells that ran at a time

    def __post_init__(self) -> None:
        self.total = self.waiting.total()

    def expect(self, cells: Iterable[Cell]) -> None:
        """Take these cells for all that is left."""
        self.waiting = Counter(cell.model.name for cell in cells)
        self.total = self.done + self.waiting.total()

    def begin(self, cell: Cell) -> None:
        self.running += 1
        self.workers = max(self.workers, self.running)
        self._move(f"{cell}{self._left()}")

    def skip(self, cell: Cell) -> None:
        """Count a cell that was already done, by an earlier run or under another name."""
        self._count(cell)
        self._move("")

    def end(self, cell: Cell, record: Mapping[str, Any]) -> None:
        self.running = max(self.running - 1, 0)
        self._count(cell)
        self.pace.add(cell, record)
        self._move(f"{cell}{self._left()}")
        self.tell_cell(harmless(f"{self.count}: {cell}: {_figures(record)}{self._left()}"))

    def show(self, line: str) -> None:
        """Show what is done beside the cells: in the bar, or as a line."""
        self._move(line)
        self.tell_cell(harmless(line))

    @property
    def count(self) -> str:
        """How many cells are done, and of how many if that is known."""
        return str(self.done) if self.by_time else f"{self.done} of {self.total}"

    def _count(self, cell: Cell) -> None:
        self.done += 1
        self.waiting[cell.model.name] -= 1
        self.waiting = +self.waiting  # a search may have more fits than settings

    def _move(self, text: str) -> None:
        self.move(self.done, None if self.by_time else max(self.done, self.total), text)

    def _left(self) -> str:
        """Return the remaining time; empty if it is not known, or nothing is left."""
        if self.by_time or not self.waiting:
            return ""
        left = self.pace.left(self.waiting, self.workers)
        return f", {left}" if left else ""


@contextmanager
def show_progress(show: Show, sizes: Mapping[str, int]) -> Iterator[Progress]:
    """Yield the progress display; show: as `progress` of `run`; sizes: cells by model."""
    waiting = Counter(sizes)
    if callable(show):
        yield Progress(waiting, show, show)
    elif show and sys.stderr.isatty():
        with _bar(waiting) as progress:
            yield progress
    else:

        def tell(line: str) -> None:
            if show:
                print(line, file=sys.stderr, flush=True)

        yield Progress(waiting, tell, tell)


@contextmanager
def _bar(waiting: Counter[str]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(BAR_WIDTH), MofNCompleteColumn(), text)
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=waiting.total())

        def move(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, description=text)
            bar.tasks[task].total = total  # update() takes None for no change

        def tell(line: str) -> None:
            bar.console.print(line, markup=False, highlight=False)

        def tell_cell(line: str) -> None:
            if " failed: " in line:  # the bar shows the others
                tell(line)

        yield Progress(waiting, tell, tell_cell, move)


def duration(seconds: float) -> str:
    """Return `40 s`, `12 min` or `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _figures(record: Mapping[str, Any]) -> str:
    if record["error"] is not None:
        return f"failed: {record['error']}"
    metric, value = next(iter(record["protocols"][0]["means"].items()))
    seconds = record["train_seconds"] + record["judge_seconds"]
    return f"{metric} {'none' if value is None else f'{value:.4f}'} after {seconds:.1f} s"
