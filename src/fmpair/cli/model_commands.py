"""`models`: every model by name, and `models show`: the options of one."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fmpair.cli.flags import On, pairs, with_flags
from fmpair.cli.input import FILES, Model, load_model, read_plain
from fmpair.cli.output import Output, OutputFormat, emit, note, on_a_bar, show, size_of, table
from fmpair.cluster import check_on
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    import polars as pl

    from fmpair.models.catalog import Model as Fitted


# Commands of a fitted model: recommend, similar, explain.


TERMS_ON_A_TERMINAL = 12

Count = Annotated[int, typer.Option("-n", help="How many.")]
Context = Annotated[
    list[str] | None,
    typer.Option("--context", "-c", metavar="NAME=VALUE", help="A context value (repeat)."),
]
Time = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When, such as 2024-05-01T20:15; by default now."),
]
Damping = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Subtract this share of the popularity part of the scores."),
]
Users = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="For whom (repeat); by default everyone.")
]
Everyone = Annotated[bool, typer.Option("--all", help="For every user of the model.")]
History = Annotated[
    str | None,
    typer.Option(
        metavar="ID,ID",
        help="For a visitor who looked at these items; no user is needed. An id with a comma "
        "stands in double quotes.",
    ),
]
UsersFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Columns of users, histories (a|b), contexts; or -."),
]
Seen = Annotated[bool, typer.Option("--include-seen", help="Recommend seen items too.")]
Candidates = Annotated[
    str | None, typer.Option(metavar="FILE", help="Only the items of this file's item column.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Exclude this item (repeat).")
]
Unknown = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="What the model does not know. ignore: pass over unknown items, refuse users and "
        "values; error: refuse all; features or popular: answer all the same.",
    ),
]
Lists = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write: .csv, .tsv, .parquet or .jsonl by its suffix; - is standard output; "
        "with --all also a folder, of Parquet parts.",
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
    files: Any = None,
) -> None:
    """The best items for one user, several, a visitor, or all."""
    _check_asked({"--user": user, "--all": everyone, "--users-file": users_file}, history)
    _check_folder(on, bool(user or users_file or history), output)
    fitted = _load(model, damping)
    options: dict[str, Any] = {
        "history": _ids(history),
        "context": _context(context),
        "time": time,
        "exclude_seen": not include_seen,
        "candidates": _column(candidates, files) if candidates else None,
        "exclude": exclude or None,
        "user_features": read_plain(user_features, files, "user") if user_features else None,
        "unknown": unknown,
    }
    asked: Any = _asking(users_file, files) if users_file else user or None
    if on is not None or (everyone and output_format is None and _is_folder(output)):
        _write_folder(fitted, str(output), on, n, options)
    elif output in (None, "-") or history is not None or (user and not users_file):
        emit(fitted.recommend(asked, n, **options), output, output_format)
    else:
        _write_parts(fitted, asked, n, options, str(output), output_format)


def recommend_command() -> Any:
    """The verb with all its flags."""
    return with_flags(recommend, files=FILES)


def _ids(given: str | None) -> list[str] | None:
    """Items of one text with commas between them; an id with a comma is quoted, as in CSV."""
    if given is None:
        return None
    rows = csv.reader(given.splitlines(), skipinitialspace=True)
    return [item.strip() for row in rows for item in row if item.strip()]


def _check_asked(who: dict[str, Any], history: str | None) -> None:
    """One kind of asking at a time; a history may be that of one user."""
    given = [flag for flag, value in who.items() if value]
    if history is not None:
        given = ["--history", *(flag for flag in given if flag != "--user")]
    if len(given) > 1:
        raise OptionError(f"{given[0]} and {given[1]} exclude each other")


def _check_folder(on: str | None, some: bool, output: str | None) -> None:
    """On a cluster lists are those of everyone, and go to a folder."""
    if on is None:
        return
    check_on(on)
    if some or output in (None, "-"):
        raise OptionError(
            "--on writes the lists of everyone as Parquet parts: give --all and --output FOLDER"
        )


def _is_folder(output: str | None) -> bool:
    """Whether lists go there as parts: a file has a suffix, which tells its format."""
    if output in (None, "-"):
        return False
    return Path(output).is_dir() or not Path(output).suffix


def _write_folder(
    fitted: Fitted, folder: str, on: str | None, n: int, options: dict[str, Any]
) -> None:
    """A Parquet part for some users at a time; the same command goes on where one stopped."""
    from fmpair.fitted.model import USERS_AT_ONCE
    from fmpair.fitted.ranked_lists import recommend_to_folder

    made = recommend_to_folder(fitted, folder, n, on=on, **options)
    users = len(fitted.user_ids)
    parts = sum(1 for _ in on_a_bar(made, "recommending", users, USERS_AT_ONCE))
    note(f"wrote {parts:,} {'part' if parts == 1 else 'parts'} to {folder}")


def _write_parts(
    fitted: Fitted, asked: Any, n: int, options: dict[str, Any], output: str, format: str | None
) -> None:
    """Lists as they are made, a part of the users at a time."""
    from fmpair.data.write import write_parts
    from fmpair.fitted.model import USERS_AT_ONCE

    users = len(fitted.user_ids if asked is None else asked)
    parts: Iterator[pl.DataFrame] = fitted.recommend_in_parts(asked, n, **options)
    rows = write_parts(on_a_bar(parts, "recommending", users, USERS_AT_ONCE), output, format)
    note(f"wrote {rows:,} rows to {output}")


def similar(
    model: Model,
    item: Annotated[str | None, typer.Option(help="Items similar to this one.")] = None,
    user: Annotated[str | None, typer.Option(help="Users similar to this one.")] = None,
    n: Count = 10,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """The most similar items or users."""
    if (item is None) == (user is None):
        raise OptionError("give either --item ID or --user ID")
    fitted = _load(model)
    found = fitted.similar_users(user, n) if item is None else fitted.similar_items(item, n)
    emit(found, output, format)


def explain(
    model: Model,
    user: Annotated[str, typer.Option(help="The user.")],
    item: Annotated[str, typer.Option(help="The item to explain.")],
    context: Context = None,
    time: Time = None,
    damping: Damping = None,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Explain a score: the terms that add up to it."""
    terms = _load(model, damping).explain(user, item, _context(context), time=time)
    if output is None and format is None and sys.stdout.isatty():
        show(explanation(terms, TERMS_ON_A_TERMINAL))
    else:
        emit(terms, output, format)


def explanation(terms: pl.DataFrame, most: int, title: str | None = None) -> Any:
    """The largest terms as a table that still adds up to the score."""
    rows: list[tuple[Any, ...]] = [
        (_term(query, item), value) for query, item, value in terms.head(most).rows()
    ]
    rest = terms.slice(most)
    if len(rest):
        rows.append((f"{len(rest)} smaller terms", float(rest["value"].sum())))
    made = table(("term", "value"), rows, title)
    made.add_section()
    made.add_row("score", f"{float(terms['value'].sum()):.4f}", style="bold")
    return made


def _term(query: str, item: str) -> str:
    if query:
        return f"{query} x {item}"
    return item if " x " in item else f"{item} for anyone"


def _load(path: str, damping: float | None = None) -> Fitted:
    """The model, returning polars frames whatever kind it was fitted with.

    damping: None keeps its own.
    """
    fitted = load_model(path).replaced(frame_kind="polars")
    return fitted if damping is None else fitted.damped(damping)


def _context(given: list[str] | None) -> dict[str, str | None]:
    """The context; an empty value is an unknown one."""
    return {name: value or None for name, value in pairs(given or (), "--context").items()}


def _asking(path: str, files: dict[str, Any]) -> pl.DataFrame:
    """A file of users, or of histories, perhaps with contexts."""
    frame = read_plain(path, files)
    if "history" not in frame.columns:
        _named("user", frame, path)
    return frame


def _column(path: str, files: dict[str, Any]) -> list[Any]:
    """The items of a file."""
    frame = read_plain(path, files)
    return frame[_named("item", frame, path)].to_list()


def _named(role: str, frame: pl.DataFrame, path: str) -> str:
    """The column of a role, which must be there."""
    from fmpair.data.columns.roles import find_column

    column = find_column(role, frame.columns, None)
    if column is None:
        raise DataError(f"{path} has no column of {role}s: its first line must name one {role!r}")
    return column


# `export`: a model's vectors for an index, a runtime or a program of another kind.


Target = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="npz, onnx or usearch; by default what FILE's name ends with."
    ),
]


def export(model: Model, output: Target, to: Format = None) -> None:
    """Write a model's vectors for an index or a runtime: arrays, ONNX or USearch."""
    from fmpair.export import export as write

    fitted = load_model(model)
    write(fitted, output, to)
    note(f"wrote {output} ({size_of(output)}) with {len(fitted.item_ids):,} items")


Name = Annotated[str, typer.Argument(metavar="NAME", help="One of `fmpair models`.")]


class Models(TyperGroup):
    """`models NAME` is `models show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


def list_models(context: typer.Context, output: Output = None, format: OutputFormat = None) -> None:
    """Every model by name, with one line about each."""
    if context.invoked_subcommand:
        return
    from fmpair.models.catalog import describe

    emit(describe(), output, format)


def show_model(name: Name, output: Output = None, format: OutputFormat = None) -> None:
    """The options of a model, with their defaults."""
    from fmpair.models import catalog
    from fmpair.text import summary

    frame = catalog.options(name)
    note(f"{name}: {summary(catalog.find(name).__doc__)}")
    note(catalog.missing(name) or "")
    emit(frame, output, format, by="group")


def app() -> typer.Typer:
    """The verbs as one group, which lists all models where no verb of it is named."""
    group = typer.Typer(cls=Models, help="Every model by name, and the options of each.")
    group.callback(invoke_without_command=True)(list_models)
    group.command("show")(show_model)
    return group
