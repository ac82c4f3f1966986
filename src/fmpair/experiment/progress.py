"""How far a run is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fmpair.experiment.cell import Cell

Show = bool | Callable[[str], None]


@dataclass
class Progress:
    """Counts cells; say: where a line goes. fresh: those carried out now, not found stored."""

    total: int
    say: Callable[[str], None]
    move: Callable[[int, str], None] = lambda done, text: None
    done: int = 0
    fresh: int = 0
    began: float = field(default_factory=time.perf_counter)

    def begin(self, cell: Cell) -> None:
        """A cell is under way."""
        self.move(self.done, f"{cell}{self._left()}")

    def found(self) -> None:
        """A cell was already done, by an earlier run or under another name."""
        self.done += 1
        self.move(self.done, "")

    def end(self, cell: Cell, record: Mapping[str, Any]) -> None:
        """A cell is done."""
        self.done += 1
        self.fresh += 1
        self.move(self.done, f"{cell}{self._left()}")
        self.say(f"{self.done} of {self.total}: {cell}: {_figures(record)}{self._left()}")

    def _left(self) -> str:
        """The remaining time, at the speed so far."""
        if not self.fresh or self.done >= self.total:
            return ""
        pace = (time.perf_counter() - self.began) / self.fresh
        return f", about {duration(pace * (self.total - self.done))} left"


@contextmanager
def shown(show: Show, total: int) -> Iterator[Progress]:
    """show: True for a bar or lines on standard error, False for silence, or where lines go."""
    if callable(show):
        yield Progress(total, show)
    elif not show:
        yield Progress(total, lambda line: None)
    elif sys.stderr.isatty():
        with _bar(total) as progress:
            yield progress
    else:
        yield Progress(total, lambda line: print(line, file=sys.stderr, flush=True))


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def move(done: int, text: str) -> None:
            bar.update(task, completed=done, description=text)

        def say(line: str) -> None:
            if " failed: " in line:  # the bar says the rest
                bar.console.print(line, markup=False, highlight=False)

        yield Progress(total, say, move)


def _figures(record: Mapping[str, Any]) -> str:
    if record["error"] is not None:
        return f"failed: {record['error']}"
    metric, value = next(iter(record["protocols"][0]["means"].items()))
    seconds = record["train_seconds"] + record["judge_seconds"]
    shown = "none" if value is None else f"{value:.4f}"
    return f"{metric} {shown} after {seconds:.1f} s"
