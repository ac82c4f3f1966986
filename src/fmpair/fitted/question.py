"""Questions to a model: who asks, and in which situation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from fmpair.arrays import Rows, join_rows, stack_rows, starts
from fmpair.checks import one_of
from fmpair.data.columns.roles import find_column
from fmpair.data.frame import to_polars
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, UnknownError, listing, named, nearest
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace
from fmpair.features.calendar import DAY, TIME, datetimes, now
from fmpair.features.encoder import entries_of
from fmpair.fitted.id_lookup import MOST_GUESSED, ids_of, known_only, number_of, numbers_of
from fmpair.fitted.recent_events import Given, Recent
from fmpair.threads import check_process

# The moment of a question: given, or now; and what follows from it.


def knows_time(space: FeatureSpace) -> bool:
    """Whether an answer depends on when it is asked for."""
    return TIME in space.context or bool(space.history and space.history.within)


def asked_at(space: FeatureSpace, frame: pl.DataFrame, time: Any) -> pl.DataFrame:
    """The questions with the one moment that all are asked at; None leaves them as they are."""
    if time is None:
        return frame
    check_time(space, time)
    return frame.with_columns(pl.Series(TIME, [time]).new_from_index(0, len(frame)))


def check_time(space: FeatureSpace, time: Any) -> None:
    """Refuse a time that would play no part."""
    if time is not None and not knows_time(space):
        raise OptionError(
            f"the model does not know the time: leave out {named('time')}, or fit it with "
            f"{named('fields', {TIME: 'time'})}"
        )


def time_named(space: FeatureSpace, frame: pl.DataFrame) -> pl.DataFrame:
    """The questions with their column of times, if any, under the name the model knows."""
    if TIME not in space.context or TIME in frame.columns:
        return frame
    column = find_column(TIME, frame.columns, None)
    if column is None or column in space.context:
        return frame
    return frame.rename({column: TIME})


def with_time(space: FeatureSpace, frame: pl.DataFrame) -> pl.DataFrame:
    """The questions with this moment where no other is given."""
    if TIME not in space.context or TIME in frame.columns:
        return frame
    return frame.with_columns(pl.lit(now()).alias(TIME))


def moments_asked(space: FeatureSpace, frame: pl.DataFrame) -> np.ndarray | None:
    """int64 [questions]: when they are asked, microseconds since 1970; None where none says so.

    A model that does not go by the time has no use for a column of times, whatever it holds.
    """
    if TIME not in frame.columns or not knows_time(space):
        return None
    times = datetimes(frame[TIME])
    return None if times.null_count() else times.to_physical().to_numpy()


def with_since(
    space: FeatureSpace,
    frame: pl.DataFrame,
    recent: Recent | None,
    user: np.ndarray,
    now: np.ndarray | None,
) -> pl.DataFrame:
    """The questions with the days since their users' last events, where the model goes by those."""
    if not space.since or recent is None or now is None:
        return frame
    own = recent.take(user)
    past = np.full(len(user), -1, np.int64)
    earlier = own.moment < now[own.owner]
    np.maximum.at(past, own.owner[earlier], own.moment[earlier])
    days = np.where(past >= 0, (now - past) / DAY, np.nan)
    return frame.with_columns(pl.Series(f"{TIME}.since", days).fill_nan(None))


# What a visitor looked at before asking: a list of items in place of a user's id.


COLUMN = "history"  # of a frame of queries
BETWEEN = "|"  # the items of a history that is text, as in delimited files


def with_history(frame: pl.DataFrame | None, items: Any) -> pl.DataFrame:
    """The queries of one visitor, or of one user, with their history as a column.

    frame: None for a visitor without an id; items: any collection of ids.
    """
    column = pl.Series(COLUMN, [ids_of(items)])
    if frame is None:
        return column.to_frame()
    if len(frame) != 1:
        raise OptionError(
            f"{named(COLUMN)} is of one visitor, not of {len(frame):,}: for several give a frame "
            f"with a column {COLUMN!r} of lists"
        )
    return frame.drop(COLUMN, strict=False).hstack([column])


def histories_of(values: pl.Series, items: Vocabulary, strict: bool) -> Rows:
    """Per query the numbers of its items that are known, in their order, each with value 1.

    values: lists, or text with bars between ids. strict: an unknown item is refused.
    """
    if values.dtype == pl.String:
        values = values.str.split(BETWEEN).list.eval(pl.element().filter(pl.element() != ""))
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List | pl.Null):
        raise DataError(
            f"column {values.name!r} holds {values.dtype}: give lists of items, or text such as "
            f"'a{BETWEEN}b'"
        )
    lengths, members = _members(values)
    number = known_only(COLUMN, members, items, strict)
    known = number >= 0
    owner = np.repeat(np.arange(len(lengths)), lengths)[known]
    counts = np.bincount(owner, minlength=len(lengths))
    return Rows(starts(counts), number[known], np.ones(len(owner), np.float32))


def _members(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """(how many each list holds, all that they hold)."""
    if values.null_count() == len(values):
        return np.zeros(len(values), np.int64), pl.Series([], dtype=pl.Null)
    if len(values) == 1:  # one visitor waits for an answer: expressions take half a millisecond
        return np.array([len(values[0])]), values[0]
    lengths = values.list.len().fill_null(0).to_numpy()
    return lengths, values.explode(empty_as_null=False, keep_nulls=False)


UNKNOWN = ("ignore", "error", "features", "popular")
REFUSING = ("ignore", "error")  # users and values that are unknown
ALIKE = 0.75  # from here on a column's name is taken for a mistyped context
OURS = ("score", "rank", "similarity")  # columns of answers


class Fitted(Protocol):
    """What a question needs of a fitted model. user_rows: the attributes of its users.

    recent: their latest events, where the model goes by them; before: what follows from these.
    """

    @property
    def space(self) -> FeatureSpace: ...
    @property
    def user_rows(self) -> Rows: ...
    @property
    def recent(self) -> Recent | None: ...

    def before(self, user: np.ndarray, given: Given) -> Rows | None: ...


@dataclass(frozen=True)
class Queries:
    """user: int32 [queries], -1 where unknown; rows: all query features.

    shown: the columns a listing repeats. situation: the context, with the moment where the model
    goes by that. bare: bool [queries], whether nothing but a usual user is asked for. history: per
    query the items it comes from.
    """

    user: np.ndarray
    rows: Rows
    shown: pl.DataFrame
    situation: pl.DataFrame
    bare: np.ndarray
    history: Rows | None = None

    @property
    def context(self) -> pl.DataFrame:
        """The context columns; null for those who ask as nobody in no situation."""
        columns = self.situation
        if not self.bare.any():
            return columns
        return columns.select(pl.when(pl.lit(pl.Series(~self.bare))).then(pl.all()))


def query_frame(
    space: FeatureSpace,
    users: Any,
    context: Mapping[str, Any] | None,
    history: Any = None,
    time: Any = None,
) -> pl.DataFrame:
    """Users (None: all, one, several, or a frame) with the context and time given to all of them.

    history: the items of one visitor, who is no user unless one is named.
    """
    check_process()
    frame = None
    if hasattr(users, "columns"):
        frame = to_polars(users)
    elif users is not None or history is None:
        frame = pl.DataFrame(
            {name_of(space, "user"): space.users.ids if users is None else ids_of(users)}
        )
    if history is not None or frame is None:
        frame = with_history(frame, history)
    if context is not None and not isinstance(context, Mapping):
        raise OptionError(
            f"context must be a mapping such as {{'daytime': 'evening'}}, not {context!r}"
        )
    for name, value in (context or {}).items():
        if name not in space.context:
            raise UnknownError(unknown_message("context", name, space.context))
        frame = frame.with_columns(pl.Series(name, [value]).new_from_index(0, len(frame)))
    return asked_at(space, frame, time)


def name_of(space: FeatureSpace, role: str) -> str:
    """What the column of users or items is called in answers: as in the events learned from."""
    name = space.id_columns[("user", "item").index(role)]
    return role if name in OURS else name


def column_of(space: FeatureSpace, role: str, columns: Sequence[str]) -> str | None:
    """The column of users or items in a frame: called as in the events, or by a usual name."""
    own = name_of(space, role)
    return own if own in columns else find_column(role, columns, None)


def item_column(frame: pl.DataFrame, space: FeatureSpace) -> np.ndarray:
    """int32 [rows]: the numbers of a frame's item column."""
    column = column_of(space, "item", frame.columns)
    if column is None:
        raise UnknownError(f"the frame to score needs a column {name_of(space, 'item')!r}")
    return numbers_of("item", frame[column], space.items)


def queries_of(
    model: Fitted, frame: pl.DataFrame, *, unknown: str, user_features: Any = None
) -> Queries:
    """The queries of a frame: a user column (or none), context columns in any number.

    A column `history` holds items that the query comes from; further columns are repeated.
    """
    check_process()
    one_of("unknown", unknown, UNKNOWN)
    space = model.space
    frame = time_named(space, frame)
    column = column_of(space, "user", frame.columns)
    check_columns(space, frame.columns, column)
    user = np.full(len(frame), -1, np.int32)
    if column is not None:
        user = space.users.numbers(frame[column])
    histories, described = _histories(space, frame, column, unknown == "error")
    profiles, profiled = _profiles(model, frame, column, user, user_features, unknown)
    nobody = (user < 0) & ~described & ~profiled
    if column is not None and unknown in REFUSING and nobody.any():
        # one lookup more, for the message that names the nearest id
        number_of("user", frame[column][int(np.argmax(nobody))], space.users)
    asked = with_time(space, frame)
    now = None if model.recent is None else moments_asked(space, asked)
    asked = with_since(space, asked, model.recent, user, now)
    contexts, unseen = space.context_rows(asked)
    if unknown in REFUSING:
        refuse_unseen(model.space, "context", frame, unseen)
    before = model.before(user, Given(histories, described, now))
    rows = join_rows([profiles, contexts] + ([] if before is None else [before]))
    bare = nobody if unknown == "popular" else np.zeros(len(nobody), bool)
    rows = rows._replace(value=np.where(bare[rows.owner], 0, rows.value).astype(np.float32))
    shown = frame
    if histories is not None:  # no expression: one visitor waits for an answer
        shown = pl.DataFrame([c for c in frame.iter_columns() if c.name != COLUMN])
    situation = pl.DataFrame([c for c in asked.iter_columns() if c.name in space.context])
    return Queries(user, rows, shown, situation, bare, histories)


def _histories(
    space: FeatureSpace, frame: pl.DataFrame, user: str | None, strict: bool
) -> tuple[Rows | None, np.ndarray]:
    """(the histories of a frame's queries, None without such a column; whether each has one)."""
    if COLUMN not in frame.columns or user == COLUMN or COLUMN in space.context:
        return None, np.zeros(len(frame), bool)
    values = frame[COLUMN]
    told = values.is_not_null().to_numpy() if values.null_count() else np.ones(len(frame), bool)
    return histories_of(values, space.items, strict), told


def check_columns(space: FeatureSpace, columns: Sequence[str], user: str | None) -> None:
    """Refuse a column that looks like a context the frame lacks, with one letter wrong or so."""
    lacking = [name for name in space.context if name not in columns]
    for name in columns:
        guess = None if name == user or name in space.context else nearest(name, lacking, ALIKE)
        if guess is not None:
            raise UnknownError(
                f"unknown context {name!r}. Did you mean {guess!r}? Rename the column, or leave it "
                f"out. Known: {listing(space.context)}"
            )


def known_rows(rows: Rows, number: np.ndarray) -> Rows:
    """The rows of the given numbers; none for number -1."""
    taken = rows.take(np.maximum(number, 0))
    kept = (number >= 0)[taken.owner]
    lengths = np.where(number < 0, 0, np.diff(taken.start))
    return Rows(starts(lengths), taken.column[kept], taken.value[kept])


def _profiles(
    model: Fitted,
    frame: pl.DataFrame,
    column: str | None,
    user: np.ndarray,
    given: Any,
    unknown: str,
) -> tuple[Rows, np.ndarray]:
    """(attributes of each query's user, whether they were given): else those known, else none."""
    known = known_rows(model.user_rows, user)
    if given is None:
        return known, np.zeros(len(user), bool)
    table, place = _given_table(given, frame, column)
    names = [e.name for e in model.space.query.encoders if e.role == "user"]
    for name in table.columns:
        if name not in names:
            raise UnknownError(unknown_message("user feature", name, names))
    own, unseen = model.space.query.encode("user", table, len(table), model.space.whole)
    if unknown in REFUSING:
        refuse_unseen(model.space, "user", table, unseen)
    described = place >= 0
    rows = np.where(described, place, own.size + np.arange(len(user)))
    return stack_rows(own, known).take(rows), described


def _given_table(
    given: Any, frame: pl.DataFrame, column: str | None
) -> tuple[pl.DataFrame, np.ndarray]:
    """(table of the attributes given, each query's row in it or -1)."""
    if isinstance(given, Mapping):
        table = pl.DataFrame({name: [value] for name, value in given.items()})
        return table, np.zeros(len(frame), np.int64)
    table = to_polars(given)
    key = column if column in table.columns else find_column("user", table.columns, None)
    if key is None or column is None:
        raise UnknownError(
            f"a table of {named('user_features')} needs a column 'user', and so do the queries"
        )
    if table[key].is_duplicated().any():
        twice = table[key].filter(table[key].is_duplicated())[0]
        raise DataError(f"{named('user_features')} has several rows of user {twice!r}: give one")
    return table.drop(key), Vocabulary(table[key]).numbers(frame[column]).astype(np.int64)


def refuse_unseen(
    space: FeatureSpace,
    role: str,
    frame: pl.DataFrame,
    unseen: Iterable[str],
    most: int = MOST_GUESSED,
) -> None:
    """Raise for the first value of a column that training did not see, with the nearest it did.

    most: values to be searched for the nearest.
    """
    for name in unseen:
        encoder = space.encoder(role, name)
        assert encoder.vocabulary is not None
        members = entries_of(frame[name], encoder.field)[1]
        new = members.filter(pl.Series(encoder.vocabulary.numbers(members) < 0))
        what = f"value of {'user feature' if role == 'user' else role} {name!r}"
        ids = encoder.vocabulary.ids
        if len(ids) <= most:
            raise UnknownError(unknown_message(what, new[0], ids.to_list()))
        raise UnknownError(f"unknown {what} {new[0]!r}: {len(ids):,} others are known")
