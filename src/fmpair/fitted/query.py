"""Questions to a model: who asks, and in which situation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, stack_rows, starts
from fmpair.data.frame import to_polars
from fmpair.data.roles import ALIASES, find_column
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, UnknownError, listing, named
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace
from fmpair.features.entries import entries_of
from fmpair.fitted.moment import asked_at, time_named, with_time
from fmpair.forked import check_process

UNKNOWN = ("error", "features", "popular")
MOST_GUESSED = 50_000  # in larger catalogues the search for a similar id takes too long


class Fitted(Protocol):
    """What a question needs of a fitted model. user_rows: the attributes of its users."""

    @property
    def space(self) -> FeatureSpace: ...
    @property
    def user_rows(self) -> Rows: ...


@dataclass(frozen=True)
class Queries:
    """user: int32 [queries], -1 where unknown; rows: all query features.

    shown: the columns a listing repeats (user and context). bare: bool [queries], whether nothing
    but a usual user is asked for. asked: as shown, with the moment where the model goes by that.
    """

    user: np.ndarray
    rows: Rows
    shown: pl.DataFrame
    bare: np.ndarray
    asked: pl.DataFrame

    @property
    def context(self) -> pl.DataFrame:
        """The context columns; null for those who ask as nobody in no situation."""
        columns = self.asked.drop("user", strict=False)
        if not self.bare.any():
            return columns
        return columns.select(pl.when(pl.lit(pl.Series(~self.bare))).then(pl.all()))


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


def query_frame(
    space: FeatureSpace, users: Any, context: Mapping[str, Any] | None, time: Any = None
) -> pl.DataFrame:
    """Users (None: all, one, several, or a frame) with the context and time given to all."""
    check_process()
    if users is None:
        frame = pl.DataFrame({"user": space.users.ids})
    elif hasattr(users, "columns"):
        frame = to_polars(users)
    else:
        frame = pl.DataFrame({"user": ids_of(users)})
    if context is not None and not isinstance(context, Mapping):
        raise OptionError(
            f"context must be a mapping such as {{'daytime': 'evening'}}, not {context!r}"
        )
    for name, value in (context or {}).items():
        if name not in space.context:
            raise UnknownError(unknown_message("context", name, space.context))
        frame = frame.with_columns(pl.Series(name, [value]).new_from_index(0, len(frame)))
    return asked_at(space, frame, time)


def number_of(what: str, value: Any, known: Vocabulary) -> int:
    """The number of a user or item id; an unknown one is refused with the nearest known."""
    number = known.number(value)
    if number >= 0:
        return number
    ids = known.ids
    if ids.dtype == pl.String and len(ids) <= MOST_GUESSED:
        raise UnknownError(unknown_message(what, value, ids.to_list()))
    raise UnknownError(
        f"unknown {what} {value!r}: the model knows {len(ids):,} {what}s of type {ids.dtype}"
    )


def numbers_of(what: str, values: pl.Series, known: Vocabulary) -> np.ndarray:
    """int32 [values]: the numbers of ids, all of which must be known."""
    numbers = known.numbers(values)
    if (numbers < 0).any():
        number_of(what, values[int(np.argmax(numbers < 0))], known)
    return numbers


def item_column(frame: pl.DataFrame, items: Vocabulary) -> np.ndarray:
    """int32 [rows]: the numbers of a frame's item column."""
    column = find_column("item", frame.columns, None)
    if column is None:
        raise UnknownError("the frame to score needs a column 'item'")
    return numbers_of("item", frame[column], items)


def queries_of(
    model: Fitted, frame: pl.DataFrame, *, unknown: str, user_features: Any = None
) -> Queries:
    """The queries of a frame: a user column (or none), context columns in any number."""
    check_process()
    if unknown not in UNKNOWN:
        raise OptionError(f"{named('unknown')} must be one of {listing(UNKNOWN)}, not {unknown!r}")
    frame = time_named(model.space, frame)
    column = find_column("user", frame.columns, None)
    _check_columns(model, frame, column)
    names = [c for c in frame.columns if c == column or c in model.space.context]
    shown = frame if names == frame.columns else frame.select(names)
    if column is not None:
        shown = shown if column == "user" else shown.rename({column: "user"})
        user = model.space.users.numbers(frame[column])
    else:
        user = np.full(len(frame), -1, np.int32)
    profiles, described = _profiles(model, shown, user, user_features, unknown)
    nobody = (user < 0) & ~described
    if column is not None and unknown == "error" and nobody.any():
        # one lookup more, for the message that names the nearest id
        number_of("user", frame[column][int(np.argmax(nobody))], model.space.users)
    asked = with_time(model.space, shown)
    contexts, unseen = model.space.context_rows(asked)
    if unknown == "error":
        _refuse_unseen(model, "context", shown, unseen)
    rows = join_rows([profiles, contexts])
    bare = nobody if unknown == "popular" else np.zeros(len(nobody), bool)
    rows = rows._replace(value=np.where(bare[rows.owner], 0, rows.value).astype(np.float32))
    return Queries(user, rows, shown, bare, asked)


def _check_columns(model: Fitted, frame: pl.DataFrame, user: str | None) -> None:
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
    model: Fitted, shown: pl.DataFrame, user: np.ndarray, given: Any, unknown: str
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
        raise UnknownError(
            f"a table of {named('user_features')} needs a column 'user', and so do the queries"
        )
    if table[key].is_duplicated().any():
        twice = table[key].filter(table[key].is_duplicated())[0]
        raise DataError(f"{named('user_features')} has several rows of user {twice!r}: give one")
    return table.drop(key), Vocabulary(table[key]).numbers(shown["user"]).astype(np.int64)


def _refuse_unseen(
    model: Fitted, role: str, frame: pl.DataFrame, unseen: Mapping[str, int]
) -> None:
    """Raise for the first value of a column that training did not see, with the nearest it did."""
    for name in unseen:
        encoder = model.space.encoder(role, name)
        assert encoder.vocabulary is not None
        members = entries_of(frame[name], encoder.field)[1]
        new = members.filter(pl.Series(encoder.vocabulary.numbers(members) < 0))
        what = f"value of {'user feature' if role == 'user' else role} {name!r}"
        raise UnknownError(unknown_message(what, new[0], encoder.vocabulary.ids.to_list()))
