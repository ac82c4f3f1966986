"""Questions to a model: one request with its answer, and frames of queries with their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np
import polars as pl

from fmpair.arrays import (
    Rows,
    empty_rows,
    group_rows,
    one_row,
    ordered_rows,
    stack_rows,
    starts,
)
from fmpair.checks import one_of, whole
from fmpair.data.columns.roles import find_column
from fmpair.data.frame import to_polars
from fmpair.data.times import EXAMPLE
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, UnknownError, listing, named, nearest, notice
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME, datetimes
from fmpair.features.encoder import entries_of
from fmpair.fitted.id_lookup import (
    MAX_GUESSED,
    SPOKEN,
    Ids,
    ids_of,
    item_numbers,
    shown_first,
)
from fmpair.fitted.notebook import answer_html
from fmpair.fitted.rules import Rules
from fmpair.threads import check_process

COLUMN = "history"  # the history column in a frame of queries
BETWEEN = "|"  # separates the items of a history that is text, as in delimited files
ALIKE = 0.75  # a column name this similar to a missing context column is taken for a typo
NO_VALUES = np.zeros(0, np.float32)
OURS = ("score", "rank", "similarity")  # columns of answers
UNKNOWN = ("ignore", "error", "features", "popular")
REFUSING = ("ignore", "error")  # settings that refuse unknown users and context values

Term = tuple[str, str, float]  # query feature, item feature, and what the two add to the score


class Answer(NamedTuple):
    """The best items, best first, and their scores.

    terms: for each item the terms that add up to its score, largest first, if `explain` was set.
    passed_over: how many items of the question are unknown; stranger: whether its user is.
    empty: why no item is left, such as a rule. idle: boosts of values that no item has.
    """

    items: list[Any]
    scores: list[float]
    terms: list[list[Term]] | None = None
    passed_over: int = 0
    stranger: bool = False
    empty: str = ""
    idle: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return answer_html(self)


@dataclass(frozen=True, slots=True)
class Question:
    """A request for one ranked list: the options of `Recommender.answer`."""

    user: Any = None
    n: int = 10
    context: Mapping[str, Any] | None = None
    history: Sequence[Any] | None = None
    candidates: Sequence[Any] | None = None
    exclude: Sequence[Any] = ()
    explain: bool = False
    unknown: str = "error"
    time: Any = None
    exclude_seen: bool = True
    rules: Rules | None = None
    user_features: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        whole("n", self.n, 1)
        one_of("unknown", self.unknown, UNKNOWN)
        check_mapping("context", self.context, "{'daytime': 'evening'}")
        check_mapping("user_features", self.user_features, "{'age': 25}")
        options = {"history": self.history, "candidates": self.candidates, "exclude": self.exclude}
        for option, items in options.items():
            if items is None or type(items) is list:  # faster, for most requests
                continue
            if isinstance(items, str) or not hasattr(items, "__len__"):
                raise OptionError(f"{named(option)} must be a list of items, not {items!r}")


def check_mapping(option: str, given: Any, example: str) -> None:
    """Raise OptionError unless an option is a mapping or None."""
    if given is not None and type(given) is not dict and not isinstance(given, Mapping):
        raise OptionError(f"{named(option)} must be a mapping such as {example}, not {given!r}")


@dataclass(frozen=True)
class Queries:
    """Questions as arrays.

    user: int32 [queries], -1 if unknown; rows: all query features; shown: the columns to repeat in
    a list; situation: the context columns, with the time if the model uses it; bare: bool
    [queries], whether the query is an average user without context; history: the items given as
    the history of each query.
    """

    user: np.ndarray
    rows: Rows
    shown: pl.DataFrame
    situation: pl.DataFrame
    bare: np.ndarray
    history: Rows | None = None

    @property
    def context(self) -> pl.DataFrame:
        """The context columns, null for bare queries."""
        columns = self.situation
        if not self.bare.any():
            return columns
        return columns.select(pl.when(pl.lit(pl.Series(~self.bare))).then(pl.all()))


def stacked_queries(queries: Sequence[Queries]) -> Queries:
    """Return the queries of several requests as one, in order."""
    if len(queries) == 1:
        return queries[0]
    history = None
    if any(query.history is not None for query in queries):
        history = stack_rows(*(query.history or empty_rows(1) for query in queries))
    return Queries(
        np.concatenate([query.user for query in queries]),
        stack_rows(*(query.rows for query in queries)),
        queries[0].shown,
        queries[0].situation,
        np.concatenate([query.bare for query in queries]),
        history,
    )


class Request(NamedTuple):
    """A question as arrays. chosen: the candidates, ascending, None for all items.

    hidden: int32, the positions among the candidates to leave out.
    """

    query: Queries
    chosen: np.ndarray | None
    hidden: np.ndarray
    passed_over: int


def stacked_places(positions: Sequence[np.ndarray]) -> Rows:
    """Return a row for each array of positions, without values."""
    if len(positions) == 1:
        return one_row(positions[0], NO_VALUES)
    start = starts(np.array([len(part) for part in positions]))
    return Rows(start, np.concatenate(positions), NO_VALUES)


# Frames of queries


class Frame(Protocol):
    """A polars, pandas or pyarrow frame."""

    @property
    def columns(self) -> Any: ...


AnyFrame = TypeVar("AnyFrame", bound=Frame)


class ListOptions(TypedDict, total=False):
    """The options of `recommend`, which says what they mean."""

    history: Any
    context: Mapping[str, Any] | None
    time: Any
    exclude_seen: bool
    candidates: Sequence[Any] | None
    exclude: Sequence[Any] | None
    user_features: Any
    unknown: str
    where: str | Sequence[str] | None
    limit: Mapping[str, int] | None
    boost: Mapping[str, Mapping[Any, float]] | None
    diversity: float | None
    exclude_shown: Any
    rules: Rules | None


def query_frame(
    space: FeatureSpace,
    users: Any,
    context: Mapping[str, Any] | None,
    history: Any = None,
    time: Any = None,
) -> pl.DataFrame:
    """Return users (None: all, one, several, or a frame) with the context and time given to all.

    history: the items of one visitor, who has no id unless `users` names one.
    """
    check_process()
    frame = None
    if hasattr(users, "columns"):
        frame = to_polars(users)
    elif users is not None or history is None:
        ids = space.users.ids if users is None else ids_of(users)
        frame = pl.DataFrame({name_of(space, "user"): ids})
    if history is not None or frame is None:
        frame = _with_history(frame, history)
    check_mapping("context", context, "{'daytime': 'evening'}")
    for name, value in (context or {}).items():
        if name not in space.context:
            raise UnknownError(unknown_message("context", name, space.context))
        frame = frame.with_columns(
            pl.Series(name, [value], strict=False).new_from_index(0, len(frame))
        )
    if time is None:
        return frame
    check_time(space, time)
    time_of(time)
    return frame.with_columns(pl.Series(TIME, [time]).new_from_index(0, len(frame)))


def one_query(
    space: FeatureSpace, user: Any, context: Mapping[str, Any] | None, history: Any, time: Any
) -> pl.DataFrame:
    """Return the query of one user, or of a visitor with a history (user: None)."""
    if user is None and history is None:
        raise OptionError(f"give {named('user')}, or {named('history')} of a visitor")
    return query_frame(space, user, context, history, time)


def _with_history(frame: pl.DataFrame | None, items: Any) -> pl.DataFrame:
    """Return the query of one visitor (frame: None) or user with a column of its history."""
    column = pl.Series(COLUMN, [ids_of(items)])
    if frame is None:
        return column.to_frame()
    if len(frame) != 1:
        raise OptionError(
            f"{named(COLUMN)} takes one visitor, got {len(frame):,}: for several give a frame "
            f"with a column {COLUMN!r} of lists"
        )
    return frame.drop(COLUMN, strict=False).hstack([column])


def histories_of(values: pl.Series, items: Ids, strict: bool) -> Rows:
    """Return the known items of each query, in their order, with value 1.

    values: lists, or text with bars between ids. strict: raise for an unknown item.
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
    if values.null_count() == len(values):
        return empty_rows(len(values))
    lengths = values.list.len().fill_null(0).to_numpy()
    members = values.explode(empty_as_null=False, keep_nulls=False)
    number = option_items(COLUMN, members, items, strict)
    known = number >= 0
    owner = np.repeat(np.arange(len(lengths)), lengths)[known]
    return ordered_rows(owner, number[known], np.ones(len(owner), np.float32), len(lengths))


def option_items(option: str, values: pl.Series, items: Ids, strict: bool) -> np.ndarray:
    """Return the numbers of the items of an option, -1 for unknown ones, which a notice counts."""
    numbers = item_numbers(values, items, strict)
    missing = int((numbers < 0).sum())
    if missing:
        first = shown_first(values[int(np.argmax(numbers < 0))], items.vocabulary.ids)
        notice(
            f"{named(option)}: {missing:,} of {len(values):,} items are unknown and ignored, "
            f"the first is {first}; {named('unknown', 'error')} refuses them"
        )
    return numbers


def shown_pairs(items: Ids, shown: Any) -> tuple[pl.DataFrame | None, Any]:
    """Return a frame of items that users were shown as (user as text, number of the item).

    Return also what is left of `shown`: nothing if it is a frame, else all.
    """
    if not hasattr(shown, "columns"):
        return None, shown
    frame = to_polars(shown)
    user, item = (find_column(role, frame.columns, None) for role in ("user", "item"))
    if user is None or item is None:
        missing = "user" if user is None else "item"
        raise UnknownError(f"the frame of {named('exclude_shown')} needs a column {missing!r}")
    pairs = pl.DataFrame({"user": frame[user].cast(pl.String), "item": items.numbers(frame[item])})
    return pairs.filter(pl.col("item") >= 0).unique(), ()


def shown_rows(
    queries: pl.DataFrame, space: FeatureSpace, pairs: pl.DataFrame | None
) -> Rows | None:
    """Return the items that the user of each query was shown, None if none is known."""
    user = column_of(space, "user", queries.columns)
    if pairs is None or user is None:
        return None
    asked = queries.select(pl.col(user).cast(pl.String).alias("user")).with_row_index("row")
    found = asked.join(pairs, on="user")
    owner = found["row"].cast(pl.Int64).to_numpy()
    return group_rows(owner, found["item"].to_numpy(), len(queries))


def given_table(
    given: Any, frame: pl.DataFrame, column: str | None
) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the table of the user attributes given, and each query's row in it or -1."""
    if isinstance(given, Mapping):
        table = pl.DataFrame({name: [value] for name, value in given.items()}, strict=False)
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


# Columns and times


def name_of(space: FeatureSpace, role: str) -> str:
    """Return the name of the user or item column in answers: as in the training events."""
    name = space.id_columns[("user", "item").index(role)]
    return role if name in OURS else name


def column_of(space: FeatureSpace, role: str, columns: Sequence[str]) -> str | None:
    """Return the user or item column of a frame: named as in training, or by a usual name."""
    name = name_of(space, role)
    return name if name in columns else find_column(role, columns, None)


def item_column(frame: pl.DataFrame, space: FeatureSpace, items: Ids) -> np.ndarray:
    """Return the numbers of a frame's item column: int32 [rows]."""
    column = column_of(space, "item", frame.columns)
    if column is None:
        raise UnknownError(f"the frame to score needs a column {name_of(space, 'item')!r}")
    return item_numbers(frame[column], items, strict=True)


def check_columns(space: FeatureSpace, columns: Sequence[str], user: str | None) -> None:
    """Raise UnknownError for a column that looks like a misspelt context column."""
    missing = [name for name in space.context if name not in columns]
    for name in columns:
        guess = None if name == user or name in space.context else nearest(name, missing, ALIKE)
        if guess is not None:
            raise UnknownError(
                f"unknown context {name!r}. Did you mean {guess!r}? Rename the column, or leave it "
                f"out. Known: {listing(space.context)}"
            )


def refuse_unseen(
    space: FeatureSpace,
    role: str,
    frame: pl.DataFrame,
    unseen: Iterable[str],
    most: int = MAX_GUESSED,
) -> None:
    """Raise UnknownError for the first value of a column that training did not see.

    most: values to search for the nearest known one.
    """
    for name in unseen:
        encoder = space.encoder(role, name)
        assert encoder.vocabulary is not None
        members = entries_of(frame[name], encoder.field)[1]
        new = members.filter(pl.Series(encoder.vocabulary.numbers(members) < 0))
        what = f"value of {SPOKEN[role]} {name!r}"
        ids = encoder.vocabulary.ids
        if len(ids) <= most:
            raise UnknownError(unknown_message(what, new[0], ids.to_list()))
        raise UnknownError(f"unknown {what} {new[0]!r}: {len(ids):,} others are known")


def knows_time(space: FeatureSpace) -> bool:
    """Return whether an answer depends on the time of the question."""
    return TIME in space.context or bool(space.history and space.history.within)


def check_time(space: FeatureSpace, time: Any) -> None:
    """Raise OptionError if a time is given to a model that does not use it."""
    if time is not None and not knows_time(space):
        raise OptionError(
            f"the model does not use the time: leave out {named('time')}, or fit it with "
            f"{named('fields', {TIME: 'time'})}"
        )


def time_of(value: Any) -> pl.Series:
    """Return one given time as a series in UTC, without a zone; null if it is missing."""
    try:
        return datetimes(pl.Series(TIME, [value]))
    except (DataError, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise DataError(
            f"{value!r} is not a time: give text such as {EXAMPLE}, or seconds since 1970"
        ) from None


def time_named(space: FeatureSpace, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with its column of times, if any, under the name the model knows."""
    if TIME not in space.context or TIME in frame.columns:
        return frame
    column = find_column(TIME, frame.columns, None)
    if column is None or column in space.context:
        return frame
    return frame.rename({column: TIME})


def query_times(space: FeatureSpace, frame: pl.DataFrame) -> np.ndarray | None:
    """Return the times of queries, int64 [queries] in microseconds, None if not all are given."""
    if TIME not in frame.columns or not knows_time(space):
        return None
    times = datetimes(frame[TIME])
    return None if times.null_count() else times.to_physical().to_numpy()
