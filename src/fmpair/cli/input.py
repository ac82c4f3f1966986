"""The fitted model of a command: a file, or the best of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import Flag, flag, given_only, in_flags, pairs
from fmpair.cli.output import note
from fmpair.errors import OptionError, Spell, UnknownError, nearest, one_line, spelled

if TYPE_CHECKING:
    import polars as pl

    from fmpair.data import Dataset
    from fmpair.data.columns.inference import Decisions
    from fmpair.models.catalog import Model as Fitted


# The events of a command: a file with the roles of its columns, or a public set by name.


PANEL = "Columns and files"

Events = Annotated[
    str,
    typer.Argument(
        metavar="EVENTS",
        help="A file (CSV, Parquet, JSON lines, ...; gz and zip too), a folder, the name of a "
        "public set, or - for standard input.",
    ),
]

REPEATED = ("context", "ignore", "item_columns", "columns", "leaks", "event_weights", "nulls")


def _reading(name: str, metavar: str, help: str, *spellings: str) -> Flag:
    many = name in REPEATED
    kind: Any = list[str] if many else str | None
    default: Any = [] if many else None
    return flag(name, kind, default, *spellings, metavar=metavar, help=help, rich_help_panel=PANEL)


def _switch(name: str, default: bool, help: str, spelling: str) -> Flag:
    return flag(name, bool, default, spelling, help=help, rich_help_panel=PANEL)


# Each is an option of `fmpair.read` under the same name, but for no_context.
READING = (
    _reading("user", "COLUMN", "The column of user ids; by default inferred from the names."),
    _reading("item", "COLUMN", "The column of item ids; the same."),
    _reading("rating", "COLUMN", "The column of ratings."),
    _reading("weight", "COLUMN", "The column of weights."),
    _reading("timestamp", "COLUMN", "The column of times."),
    _reading(
        "order",
        "ORDER",
        "Without times: rows, where rows are in order of time, or per-user, where each user's are.",
    ),
    _reading("domain", "COLUMN", "The column of domains."),
    _reading("session", "COLUMN", "The column of sessions, which is no context."),
    _reading("event_type", "COLUMN", "The column of kinds of events, such as view, cart and buy."),
    _reading(
        "event_weights",
        "KIND=X",
        "How much events of a kind count (repeat): view=1, buy=5.",
        "--event-weight",
    ),
    _reading("context", "COLUMN", "A context column (repeat); by default what looks like one."),
    _reading(
        "leaks", "COLUMN", "A column kept as context whatever it looks like (repeat).", "--leak"
    ),
    _switch("no_context", False, "Use no context column.", "--no-context"),
    _reading("ignore", "COLUMN", "A column to ignore (repeat)."),
    _reading(
        "item_columns", "COLUMN", "A column that describes the item (repeat).", "--item-column"
    ),
    _reading("users", "TABLE", "A file of user attributes, keyed by the user id."),
    _reading("items", "TABLE", "A file of item attributes, keyed by the item id."),
    _reading(
        "impressions",
        "TABLE",
        "A file of impressions: items shown to users and not chosen, with both ids.",
    ),
    _reading("format", "NAME", "The format of EVENTS; by default inferred from its name."),
    _reading("separator", "TEXT", "The column separator; by default guessed."),
    _reading("encoding", "NAME", "The text encoding; by default utf-8."),
    _reading("groups", "FILE", "For libFM rows: the field of each index."),
    _switch("header", True, "Whether the first line names the columns.", "--header/--no-header"),
    _reading("missing", "drop|error", "Rows without a user or item: left out, or refused."),
    _reading("ragged", "error|drop|fill", "Rows with more or fewer columns than the first line."),
    _reading(
        "nulls",
        "TEXT",
        "A text that means missing (repeat), in place of NA, NaN and null; empty cells always do.",
        "--null",
    ),
    _reading("columns", "NAME", "The name of the next column (repeat).", "--column"),
)


# Those that say how a plain table is read, whatever it holds.
FILES = tuple(
    one
    for one in READING
    if one.name in ("separator", "encoding", "header", "columns", "ragged", "nulls")
)


def read_plain(path: str, files: dict[str, Any], role: str | None = None) -> pl.DataFrame:
    """A table beside the model: users, candidates; role: attributes of those, keyed by id."""
    from fmpair.data.read import read_frame, read_table

    options = plain_options(path, files)
    return read_frame(path, **options) if role is None else read_table(path, role, **options)


def plain_options(path: str, files: dict[str, Any]) -> dict[str, Any]:
    """What the flags among FILES say that the reader of this file wants to know."""
    from inspect import signature

    from fmpair.data.read import FORMATS, guess_format

    known = signature(FORMATS[guess_format(path)]).parameters
    given = {one.name: files[one.name] for one in FILES}
    return {name: value for name, value in reading_options(given).items() if name in known}


@dataclass(frozen=True)
class Opened:
    """A file of events or a public set: read, and how to make data of it.

    dataset: takes options of `Dataset.from_frame` that differ from what was found.
    decisions: what its columns are taken for; None for a public set, of which that is known.
    """

    dataset: Callable[..., Dataset]
    decisions: Decisions | None = None

    def lines(self) -> list[str]:
        """What the columns are taken for, as a table in lines."""
        return [] if self.decisions is None else table_of(self.decisions, in_flags(READING))

    def surprises(self) -> str:
        """The columns that are no context in spite of their names, in one line."""
        found = "" if self.decisions is None else self.decisions.surprises
        return spelled(found, in_flags(READING))


def read_events(source: str, reading: dict[str, Any]) -> Dataset:
    """The data of a file or of a public set, read as the flags say."""
    found = opened(source, reading)
    note(found.surprises())
    return found.dataset()


def opened(source: str, reading: dict[str, Any]) -> Opened:
    """The events with what their columns are taken for, before any data are made."""
    from fmpair.data import public_sets
    from fmpair.data.formats.source import parse_errors
    from fmpair.data.read import read_contents

    options = reading_options(reading)
    if source in public_sets.names() and not Path(source).exists():
        rest = {name: value for name, value in options.items() if name != "format"}
        return Opened(lambda **other: public_sets.load(source, **{**rest, **other}))
    guess = nearest(source, public_sets.names(), alike=0.8)
    if guess and not Path(source).exists():
        raise UnknownError(f"there is no file {source}. Did you mean the public set {guess!r}?")
    contents = read_contents(source, **options)
    with parse_errors(source):
        decisions = contents.decisions()

    def dataset(**other: Any) -> Dataset:
        with parse_errors(source):
            return contents.dataset(**{**decisions.options, **other})

    return Opened(dataset, decisions)


def read_further(source: str, reading: dict[str, Any], model: Fitted) -> Dataset:
    """The data of a file, its columns in the parts they had when the model was fitted.

    What the flags say comes first.
    """
    from fmpair.data.formats.source import parse_errors
    from fmpair.data.read import read_contents
    from fmpair.fitted.history import roles_as_learned

    given = reading_options(reading)
    contents = read_contents(source, **given)
    ignored = given.get("ignore", ())
    columns = [name for name in contents.events.columns if name not in ignored]
    learned = roles_as_learned(model.space, columns, given.get("event_type"))
    with parse_errors(source):
        return contents.dataset(**{k: v for k, v in learned.items() if k not in given})


def reading_options(reading: dict[str, Any]) -> dict[str, Any]:
    """The options of `fmpair.read` that the flags are."""
    options = given_only({k: v for k, v in reading.items() if k not in ("no_context", "header")})
    if reading.get("no_context"):
        if "context" in options:
            raise OptionError("--context and --no-context exclude each other")
        options["context"] = ()
    if not reading["header"]:
        options["header"] = False
    if "separator" in options:  # a shell passes \t on as two characters
        options["separator"] = options["separator"].replace("\\t", "\t")
    if "event_weights" in options:
        given = pairs(options["event_weights"], "--event-weight")
        options["event_weights"] = {kind: _number(kind, text) for kind, text in given.items()}
    return options


def _number(kind: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--event-weight {kind} takes a number, not {text!r}") from None


# The table of what the columns of a file are taken for.


HEAD = ("column", "taken as", "because", "otherwise")
WIDEST = 44  # characters of a cell


def table_of(decisions: Decisions, spell: Spell) -> list[str]:
    """One line per column: its role, the reason, and the option that changes it."""
    rows = [HEAD]
    for found in decisions.columns:
        change = spelled(found.change, spell)
        rows.append((_short(found.column), found.role, _short(found.reason), one_line(change)))
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."


Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a run folder.")]


def load_model(path: str) -> Fitted:
    """The model of a file, or of the folder of a run."""
    from fmpair.models.catalog import load

    return load(model_file(path))


def model_file(path: str) -> str:
    """The file of a model: the one named, or that of the folder of a run."""
    if not Path(path).is_dir():
        return path
    from fmpair.experiment.folder import model_of

    return str(model_of(path))
