"""Output of commands: results on standard output, notes and errors on standard error."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.checks import FOREIGN_OPTIONS
from fmpair.errors import ConfigError, FmpairError, Notice, Spell, nearest
from fmpair.text import harmless, isolated

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

ROWS_ON_A_TERMINAL = 50
ALIKE = 0.65  # how similar a flag must be to be proposed
# How messages of the parser end, which differ between its versions, and what they mean.
NUMBERS = {
    "valid integer": "a whole number",
    "valid number": "a number",
    "valid float": "a number",
}
# An argument that the command does not take, and the flag it was probably meant for.
EXTRA = re.compile(r"extra arguments?(?:\(s\))? \((\S+).*\)$")
ID_FLAGS = {"recommend": "--user", "similar": "--item", "explain": "--user"}
USER_MISTAKE, WRONG_USAGE, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141  # exit codes

# The base of the parser's errors, which typer exports in some versions only.
UsageError: Any = typer.BadParameter.__mro__[1]
ParserError: Any = UsageError.__mro__[1]

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file to write: .csv, .tsv, .parquet or .jsonl; - for standard output.",
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="csv, tsv, parquet or jsonl; by default from the suffix."
    ),
]


class _Closed(io.RawIOBase):
    """Stands for a closed standard output (`>&-`): writing to it raises an error."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, "standard output is closed")


def replace_closed_streams() -> None:
    """Replace closed standard streams, which Python represents by None.

    Then standard input is empty, writing to standard output raises, and notes are discarded.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # files that are opened later must not get the numbers of the streams
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        raw: Any = _Closed()
        sys.stdout = io.TextIOWrapper(raw, "utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


@contextmanager
def only_errors(quiet: bool = True) -> Iterator[None]:
    """Hide the log below errors, if quiet."""
    logs = [logging.getLogger(name) for name in ("fmpair", "fmpair.progress")]
    levels = [log.level for log in logs]
    for log, level in zip(logs, levels):
        log.setLevel(logging.ERROR if quiet else level)
    try:
        yield
    finally:
        for log, level in zip(logs, levels):
            log.setLevel(level)


def note(text: str) -> None:
    """Print a line on standard error, unless it is empty."""
    if text:
        print(harmless(text), file=sys.stderr, flush=True)


@contextmanager
def printed_notices(spell: Spell) -> Iterator[None]:
    """Print notices of the library as notes, with options written by `spell`."""

    def show_warning(message: Any, category: type[Warning], *location: Any, **more: Any) -> None:
        if isinstance(message, Notice):
            note(f"note: {message.spelled(spell)}")
        else:
            default(message, category, *location, **more)

    def respelled(record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                arg.spelled(spell) if isinstance(arg, Notice) else arg for arg in record.args
            )
        return True

    log, progress = logging.getLogger("fmpair"), logging.getLogger("fmpair.progress")
    handler, level = logging.StreamHandler(), progress.level
    log.addFilter(respelled)
    handler.addFilter(respelled)
    progress.addHandler(handler)
    progress.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            default, warnings.showwarning = warnings.showwarning, show_warning
            warnings.simplefilter("default", Notice)
            yield
    finally:
        log.removeFilter(respelled)
        progress.removeHandler(handler)
        progress.setLevel(level)


def note_no_figures() -> None:
    """Warn before a long command if its report will have no figures."""
    from fmpair.report import figures

    note("" if figures.available() else f"no figures without matplotlib: {figures.INSTALL}")


def emit(
    frame: pl.DataFrame,
    output: str | None = None,
    format: str | None = None,
    by: str | None = None,
    noted: Sequence[str] = (),
) -> None:
    """Write a frame to a file or stream; on a terminal, print it as a table.

    A terminal is narrow: it gets no columns without values, nor those `noted` in another line.
    by: print one table per value of this column, titled by the value.
    """
    if output is None and format is None and sys.stdout.isatty():
        shown = frame.head(ROWS_ON_A_TERMINAL).drop(noted, strict=False)
        show(*(_tables(shown, by) if by else [_filled(shown)]))
        more = len(frame) - ROWS_ON_A_TERMINAL
        note(f" {more:,} more rows; -o FILE writes all" if more > 0 else "")
        return
    from fmpair.data.write import write

    write(frame, output or "-", format)
    if output not in (None, "-"):
        note(f"wrote {len(frame):,} rows to {output}")


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]], title: str | None = None) -> Table:
    """Return a plain table; numbers are right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    cells = [list(row) for row in rows]
    result = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    for index, name in enumerate(columns):
        numeric = any(isinstance(row[index], int | float) for row in cells)
        result.add_column(isolated(name), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        result.add_row(*map(_cell, row))
    return result


def _tables(frame: pl.DataFrame, by: str) -> list[Table]:
    parts = frame.partition_by(by, maintain_order=True)
    return [_filled(part.drop(by), part[by][0] or None) for part in parts]


def _filled(frame: pl.DataFrame, title: str | None = None) -> Table:
    """Return the columns with values as a table; all columns if there are no rows."""
    names = [values.name for values in frame.iter_columns() if values.null_count() < len(frame)]
    shown = frame.select(names or frame.columns)
    return table(shown.columns, shown.rows(), title)


def show(*things: Any) -> None:
    """Print tables and lines on standard output."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    for thing in things:
        console.print(
            harmless(thing) if isinstance(thing, str) else thing, soft_wrap=isinstance(thing, str)
        )


@contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is under way: a spinner on a terminal, a line elsewhere, nothing for "".

    Yield a function that shows another text.
    """
    if not text:
        yield lambda text: None
        return
    if not sys.stderr.isatty():
        note(f"{text} ...")
        yield lambda text: note(f"{text} ...")
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(f"{text} ...") as status:
        yield lambda text: status.update(escape(harmless(f"{text} ...")))


def with_bar(parts: Iterator[Any], what: str, total: int, each: int) -> Iterator[Any]:
    """Yield the parts with a progress bar on a terminal; each: units of `total` per part."""
    if not sys.stderr.isatty():
        yield from parts
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        for number, part in enumerate(parts, 1):
            bar.update(task, completed=min(number * each, total))
            yield part


def size_of(path: Path) -> str:
    """Return the size of a file as text."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return f"{value:.4f}" if isinstance(value, float) else isolated(str(value))


def error_lines(error: BaseException, spell: Spell) -> tuple[int, str]:
    """Return (exit code, error lines or ""); raise an unexpected error again.

    spell: how messages write options.
    """
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return INTERRUPTED, _one_line(error) or "interrupted"
    if isinstance(error, BrokenPipeError):
        _close_output()
        return BROKEN_PIPE, ""
    if isinstance(error, ConfigError):
        return USER_MISTAKE, "\n".join(f"error: {_one_line(line)}" for line in error.mistakes)
    if isinstance(error, FmpairError):
        return USER_MISTAKE, f"error: {_one_line(error.spelled(spell))}"
    if isinstance(error, ParserError):
        return WRONG_USAGE, f"error: {_usage(error)}"
    if isinstance(error, MemoryError):
        return USER_MISTAKE, f"error: not enough memory. {_one_line(error)}".rstrip(" .")
    if isinstance(error, OSError) and error.strerror:
        file = f" {error.filename}:" if error.filename else ""
        return USER_MISTAKE, f"error:{file} {error.strerror}"
    raise error


def _usage(error: Any) -> str:
    """Return the parser's message, with the nearest known option and the help command."""
    context = getattr(error, "ctx", None)
    wrong = getattr(error, "option_name", None)
    text = _one_line(error.format_message()).removesuffix(".")
    text = text[:1].lower() + text[1:]
    if context is None:
        return text
    options = {o.name: o.opts for o in context.command.get_params(context)}
    if wrong and not any(wrong in names for names in options.values()):
        guess = _nearest_flag(wrong, options)
        text = f"unknown option {wrong!r}" + (f". Did you mean {guess!r}?" if guess else "")
    extra, flag = EXTRA.search(text), ID_FLAGS.get(context.command.name)
    if extra and flag:
        text += f". Did you mean '{flag} {extra[1]}'?"
    for phrase, expected in NUMBERS.items():
        if text.startswith("invalid value for ") and phrase in text:
            text = f"{text.partition(':')[0]}: it must be {expected}"
    return f"{text}{' See' if text.endswith('?') else '; see'} {context.command_path} --help"


def _nearest_flag(wrong: str, options: Mapping[str, Sequence[str]]) -> str | None:
    """Return the known flag nearest to a wrong one; names of other libraries are known too.

    options: the spellings of each option's flags. Leading dashes are not compared.
    """
    ours = FOREIGN_OPTIONS.get(wrong.lstrip("-").replace("-", "_"), "")
    if ours in options:
        return max(options[ours], key=len)
    known = {name.lstrip("-"): name for names in options.values() for name in names}
    if len(wrong.lstrip("-")) == 1 and wrong.lstrip("-") in known:  # one dash too many
        return known[wrong.lstrip("-")]
    long = [name for name, flag in known.items() if flag.startswith("--")]
    guess = nearest(wrong.lstrip("-"), long, ALIKE)
    return known[guess] if guess else None


def _one_line(message: object) -> str:
    return harmless(" ".join(str(message).split()))


def _close_output() -> None:
    """Discard what the interpreter would flush at exit, because the pipe's reader is gone."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
