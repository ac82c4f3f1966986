"""Commands of a fitted model: recommend, similar, explain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import pairs
from fmpair.cli.show import Output, OutputFormat, emit, show, table
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    import polars as pl

    from fmpair.models.saved import Model as Fitted

TERMS_ON_A_TERMINAL = 12

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a run folder.")]
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
UsersFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A column of users, perhaps with context columns; or -."),
]
Seen = Annotated[bool, typer.Option("--include-seen", help="Recommend seen items too.")]
Candidates = Annotated[
    str | None, typer.Option(metavar="FILE", help="Only the items of this file's item column.")
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="Exclude this item (repeat).")
]
Unknown = Annotated[str, typer.Option(help="Unknown users and values: error, features or popular.")]
UserFeatures = Annotated[
    str | None, typer.Option(metavar="TABLE", help="A file of attributes of new users.")
]


def recommend(
    model: Model,
    user: Users = None,
    users_file: UsersFile = None,
    n: Count = 10,
    context: Context = None,
    time: Time = None,
    include_seen: Seen = False,
    candidates: Candidates = None,
    exclude: Exclude = None,
    unknown: Unknown = "error",
    user_features: UserFeatures = None,
    damping: Damping = None,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """The best items for one user, several, or all."""
    from fmpair.data.read import read_table

    if user and users_file:
        raise OptionError("--user and --users-file exclude each other")
    fitted = _load(model, damping)
    asked: Any = _table(users_file, "user") if users_file else user or None
    ranked = fitted.recommend(
        asked,
        n,
        context=_context(context),
        time=time,
        exclude_seen=not include_seen,
        candidates=_table(candidates, "item")["item"].to_list() if candidates else None,
        exclude=exclude or None,
        user_features=read_table(user_features, "user") if user_features else None,
        unknown=unknown,
    )
    emit(ranked, output, format)


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

    path: a model file, or the folder of a run with its best model. damping: None keeps its own.
    """
    from fmpair.models.saved import load

    if Path(path).is_dir():
        from fmpair.experiment.folder import model_of

        path = str(model_of(path))
    fitted = load(path).replaced(frame_kind="polars")
    return fitted if damping is None else fitted.damped(damping)


def _context(given: list[str] | None) -> dict[str, str | None]:
    """The context; an empty value is an unknown one."""
    return {name: value or None for name, value in pairs(given or (), "--context").items()}


def _table(path: str, role: str) -> pl.DataFrame:
    """A file with a column of ids, which gets the name of its role."""
    from fmpair.data.read import read_frame
    from fmpair.data.roles import find_column

    frame = read_frame(path)
    column = find_column(role, frame.columns, None)
    if column is None:
        raise DataError(f"{path} has no column of {role}s: its first line must name one {role!r}")
    return frame.rename({column: role})
