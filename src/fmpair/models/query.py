"""Questions to a model: who asks in which situation, as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, stack_rows
from fmpair.data.frame import to_polars
from fmpair.data.roles import ALIASES, find_column
from fmpair.errors import OptionError, UnknownError, listing, unknown as unknown_message

if TYPE_CHECKING:
    from fmpair.models.recommender import Recommender

UNKNOWN = ("error", "features", "popular")


@dataclass(frozen=True)
class Queries:
    """user: int32 [queries], -1 where unknown; rows: all query features; vectors: [queries, k].

    shown: the columns a listing repeats (user and context).
    """

    user: np.ndarray
    rows: Rows
    vectors: np.ndarray
    shown: pl.DataFrame


def queries_of(
    model: Recommender, frame: pl.DataFrame, *, unknown: str, user_features: Any = None
) -> Queries:
    """The queries of a frame: a user column (or none), context columns in any number."""
    if unknown not in UNKNOWN:
        raise OptionError(f"unknown must be one of {listing(UNKNOWN)}, not {unknown!r}")
    column = find_column("user", frame.columns, None)
    _check_columns(model, frame, column)
    shown = frame.select([c for c in frame.columns if c == column or c in model.space.context])
    if column is not None:
        shown = shown.rename({column: "user"})
        user = model.space.users.numbers(frame[column])
    else:
        user = np.full(len(frame), -1, np.int32)
    profiles = _profiles(model, shown, user, user_features)
    if column is not None and unknown == "error" and user_features is None and (user < 0).any():
        # one lookup more, for the message that names the nearest id
        model.user_number(frame[column][int(np.argmax(user < 0))])
    contexts, unseen = model.space.context_rows(shown)
    if unseen and unknown == "error":
        _refuse(model, shown, next(iter(unseen)))
    rows = join_rows([profiles, contexts])
    vectors = rows.dot(model.parameters.query)
    known = user >= 0
    vectors[known] += model.parameters.users[user[known]]
    if unknown == "popular":
        vectors[~known] = 0
    return Queries(user, rows, vectors, shown)


def _check_columns(model: Recommender, frame: pl.DataFrame, user: str | None) -> None:
    """Refuse columns the model has no use for, unless they play another part in events."""
    parts = {alias for role, aliases in ALIASES.items() if role != "user" for alias in aliases}
    for name in frame.columns:
        if name != user and name not in model.space.context and name.lower() not in parts:
            raise UnknownError(unknown_message("context", name, model.space.context))


def _profiles(
    model: Recommender, shown: pl.DataFrame, user: np.ndarray, given: Any
) -> Rows:
    """Attributes of each query's user: those given, else those known, else none."""
    none = Rows(np.zeros(2, np.int64), model.user_rows.column[:0], model.user_rows.value[:0])
    known = stack_rows(model.user_rows, none).take(np.where(user < 0, model.user_rows.size, user))
    if given is None:
        return known
    names = [e.name for e in model.space.query.encoders if e.role == "user"]
    if isinstance(given, Mapping):
        table = pl.DataFrame({name: [value] for name, value in given.items()})
        place = np.zeros(len(shown), np.int64)
    else:
        table = to_polars(given)
        key = find_column("user", table.columns, None)
        if key is None:
            raise UnknownError("user_features needs a column 'user', or a mapping of one user")
        match = table.select(pl.col(key).alias("user")).with_row_index("place")
        found = shown.select("user").join(match, on="user", how="left", maintain_order="left")
        place = found["place"].fill_null(len(table)).to_numpy().astype(np.int64)
        table = table.drop(key)
    for name in table.columns:
        if name not in names:
            raise UnknownError(unknown_message("user feature", name, names))
    own = stack_rows(model.space.user_rows(table, len(table)), none)
    return stack_rows(own, known).take(
        np.where(place < len(table), place, own.size + np.arange(len(shown)))
    )


def _refuse(model: Recommender, frame: pl.DataFrame, name: str) -> None:
    """Raise for the first unseen value of a context column, with the nearest known one."""
    encoder = model.space.encoder("context", name)
    assert encoder.vocabulary is not None
    for value in frame[name].drop_nulls().unique(maintain_order=True):
        single = pl.Series(name, [value], dtype=frame[name].dtype)
        if encoder.encode(single)[1]:
            known = encoder.vocabulary.ids.to_list()
            raise UnknownError(unknown_message(f"value of context {name!r}", value, known))
