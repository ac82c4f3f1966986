"""Questions to a model: who asks in which situation, as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, stack_rows, starts
from fmpair.data.frame import to_polars
from fmpair.data.roles import ALIASES, find_column
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, UnknownError, listing
from fmpair.errors import unknown as unknown_message
from fmpair.features.entries import entries_of

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


def ids_of(ids: Any) -> pl.Series:
    """One id, or any collection of ids, as a Series."""
    if hasattr(ids, "__array__") and not isinstance(ids, pl.Series):
        ids = np.atleast_1d(np.asarray(ids))  # of numpy, pandas or pyarrow
    if isinstance(ids, np.ndarray) and ids.dtype == object:
        ids = ids.tolist()
    if isinstance(ids, str | bytes) or not hasattr(ids, "__iter__"):
        ids = [ids]
    try:
        return pl.Series(ids if isinstance(ids, np.ndarray | pl.Series) else list(ids))
    except TypeError:
        raise DataError("the ids are of several types: give all of one type") from None


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
    profiles, described = _profiles(model, shown, user, user_features, unknown)
    nobody = (user < 0) & ~described
    if column is not None and unknown == "error" and nobody.any():
        # one lookup more, for the message that names the nearest id
        model.user_number(frame[column][int(np.argmax(nobody))])
    contexts, unseen = model.space.context_rows(shown)
    if unknown == "error":
        _refuse_unseen(model, "context", shown, unseen)
    rows = join_rows([profiles, contexts])
    if unknown == "popular":
        rows = rows._replace(value=np.where(nobody[rows.owner], 0, rows.value).astype(np.float32))
    own = model.parameters.users[np.maximum(user, 0)]
    own[user < 0] = model.usual_user
    return Queries(user, rows, rows.dot(model.parameters.query) + own, shown)


def usual_user(users: np.ndarray, seen: Rows) -> np.ndarray:
    """float32 [factors]: the mean vector of users with events, the best guess for a stranger."""
    known = np.diff(seen.start) > 0
    return users[known].mean(axis=0) if known.any() else np.zeros(users.shape[1], np.float32)


def _check_columns(model: Recommender, frame: pl.DataFrame, user: str | None) -> None:
    """Refuse columns the model has no use for, unless they play another part in events."""
    parts = {alias for role, aliases in ALIASES.items() if role != "user" for alias in aliases}
    for name in frame.columns:
        if name != user and name not in model.space.context and name.lower() not in parts:
            raise UnknownError(unknown_message("context", name, model.space.context))


def known_rows(rows: Rows, number: np.ndarray) -> Rows:
    """The rows of the given numbers; none for number -1."""
    taken = rows.take(np.maximum(number, 0))
    kept = (number >= 0)[taken.owner]
    lengths = np.where(number < 0, 0, np.diff(taken.start))
    return Rows(starts(lengths), taken.column[kept], taken.value[kept])


def _profiles(
    model: Recommender, shown: pl.DataFrame, user: np.ndarray, given: Any, unknown: str
) -> tuple[Rows, np.ndarray]:
    """(attributes of each query's user, whether they were given): else those known, else none."""
    known = known_rows(model.user_rows, user)
    if given is None:
        return known, np.zeros(len(user), bool)
    table, place = _given_table(given, shown)
    names = [e.name for e in model.space.query.encoders if e.role == "user"]
    for name in table.columns:
        if name not in names:
            raise UnknownError(unknown_message("user feature", name, names))
    own, unseen = model.space.query.encode("user", table, len(table), model.space.whole)
    if unknown == "error":
        _refuse_unseen(model, "user", table, unseen)
    described = place >= 0
    rows = np.where(described, place, own.size + np.arange(len(user)))
    return stack_rows(own, known).take(rows), described


def _given_table(given: Any, shown: pl.DataFrame) -> tuple[pl.DataFrame, np.ndarray]:
    """(table of the attributes given, each query's row in it or -1)."""
    if isinstance(given, Mapping):
        table = pl.DataFrame({name: [value] for name, value in given.items()})
        return table, np.zeros(len(shown), np.int64)
    table = to_polars(given)
    key = find_column("user", table.columns, None)
    if key is None or "user" not in shown.columns:
        raise UnknownError("a table of user_features needs a column 'user', and so do the queries")
    if table[key].is_duplicated().any():
        twice = table[key].filter(table[key].is_duplicated())[0]
        raise DataError(f"user_features has several rows of user {twice!r}: give one")
    return table.drop(key), Vocabulary(table[key]).numbers(shown["user"]).astype(np.int64)


def _refuse_unseen(
    model: Recommender, role: str, frame: pl.DataFrame, unseen: Mapping[str, int]
) -> None:
    """Raise for the first value of a column that training did not see, with the nearest it did."""
    for name in unseen:
        encoder = model.space.encoder(role, name)
        assert encoder.vocabulary is not None
        members = entries_of(frame[name], encoder.field)[1]
        new = members.filter(pl.Series(encoder.vocabulary.numbers(members) < 0))
        what = f"value of {'user feature' if role == 'user' else role} {name!r}"
        raise UnknownError(unknown_message(what, new[0], encoder.vocabulary.ids.to_list()))
