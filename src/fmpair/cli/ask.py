"""Verbs that ask a fitted model: recommend, similar, explain."""

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
    typer.Option("--context", "-c", metavar="NAME=VALUE", help="The situation (repeat)."),
]
Damping = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Take off this share of what popularity adds to scores."),
]
Users = Annotated[
    list[str] | None, typer.Option(metavar="ID", help="For whom (repeat); by default everyone.")
]
UsersFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="A column of users, perhaps with context columns; or -."),
]
Seen = Annotated[
    bool, typer.Option("--include-seen", help="List also what the user has events with.")
]
Candidates = Annotated[
    str | None, typer.Option(metavar="FILE", help="Only the items of this file's item column.")
]
Exclude = Annotated[list[str] | None, typer.Option(metavar="ID", help="Not this item (repeat).")]
Unknown = Annotated[
    str, typer.Option(help="A user or value unseen in training: error, features or popular.")
]
UserFeatures = Annotated[
    str | None, typer.Option(metavar="TABLE", help="A file of attributes of new users.")
]


def recommend(
    model: Model,
    user: Users = None,
    users_file: UsersFile = None,
    n: Count = 10,
    context: Context = None,
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
        exclude_seen=not include_seen,
        candidates=_table(candidates, "item")["item"].to_list() if candidates else None,
        exclude=exclude or None,
        user_features=read_table(user_features, "user") if user_features else None,
        unknown=unknown,
    )
    emit(ranked, output, format)


def similar(
    model: Model,
    item: Annotated[str | None, typer.Option(help="Items like this one.")] = None,
    user: Annotated[str | None, typer.Option(help="Users like this one.")] = None,
    n: Count = 10,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """The items or users most like one of them."""
    if (item is None) == (user is None):
        raise OptionError("say either --item ID or --user ID")
    fitted = _load(model)
    found = fitted.similar_users(user, n) if item is None else fitted.similar_items(item, n)
    emit(found, output, format)


def explain(
    model: Model,
    user: Annotated[str, typer.Option(help="Who asks.")],
    item: Annotated[str, typer.Option(help="What is to be explained.")],
    context: Context = None,
    damping: Damping = None,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Why an item scores as it does: terms that add up to the score."""
    terms = _load(model, damping).explain(user, item, _context(context))
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
    """The model, giving polars frames whatever kind it was fitted with.

    path: a model file, or the folder of a run, which holds its winner. damping: None is its own.
    """
    from fmpair.models.saved import load

    if Path(path).is_dir():
        from fmpair.experiment.folder import model_of

        path = str(model_of(path))
    fitted = load(path).replaced(frame_kind="polars")
    return fitted if damping is None else fitted.damped(damping)


def _context(given: list[str] | None) -> dict[str, str | None]:
    """The situation; an empty value leaves the column open."""
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
