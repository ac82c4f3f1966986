"""Commands that use models: recommend, similar, explain, export, models."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fmpair.cli.flags import On, pairs, with_flags
from fmpair.cli.input import TABLE_FLAGS, Model, load_model, read_plain
from fmpair.cli.output import Output, OutputFormat, emit, note, show, size_of, table, with_bar
from fmpair.cli.rule_flags import RULE_FLAGS, with_rules
from fmpair.cluster import check_on
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    import polars as pl

    from fmpair.models.catalog import Model as Fitted

TERMS_ON_A_TERMINAL = 12

Count = Annotated[int, typer.Option("-n", help="The number of results.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="NAME=VALUE", help="A context value (repeat)."),
]
Time = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="The time, such as 2024-05-01T20:15; by default now."),
]
Damping = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Subtract this share of the popularity part of the scores."),
]
Users = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="A user id (repeat); by default all users.")
]
Everyone = Annotated[bool, typer.Option("--all", help="All users of the model.")]
History = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID,ID",
        help="For a visitor who viewed these items, the last one last (repeat); no user is needed. "
        "Put an id with a comma in double quotes.",
    ),
]
UsersFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A table of users, histories (a|b) and contexts; or -."),
]
Seen = Annotated[bool, typer.Option("--include-seen", help="Recommend seen items too.")]
Candidates = Annotated[
    str | None, typer.Option(metavar="FILE", help="Rank only the items of this file.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Exclude this item (repeat).")
]
Unknown = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How to treat unknown ids and values. ignore: skip items, reject users and values; "
        "error: reject all; features or popular: recommend anyway.",
    ),
]
Lists = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file to write: .csv, .tsv, .parquet or .jsonl; - for standard output; with --all "
        "also a folder, for Parquet parts.",
    ),
]
UserFeatures = Annotated[
    str | None, typer.Option(metavar="TABLE", help="A file of attributes of new users.")
]


def recommend(
    model: Model,
    user: Users = None,
    everyone: Everyone = False,
    users_file: UsersFile = None,
    history: History = None,
    n: Count = 10,
    context: Context = None,
    time: Time = None,
    include_seen: Seen = False,
    candidates: Candidates = None,
    exclude: Exclude = None,
    unknown: Unknown = "ignore",
    user_features: UserFeatures = None,
    damping: Damping = None,
    output: Lists = None,
    output_format: OutputFormat = None,
    on: On = None,
    table_flags: Any = None,
    ruling: Any = None,
) -> None:
    """Recommend items to one user, several, a visitor, or all."""
    _check_exclusive({"--user": user, "--all": everyone, "--users-file": users_file}, history)
    _check_folder(on, bool(user or users_file or history), output)
    fitted, rules = with_rules(_load(model, damping), ruling, model)
    options: dict[str, Any] = {
        "history": _ids(history),
        "context": _context(context),
        "time": time,
        "exclude_seen": not include_seen,
        "candidates": _read_items(candidates, table_flags) if candidates else None,
        "exclude": exclude or None,
        "user_features": read_plain(user_features, table_flags, "user") if user_features else None,
    } | {"unknown": unknown, **rules}
    users = _users(users_file, table_flags) if users_file else user or None
    if on is not None or (everyone and output_format is None and _is_folder(output)):
        _write_folder(fitted, str(output), on, n, options)
    elif output in (None, "-") or history or (user and not users_file):
        emit(fitted.recommend(users, n, **options), output, output_format)
    else:
        _write_parts(fitted, users, n, options, str(output), output_format)


def recommend_command() -> Any:
    return with_flags(recommend, ruling=RULE_FLAGS, table_flags=TABLE_FLAGS)


def _ids(texts: list[str] | None) -> list[str] | None:
    """Parse comma-separated ids of all texts; an id with a comma is quoted, as in CSV."""
    if not texts:
        return None
    lines = [line for text in texts for line in text.splitlines()]
    rows = csv.reader(lines, skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def _check_exclusive(users: dict[str, Any], history: list[str] | None) -> None:
    """Allow only one way to choose users; a history may be that of one user."""
    flags = [flag for flag, value in users.items() if value]
    count = len(users["--user"] or ())
    if history and count > 1:
        raise OptionError(
            f"--history is that of one user, not of {count:,}: for several give --users-file FILE, "
            "a table with a column 'history' (a|b)"
        )
    if history:
        flags = ["--history", *(flag for flag in flags if flag != "--user")]
    if len(flags) > 1:
        raise OptionError(f"{flags[0]} and {flags[1]} cannot be combined")


def _check_folder(on: str | None, some: bool, output: str | None) -> None:
    """Require all users and a folder for --on."""
    if on is None:
        return
    check_on(on)
    if some or output in (None, "-"):
        raise OptionError("--on writes Parquet parts of all users: it requires --all and -o FOLDER")


def _is_folder(output: str | None) -> bool:
    """Return whether lists are written as parts into a folder: a path without a suffix."""
    if output in (None, "-"):
        return False
    return Path(output).is_dir() or not Path(output).suffix


def _write_folder(
    fitted: Fitted, folder: str, on: str | None, n: int, options: dict[str, Any]
) -> None:
    """Write the lists as Parquet parts; after an interrupt the same command continues."""
    from fmpair.fitted.model import USERS_AT_ONCE
    from fmpair.fitted.ranked_lists import recommend_to_folder

    written = recommend_to_folder(fitted, folder, n, on=on, **options)
    users = len(fitted.user_ids)
    parts = sum(1 for _ in with_bar(written, "recommending", users, USERS_AT_ONCE))
    note(f"wrote {parts:,} {'part' if parts == 1 else 'parts'} to {folder}")


def _write_parts(
    fitted: Fitted, users: Any, n: int, options: dict[str, Any], output: str, format: str | None
) -> None:
    """Write the lists to one file, some users at a time."""
    from fmpair.data.write import write_parts
    from fmpair.fitted.model import USERS_AT_ONCE

    count = len(fitted.user_ids if users is None else users)
    parts: Iterator[pl.DataFrame] = fitted.recommend_in_parts(users, n, **options)
    rows = write_parts(with_bar(parts, "recommending", count, USERS_AT_ONCE), output, format)
    note(f"wrote {rows:,} rows to {output}")


def similar(
    model: Model,
    item: Annotated[str | None, typer.Option(help="Items similar to this one.")] = None,
    user: Annotated[str | None, typer.Option(help="Users similar to this one.")] = None,
    n: Count = 10,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Find the most similar items or users."""
    if (item is None) == (user is None):
        raise OptionError("give either --item ID or --user ID")
    fitted = _load(model)
    frame = fitted.similar_users(user, n) if item is None else fitted.similar_items(item, n)
    emit(frame, output, format)


def explain(
    model: Model,
    item: Annotated[str, typer.Option(help="The item to explain.")],
    user: Annotated[str | None, typer.Option(metavar="ID", help="The user.")] = None,
    history: History = None,
    context: Context = None,
    time: Time = None,
    damping: Damping = None,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Explain a score: the terms that add up to it."""
    fitted, items = _load(model, damping), _ids(history)
    terms = fitted.explain(user, item, _context(context), time=time, history=items)
    if output is None and format is None and sys.stdout.isatty():
        show(explanation(terms, TERMS_ON_A_TERMINAL))
    else:
        emit(terms, output, format)


def explanation(terms: pl.DataFrame, most: int, title: str | None = None) -> Any:
    """Return the largest terms as a table, with the sum of the others and the score."""
    rows: list[tuple[Any, ...]] = [
        (_term(query, item), value) for query, item, value in terms.head(most).rows()
    ]
    rest = terms.slice(most)
    if len(rest):
        rows.append((f"{len(rest)} smaller terms", float(rest["value"].sum())))
    result = table(("term", "value"), rows, title)
    result.add_section()
    result.add_row("score", f"{float(terms['value'].sum()):.4f}", style="bold")
    return result


def _term(query: str, item: str) -> str:
    if query:
        return f"{query} x {item}"
    return item if " x " in item else f"{item} for anyone"


def _load(path: str, damping: float | None = None) -> Fitted:
    """Load a model that returns polars frames; damping: None keeps its own."""
    fitted = load_model(path).replaced(frame_kind="polars")
    return fitted if damping is None else fitted.damped(damping)


def _context(texts: list[str] | None) -> dict[str, str | None]:
    """Parse the context; an empty value is unknown."""
    return {name: value or None for name, value in pairs(texts or (), "--context").items()}


def _users(path: str, table_flags: dict[str, Any]) -> pl.DataFrame:
    """Read a table of users or histories, perhaps with contexts."""
    frame = read_plain(path, table_flags)
    if "history" not in frame.columns:
        _column_of("user", frame, path)
    return frame


def _read_items(path: str, table_flags: dict[str, Any]) -> list[Any]:
    frame = read_plain(path, table_flags)
    return frame[_column_of("item", frame, path)].to_list()


def _column_of(role: str, frame: pl.DataFrame, path: str) -> str:
    """Return the name of the column of a role, which must exist."""
    from fmpair.data.columns.roles import find_column

    column = find_column(role, frame.columns, None)
    if column is None:
        raise DataError(f"{path} has no {role} column: name one {role!r} in its first line")
    return column


Target = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
Format = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="npz, onnx or usearch; by default from the suffix of FILE."),
]


def export(model: Model, output: Target, to: Format = None) -> None:
    """Export the vectors of a model: NumPy arrays, ONNX or USearch."""
    from fmpair.export import export as write

    fitted = load_model(model)
    write(fitted, output, to)
    note(f"wrote {output} ({size_of(output)}) with {len(fitted.item_ids):,} items")


Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of `fmpair models`.")]


class ModelsGroup(TyperGroup):
    """Takes `models NAME` as `models show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


def list_models(context: typer.Context, output: Output = None, format: OutputFormat = None) -> None:
    """List the models, with one line about each."""
    if context.invoked_subcommand:
        return
    from fmpair.models.catalog import describe

    emit(describe(), output, format, by="family")


def show_model(name: Name, output: Output = None, format: OutputFormat = None) -> None:
    """Show the options of a model, with their defaults."""
    from fmpair.models import catalog
    from fmpair.text import summary

    frame = catalog.options(name)
    note(f"{name}: {summary(catalog.find(name).__doc__)}")
    note(catalog.missing(name) or "")
    emit(frame, output, format, by="group")


def app() -> typer.Typer:
    """Return the group `models`, which lists the models without a subcommand."""
    group = typer.Typer(cls=ModelsGroup, help="List the models, and show their options.")
    group.callback(invoke_without_command=True)(list_models)
    group.command("show")(show_model)
    return group
