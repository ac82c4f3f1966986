"""Questions as query features: one path for a frame of queries and for one request.

`QueryEncoder.of_frame` reads a frame, `QueryEncoder.of_request` one `Question`. Both look up the
user, the context and the history in their own way, and share everything that follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, empty_rows, join_rows, one_row, stack_rows, starts
from fmpair.checks import one_of
from fmpair.errors import OptionError, UnknownError
from fmpair.errors import unknown as unknown_message
from fmpair.features import FeatureSpace
from fmpair.features.calendar import DAY, TIME, now
from fmpair.features.encoder import sum_to_one
from fmpair.features.history_fields import PastItems
from fmpair.fitted.history import LiveState, Recent, days_since_last, past_items, recent_events
from fmpair.fitted.id_lookup import (
    CONTEXT,
    SPOKEN,
    USER,
    IdLookup,
    Ids,
    item_numbers,
    number_of,
    unknown_id,
)
from fmpair.fitted.question import (
    COLUMN,
    REFUSING,
    UNKNOWN,
    Queries,
    Question,
    check_columns,
    check_time,
    column_of,
    given_table,
    histories_of,
    query_times,
    refuse_unseen,
    time_named,
    time_of,
)
from fmpair.threads import check_process

GUESSED_LIVE = 1_000  # ids to search for a similar one while a request waits
SECOND = 1_000_000  # microseconds
SINCE = f"{TIME}.since"
NO_COLUMNS = pl.DataFrame()
NO_ITEMS = np.zeros(0, np.int32)
NO_FEATURES = empty_rows(1)
FALSE, TRUE = np.array([False]), np.array([True])  # of one request; not to be changed


@dataclass(frozen=True)
class QueryEncoder:
    """Encodes questions as `Queries`.

    user_rows: the attributes of known users; recent: their last events, and past: how these become
    features, None if the model does not use them; live: events received since. keeps_context:
    whether requests keep their context as a frame, for models that score by it. takes_no_features:
    why questions cannot give attributes of users; empty if they can.
    """

    space: FeatureSpace
    id_lookup: IdLookup
    user_rows: Rows
    recent: Recent | None = None
    past: PastItems | None = None
    live: LiveState | None = None
    keeps_context: bool = False
    takes_no_features: str = ""

    @property
    def user_features(self) -> tuple[str, ...]:
        """The attributes of users that questions can give."""
        return () if self.takes_no_features else self.id_lookup.user_features

    def of_frame(self, frame: pl.DataFrame, *, unknown: str, user_features: Any = None) -> Queries:
        """Encode a frame with a user column (or none) and any context columns.

        A column `history` holds the items of each query; other columns are repeated in lists.
        """
        check_process()
        one_of("unknown", unknown, UNKNOWN)
        space = self.space
        frame = time_named(space, frame)
        column = column_of(space, "user", frame.columns)
        check_columns(space, frame.columns, column)
        user = np.full(len(frame), -1, np.int32)
        if column is not None:
            user = space.users.numbers(frame[column])
        history, given = self._history_column(frame, column, unknown == "error")
        profiles, profiled = self._profiles(frame, column, user, user_features, unknown)
        nobody = (user < 0) & ~given & ~profiled
        if column is not None and unknown in REFUSING and nobody.any():
            # looked up once more for the message, which names the nearest id
            number_of("user", frame[column][int(np.argmax(nobody))], space.users)
        timed, time = self._with_times(frame, user)
        contexts, unseen = space.context_rows(timed)
        if unknown in REFUSING:
            refuse_unseen(space, "context", frame, unseen)
        bare = nobody if unknown == "popular" else np.zeros(len(nobody), bool)
        rows = self._rows(user, [profiles, contexts], history, given, time, bare)
        shown = frame
        if history is not None:  # without expressions, which are slow for one row
            shown = pl.DataFrame([c for c in frame.iter_columns() if c.name != COLUMN])
        situation = pl.DataFrame([c for c in timed.iter_columns() if c.name in space.context])
        return Queries(user, rows, shown, situation, bare, history)

    def of_request(self, question: Question) -> tuple[Queries, int]:
        """Encode one request; return its query and how many items of its history are unknown."""
        ids = self.id_lookup
        number = -1 if question.user is None else ids.users.number(question.user)
        described = bool(question.user_features)
        nobody = number < 0 and question.history is None and not described
        if nobody and question.user is not None and question.unknown in REFUSING:
            raise unknown_id("user", question.user, self.space.users.ids, GUESSED_LIVE)
        items, missing = known_items(ids.items, question.history, question.unknown == "error")
        history = None
        if question.history is not None:
            history = one_row(items, np.ones(len(items), np.float32))
        user, given = np.array([number], np.int32), FALSE if history is None else TRUE
        time = self._request_time(question)
        times = None if time is None else np.array([time])
        context = dict(self._request_context(question, user, times))
        contexts = self._value_rows(CONTEXT, context, question.unknown in REFUSING)
        bare = TRUE if nobody and question.unknown == "popular" else FALSE
        profiles = [known_rows(self.user_rows, user)]
        if described:
            profiles = self._given_profile(question)
        rows = self._rows(user, [*profiles, *contexts], history, given, times, bare)
        situation = NO_COLUMNS
        if self.keeps_context:
            columns = {name: [value] for name, value in context.items() if name != SINCE}
            situation = pl.DataFrame(columns, strict=False)
        return Queries(user, rows, NO_COLUMNS, situation, bare, history), missing

    # What both share

    def _rows(
        self,
        user: np.ndarray,
        parts: list[Rows],
        history: Rows | None,
        given: np.ndarray,
        time: np.ndarray | None,
        bare: np.ndarray,
    ) -> Rows:
        """Return all features of each query: the parts, such as user attributes, and earlier items.

        The parts of one query may be many.
        """
        past = self.past_rows(user, history, given, time)
        if past is not None:
            parts.append(past)
        if len(user) == 1:
            if bare[0]:
                return NO_FEATURES
            return _joined(parts)
        rows = join_rows(parts)
        return rows._replace(value=np.where(bare[rows.owner], 0, rows.value).astype(np.float32))

    def past_rows(
        self,
        user: np.ndarray,
        history: Rows | None = None,
        given: np.ndarray = FALSE,
        time: np.ndarray | None = None,
    ) -> Rows | None:
        """Return the features of earlier items, None if the model does not use them.

        These are the users' last items before the time, or the history of a query if one is given.
        """
        if self.past is None or self.recent is None:
            return None
        within = self.past.within
        items = past_items(self.recent, self.live, within, user, history, given, time)
        return self.past.rows(items)

    def _check_features(self, names: Iterable[str]) -> None:
        """Raise an error for attributes of users that the model cannot use or does not know."""
        if self.takes_no_features:
            raise OptionError(self.takes_no_features)
        _check_names(USER, names, self.id_lookup.user_features)

    def _days_since(self, user: np.ndarray, time: np.ndarray | None) -> np.ndarray | None:
        """Return the days since the users' last events, None if the model does not use them."""
        if self.recent is None or time is None or not self.space.since:
            return None
        return days_since_last(recent_events(self.recent, self.live, user), time, DAY)

    # A frame of queries

    def _with_times(
        self, frame: pl.DataFrame, user: np.ndarray
    ) -> tuple[pl.DataFrame, np.ndarray | None]:
        """Return the frame with the columns of time that the model uses, and the query times."""
        if TIME in self.space.context and TIME not in frame.columns:
            frame = frame.with_columns(pl.lit(now()).alias(TIME))
        time = None if self.recent is None else query_times(self.space, frame)
        days = None if SINCE in frame.columns else self._days_since(user, time)
        if days is not None:
            frame = frame.with_columns(pl.Series(SINCE, days).fill_nan(None))
        return frame, time

    def _history_column(
        self, frame: pl.DataFrame, user: str | None, strict: bool
    ) -> tuple[Rows | None, np.ndarray]:
        """Return the histories of the queries, None without such a column, and which have one."""
        if COLUMN not in frame.columns or user == COLUMN or COLUMN in self.space.context:
            return None, np.zeros(len(frame), bool)
        values = frame[COLUMN]
        given = (
            values.is_not_null().to_numpy() if values.null_count() else np.ones(len(frame), bool)
        )
        return histories_of(values, self.id_lookup.items, strict), given

    def _profiles(
        self, frame: pl.DataFrame, column: str | None, user: np.ndarray, given: Any, unknown: str
    ) -> tuple[Rows, np.ndarray]:
        """Return the attributes of each query's user, given or known, and which were given."""
        known = known_rows(self.user_rows, user)
        if given is None or (isinstance(given, Mapping) and not given):
            return known, np.zeros(len(user), bool)
        table, row = given_table(given, frame, column)
        self._check_features(table.columns)
        rows, unseen = self.space.query.encode(USER, table, len(table), self.space.whole)
        if unknown in REFUSING:
            refuse_unseen(self.space, USER, table, unseen)
        described = row >= 0
        chosen = np.where(described, row, rows.size + np.arange(len(user)))
        return stack_rows(rows, known).take(chosen), described

    # One request

    def _request_time(self, question: Question) -> int | None:
        """Return the time of a request in microseconds; None if the model does not use time.

        The current time is rounded to seconds, so that its features are computed once a second.
        """
        check_time(self.space, question.time)
        context = question.context or {}
        given = question.time if question.time is not None else context.get(TIME)
        if given is not None:
            times = time_of(given)
            return None if times.null_count() else int(times.to_physical()[0])
        if TIME in self.id_lookup.context and TIME not in context:
            return int(datetime.now(UTC).timestamp()) * SECOND
        return None

    def _request_context(
        self, question: Question, user: np.ndarray, times: np.ndarray | None
    ) -> Iterator[tuple[str, Any]]:
        """Yield the context columns of a request with their values."""
        known, given = self.id_lookup.context, question.context or {}
        _check_names(CONTEXT, given, known)
        for name in known:
            if name in given:
                yield name, given[name]
            elif name == TIME and question.time is not None:
                yield name, question.time
            elif name == TIME and times is not None:
                seconds = int(times[0]) // SECOND
                yield name, datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
        days = self._days_since(user, times)
        if days is not None and not np.isnan(days[0]):
            yield SINCE, float(days[0])

    def _given_profile(self, question: Question) -> list[Rows]:
        """Return the features of the user attributes that a request gives, a row for each."""
        given = question.user_features or {}
        self._check_features(given)
        ordered = {name: given[name] for name in self.user_features if name in given}
        return self._value_rows(USER, ordered, question.unknown in REFUSING)

    def _value_rows(self, role: str, values: Mapping[str, Any], refusing: bool) -> list[Rows]:
        """Return the features of one request's values of a role, a row for each column."""
        parts = []
        for name, value in values.items():
            features = self.id_lookup.features(name, value, role)
            if features.unseen and refusing:
                frame = pl.DataFrame({name: [value]}, strict=False)
                refuse_unseen(self.space, role, frame, features.unseen, GUESSED_LIVE)
            parts.append(features.rows)
        return [sum_to_one(_joined(parts))] if self.space.whole else parts


def _check_names(role: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise UnknownError for a column of a role that the model does not know."""
    for name in names:
        if name not in known:
            raise UnknownError(unknown_message(SPOKEN[role], name, known))


def _joined(rows: Sequence[Rows]) -> Rows:
    """Return several rows as one."""
    parts = [row for row in rows if len(row.column)]
    if len(parts) < 2:
        return parts[0] if parts else NO_FEATURES
    columns = np.concatenate([part.column for part in parts])
    return one_row(columns, np.concatenate([part.value for part in parts]))


def known_rows(rows: Rows, number: np.ndarray) -> Rows:
    """Return the rows of the given numbers; an empty row for number -1."""
    if len(number) == 1:
        first = int(number[0])
        if first < 0 or not len(rows.column):
            return NO_FEATURES
        part = slice(rows.start[first], rows.start[first + 1])
        return one_row(rows.column[part], rows.value[part])
    taken = rows.take(np.maximum(number, 0))
    known = (number >= 0)[taken.owner]
    lengths = np.where(number < 0, 0, np.diff(taken.start))
    return Rows(starts(lengths), taken.column[known], taken.value[known])


def known_items(items: Ids, values: Sequence[Any] | None, strict: bool) -> tuple[np.ndarray, int]:
    """Return the numbers of the known items of a request, and the count of unknown ones."""
    if not values:
        return NO_ITEMS, 0
    numbers = item_numbers(values, items, strict, GUESSED_LIVE)
    known = numbers >= 0
    return (numbers, 0) if known.all() else (numbers[known], int((~known).sum()))
