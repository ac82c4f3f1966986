"""Input of commands: events with the roles of their columns, plain tables, and models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import (
    Flag,
    flag,
    given_only,
    in_flags,
    pairs,
    repeated_flag,
    text_flag,
)
from fmpair.cli.output import note
from fmpair.errors import OptionError, Spell, UnknownError, named, nearest, one_line, spelled

if TYPE_CHECKING:
    import polars as pl

    from fmpair.data import Dataset
    from fmpair.data.columns.inference import Decisions
    from fmpair.features import FeatureSpace
    from fmpair.models.catalog import Model as Fitted

PANEL = "Columns and files"
EVENTS_HELP = (
    "A file (CSV, Parquet, JSON lines, ...; gz and zip too), a folder, the name of a public set, "
    "or - for standard input."
)
HEADER = ("column", "taken as", "because", "otherwise")
MAX_CELL = 44  # characters

Events = Annotated[str, typer.Argument(metavar="EVENTS", help=EVENTS_HELP)]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a run folder.")]


_option, _repeated = partial(text_flag, PANEL), partial(repeated_flag, PANEL)


def _switch(name: str, default: bool, help: str, spelling: str) -> Flag:
    return flag(name, bool, default, spelling, help=help, rich_help_panel=PANEL)


# Flags for reading events. Each is the option of `fmpair.read` of the same name, but no_context.
READ_FLAGS = (
    _option("user", "COLUMN", "The user id column; by default inferred from the names."),
    _option("item", "COLUMN", "The item id column; by default inferred from the names."),
    _option("rating", "COLUMN", "The rating column."),
    _option("weight", "COLUMN", "The weight column."),
    _option("timestamp", "COLUMN", "The time column."),
    _option(
        "order",
        "ORDER",
        "Without times. rows: all rows are in time order; per-user: each user's rows are.",
    ),
    _option("domain", "COLUMN", "The domain column."),
    _option("session", "COLUMN", "The session column, which is not used as context."),
    _option("event_type", "COLUMN", "The event type column, such as view, cart and buy."),
    _repeated(
        "event_weights",
        "TYPE=X",
        "The weight of an event type (repeat): view=1, buy=5.",
        "--event-weight",
    ),
    _repeated("context", "COLUMN", "A context column (repeat); by default inferred."),
    _repeated(
        "leaks",
        "COLUMN",
        "Use this column as context even if it identifies the item (repeat).",
        "--leak",
    ),
    _switch("no_context", False, "Use no context column.", "--no-context"),
    _repeated("ignore", "COLUMN", "Ignore this column (repeat)."),
    _repeated("item_columns", "COLUMN", "A column that describes items (repeat).", "--item-column"),
    _repeated("display", "COLUMN", "Keep this column of items without learning from it (repeat)."),
    _option("users", "TABLE", "A file of user attributes with a user id column."),
    _option("items", "TABLE", "A file of item attributes with an item id column."),
    _repeated(
        "vectors",
        "FILE",
        "Vectors of items (repeat): titles.npy with ids in titles.ids.txt or in the order of "
        "--items, an .npz or .safetensors file.",
    ),
    _option(
        "impressions",
        "TABLE",
        "A file of impressions: items shown to users and not chosen, with both ids.",
    ),
    _option("format", "NAME", "The format of EVENTS; by default inferred from its name."),
    _option("separator", "TEXT", "The column separator; by default inferred."),
    _option("encoding", "NAME", "The text encoding; by default utf-8."),
    _option("groups", "FILE", "For libFM rows: the field of each index."),
    _switch("header", True, "Whether the first line names the columns.", "--header/--no-header"),
    _option(
        "missing",
        "drop|error|drop-untimed",
        "What to do with rows without a user or item; drop-untimed drops those without a time too.",
    ),
    _option("refunds", "drop|keep", "What to do with refunds: returns and negative amounts."),
    _option(
        "merge_repeats",
        "MINUTES",
        "Merge repeats of a user's last item within this many minutes: view, cart, buy.",
        float | None,
    ),
    _option("ragged", "error|drop|fill", "What to do with rows with too many or few columns."),
    _repeated(
        "nulls",
        "TEXT",
        "A text that means missing (repeat), instead of NA, NaN and null; empty cells always do.",
        "--null",
    ),
    _repeated("columns", "NAME", "The name of the next column (repeat).", "--column"),
)
# Flags for reading a plain table, whose columns have no roles.
TABLE_FLAGS = tuple(
    option
    for option in READ_FLAGS
    if option.name in ("separator", "encoding", "header", "columns", "ragged", "nulls")
)


@dataclass(frozen=True)
class OpenedEvents:
    """Events that were read, before they become a data set.

    dataset: takes options of `Dataset.from_frame`, which replace the inferred ones. decisions: the
    roles of the columns; None for a public set, whose roles are known.
    """

    dataset: Callable[..., Dataset]
    decisions: Decisions | None = None

    def lines(self) -> list[str]:
        """Return the table of column roles."""
        return [] if self.decisions is None else role_table(self.decisions, in_flags(READ_FLAGS))

    def surprises(self) -> str:
        """Return a line about columns that are not used as context because of their contents."""
        text = "" if self.decisions is None else self.decisions.surprises
        return spelled(text, in_flags(READ_FLAGS))


def table_lines(data: Dataset, decisions: Decisions | None, spell: Spell) -> list[str]:
    """Return the role of each column that the events do not have: of tables and vectors."""
    from fmpair.data.columns.inference import ATTRIBUTE, DISPLAY, Decision, Decisions, why_display

    if decisions is None:
        return []
    known = {decision.column for decision in decisions.columns}
    rows = [
        Decision(values.name, "user attribute", _contents(values))
        for values in data.user_table.iter_columns()
    ]
    for values in data.all_item_columns.iter_columns():
        name = values.name
        if name in known:
            continue
        if name in data.item_table.columns:
            change = named("display", [name])
            rows.append(Decision(name, ATTRIBUTE, _contents(values), change))
        else:
            change = named("item_columns", [name])
            rows.append(Decision(name, DISPLAY, why_display(values) or "as asked", change))
    return role_table(Decisions(tuple(rows)), spell) if rows else []


def _contents(values: pl.Series) -> str:
    """Summarise a column of a table; vectors have a length."""
    from fmpair.data.columns.inference import described
    from fmpair.features.field import kind_by_type

    known = values.drop_nulls()
    if len(known) and values.dtype.is_nested() and kind_by_type(values.name, values) == "vector":
        return f"vectors of {len(known[0])} numbers"
    return described(values)


def read_events(source: str, reading: dict[str, Any]) -> Dataset:
    """Return the data of a file or a public set, read as the flags say."""
    opened = open_events(source, reading)
    note(opened.surprises())
    return opened.dataset()


def open_events(
    source: str, reading: dict[str, Any], space: FeatureSpace | None = None
) -> OpenedEvents:
    """Read events and infer the roles of their columns.

    space: of a model, whose user and item columns are taken if the file has them.
    """
    from fmpair.data import public_sets
    from fmpair.data.formats.source import parse_errors
    from fmpair.data.read import read_contents

    options = reading_options(reading)
    if source in public_sets.names() and not Path(source).exists():
        rest = {name: value for name, value in options.items() if name != "format"}
        return OpenedEvents(lambda **other: public_sets.load(source, **{**rest, **other}))
    guess = nearest(source, public_sets.names(), alike=0.8)
    if guess and not Path(source).exists():
        raise UnknownError(f"there is no file {source}. Did you mean the public set {guess!r}?")
    contents = read_contents(source, **options, **_ids_as_learned(source, options, space))
    names = {} if space is None else dict(zip(("user", "item"), space.id_columns))
    known = {role: name for role, name in names.items() if name in contents.events.columns}
    contents = replace(contents, roles={**known, **contents.roles})
    with parse_errors(source):
        decisions = contents.decisions()

    def dataset(**other: Any) -> Dataset:
        with parse_errors(source):
            return contents.dataset(**{**decisions.options, **other})

    return OpenedEvents(dataset, decisions)


def read_new_events(source: str, reading: dict[str, Any], model: Fitted) -> Dataset:
    """Return the data of a file, with the column roles of the model unless flags say otherwise."""
    from fmpair.data.formats.source import parse_errors
    from fmpair.data.read import read_contents
    from fmpair.fitted.history import roles_as_learned

    options = reading_options(reading)
    contents = read_contents(source, **options, **_ids_as_learned(source, options, model.space))
    ignored = options.get("ignore", ())
    columns = [name for name in contents.events.columns if name not in ignored]
    roles = roles_as_learned(model.space, columns, options.get("event_type"))
    with parse_errors(source):
        return contents.dataset(**{k: v for k, v in roles.items() if k not in options})


def _ids_as_learned(
    source: str, options: dict[str, Any], space: FeatureSpace | None
) -> dict[str, Any]:
    """Return the option that keeps the spelling of ids, such as 007, in the model's columns."""
    from inspect import signature

    from fmpair.data.formats.source import parse_errors
    from fmpair.data.read import FORMATS, guess_format

    with parse_errors(source):
        format = options.get("format") or guess_format(source)
    if space is None or format not in FORMATS:
        return {}
    return {"ids": space.id_columns} if "ids" in signature(FORMATS[format]).parameters else {}


def reading_options(reading: dict[str, Any]) -> dict[str, Any]:
    """Return the flags as options of `fmpair.read`."""
    options = given_only({k: v for k, v in reading.items() if k not in ("no_context", "header")})
    if reading.get("no_context"):
        if "context" in options:
            raise OptionError("--context and --no-context cannot be combined")
        options["context"] = ()
    if not reading["header"]:
        options["header"] = False
    if "separator" in options:  # a shell passes \t as two characters
        options["separator"] = options["separator"].replace("\\t", "\t")
    if "event_weights" in options:
        texts = pairs(options["event_weights"], "--event-weight")
        options["event_weights"] = {name: _number(name, text) for name, text in texts.items()}
    return options


def _number(event_type: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--event-weight {event_type} takes a number, not {text!r}") from None


def role_table(decisions: Decisions, spell: Spell) -> list[str]:
    """Return one line per column: its role, the reason, and the option that changes it."""
    rows = [HEADER]
    for decision in decisions.columns:
        change = one_line(spelled(decision.change, spell))
        rows.append((_short(decision.column), decision.role, _short(decision.reason), change))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= MAX_CELL else f"{line[: MAX_CELL - 3]}..."


def read_plain(path: str, table_flags: dict[str, Any], role: str | None = None) -> pl.DataFrame:
    """Read a plain table; role: read it as attributes of users or items."""
    from fmpair.data.read import read_frame, read_table

    options = plain_options(path, table_flags)
    return read_frame(path, **options) if role is None else read_table(path, role, **options)


def plain_options(path: str, table_flags: dict[str, Any]) -> dict[str, Any]:
    """Return the options of TABLE_FLAGS that the reader of this file accepts."""
    from inspect import signature

    from fmpair.data.read import FORMATS, guess_format

    known = signature(FORMATS[guess_format(path)]).parameters
    options = reading_options({option.name: table_flags[option.name] for option in TABLE_FLAGS})
    return {name: value for name, value in options.items() if name in known}


def load_model(path: str) -> Fitted:
    """Load the model of a file, or of a run folder."""
    from fmpair.models.catalog import load

    return load(model_file(path))


def model_file(path: str) -> str:
    """Return the model file of a path, which may be a run folder."""
    from fmpair.data.read import EXPERIMENTS

    if not Path(path).is_dir():
        if Path(path).suffix.lower() in EXPERIMENTS and Path(path).is_file():
            raise OptionError(
                f"{path} is an experiment file, not a model: fmpair run {path} makes a run folder, "
                "which can be given instead of a model file"
            )
        return path
    from fmpair.experiment.folder import model_of

    return str(model_of(path))
