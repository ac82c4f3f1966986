"""`Dataset`: events over numbered users and items, with context and attribute tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs
from fmpair.checks import known_options_only, no_attribute, one_of
from fmpair.data.columns.inference import (
    CONTEXT,
    DISPLAY,
    Decisions,
    decide,
    why_display,
    without,
)
from fmpair.data.columns.roles import (
    STANDARD,
    check_events,
    check_no_leak,
    name_list,
    with_ids,
)
from fmpair.data.event_types import (
    DROPPED,
    EventWeights,
    Refunds,
    add_impressions,
    first_of_run,
    merged,
    weights_by_type,
    without_refunds,
)
from fmpair.data.frame import kind_of, to_polars
from fmpair.data.item_columns import aligned, check_known, in_order, item_table, plain_columns
from fmpair.data.times import is_calendar, moments, read_times
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, Notice, named
from fmpair.threads import check_process

LOG = logging.getLogger("fmpair")

ROLES = ("user", "item", *STANDARD)
ORDERS = ("rows", "per-user")  # rows in order of time, for data without times


@dataclass(frozen=True)
class Dataset:
    """Immutable events (user, item, context) over shared vocabularies.

    users, items: the ids. user, item: int32 [events], indices into them.
    columns: one row per event; any of rating, weight, timestamp, domain, session, event_type, and
    the context columns.
    user_table, item_table: one row per id of the vocabulary, null for missing values.
    impressions: user and item ids, optionally with times: items shown but not chosen, see
    `with_impressions`.
    gaps: whether a split removed events in between, so that histories are incomplete.
    order: None if the column `timestamp` has times. Otherwise the column has row numbers, which
    give the order of all events ('rows') or only of the events of each user ('per-user').
    id_columns: names of the user and item columns in the source.
    event_weights: weights by event type, already applied to `weight`; None if not used.
    refunds: whether refunds were left out, and the column of event types in the source.
    catalogue: all columns of the item table, learned from or not; the first column has the ids.
    """

    users: Vocabulary
    items: Vocabulary
    user: np.ndarray
    item: np.ndarray
    columns: pl.DataFrame
    context: tuple[str, ...] = ()
    user_table: pl.DataFrame = field(default_factory=pl.DataFrame)
    item_table: pl.DataFrame = field(default_factory=pl.DataFrame)
    frame_kind: str = "polars"
    impressions: pl.DataFrame = field(default_factory=pl.DataFrame)
    order: str | None = None
    gaps: bool = False
    id_columns: tuple[str, str] = ("user", "item")
    event_weights: EventWeights | None = None
    refunds: Refunds = DROPPED
    catalogue: pl.DataFrame = field(default_factory=pl.DataFrame)

    @classmethod
    @known_options_only
    def from_frame(
        cls,
        frame: Any,
        *,
        user: str | None = None,
        item: str | None = None,
        rating: str | None = None,
        weight: str | None = None,
        timestamp: str | None = None,
        domain: str | None = None,
        session: str | None = None,
        event_type: str | None = None,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        users: Any = None,
        items: Any = None,
        vectors: Any = None,
        item_columns: Sequence[str] = (),
        display: Sequence[str] = (),
        leaks: Sequence[str] = (),
        impressions: Any = None,
        order: str | None = None,
        event_weights: Mapping[str, float] | None = None,
        missing: str = "drop",
        refunds: str = "drop",
        merge_repeats: float | None = None,
    ) -> Dataset:
        """Build a Dataset from a polars, pandas or pyarrow frame of events.

        Columns that are not named are inferred from their names, types and contents.

        user, item, rating, weight, timestamp, domain, session, event_type: names of the columns
            with these roles; session and event_type are never context.
        context: context columns; by default inferred.
        ignore: columns to leave out.
        users, items: tables of attributes, with an id column of the same name.
        vectors: files of item vectors (.npy, .npz, .safetensors); each becomes an item column.
        item_columns: columns that describe the item, to learn from; those of the events move to
        the item table. display: columns of the item that are only used for rules and display. By
        default these are texts that differ from item to item, such as a title.
        leaks: columns to keep as context although they identify the item.
        impressions: a table of items that users were shown or disliked, see `with_impressions`.
        order: without times, 'rows' or 'per-user' declares that all rows, or the rows of each
        user, are in order of time.
        event_weights: a weight for each event type; event weights are multiplied by it.
        missing: rows without a user or item are left out and counted ('drop') or refused ('error');
        'drop-untimed' leaves out rows without a time too.
        refunds: events of types such as refund and return, and with a negative quantity, price or
        amount, are left out and counted ('drop') or taken as choices ('keep').
        merge_repeats: merge consecutive events of a user with the same item (view, cart, buy) into
        the first one, if each is within this many minutes of the last. The merged event has the
        strongest event type and the largest weight.
        """
        events = without(everything := to_polars(frame), ignore)
        columns = (user, item, rating, weight, timestamp, domain, session, event_type)
        given, table = dict(zip(ROLES, columns)), to_polars({} if items is None else items)
        decisions = decide(events, given, context, item_columns, leaks, display, table.columns)
        _log_notice(decisions.surprises if context is None else "")
        roles = decisions.roles
        events = with_ids(without_refunds(events, everything, roles, refunds), roles, missing)
        data = _with_order(cls._numbered(events, decisions, refunds), roles, order)
        data = _without_repeats(_weighted(data, roles, event_weights), merge_repeats)
        data = _with_user_table(data, users, events[roles["user"]], user)
        table = item_table(events, decisions, table, name_list(leaks), vectors)
        data = _with_item_table(data, decisions, table, item_columns, display)
        return replace(_with_impressions(data, impressions, given), frame_kind=kind_of(frame))

    @classmethod
    def _numbered(cls, events: pl.DataFrame, decisions: Decisions, refunds: str) -> Dataset:
        roles, context = decisions.roles, decisions.named(CONTEXT)
        check_events(events, roles, context)
        users = Vocabulary.of(events[roles["user"]])
        items = Vocabulary.of(events[roles["item"]])
        if "timestamp" in roles:
            events = events.with_columns(read_times(events[roles["timestamp"]]))
        standard = [pl.col(roles[role]).alias(role) for role in STANDARD if role in roles]
        clash = [name for name in context if name in STANDARD and name in roles]
        if clash:
            raise DataError(f"a context column must not be named {clash[0]!r}: rename it")
        return cls(
            users,
            items,
            users.numbers(events[roles["user"]]),
            items.numbers(events[roles["item"]]),
            events.select(*standard, *context),
            tuple(context),
            id_columns=(roles["user"], roles["item"]),
            refunds=Refunds(refunds, roles.get("event_type")),
        )

    @classmethod
    def from_csr(
        cls, matrix: Any, *, users: Sequence[Any] | None = None, items: Sequence[Any] | None = None
    ) -> Dataset:
        """Build a Dataset from a scipy sparse matrix [users, items]; its values become weights."""
        coo = matrix.tocoo()
        user_ids = pl.Series(np.arange(coo.shape[0]) if users is None else users)
        item_ids = pl.Series(np.arange(coo.shape[1]) if items is None else items)
        if (len(user_ids), len(item_ids)) != coo.shape:
            raise DataError(
                f"the matrix is {coo.shape[0]} x {coo.shape[1]}, but {len(user_ids)} user and "
                f"{len(item_ids)} item ids were given: rows are users, columns are items"
            )
        events = {
            "user": user_ids.gather(coo.row),
            "item": item_ids.gather(coo.col),
            "weight": np.asarray(coo.data, np.float64),
        }
        data = cls.from_frame(pl.DataFrame(events)).with_users({"user": user_ids})
        return data.with_items({"item": item_ids})

    if not TYPE_CHECKING:  # a type checker would accept any attribute name

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        context = f", context {', '.join(self.context)}" if self.context else ""
        shown = f", {len(self.impressions):,} impressions" if len(self.impressions) else ""
        return (
            f"Dataset({len(self):,} events, {len(self.users):,} users, "
            f"{len(self.items):,} items{context}{shown})"
        )

    def with_users(self, table: Any, key: str | None = None) -> Dataset:
        """Return the data with a table of user attributes; its new ids join the vocabulary."""
        vocabulary, attributes = aligned(self.users, to_polars(table), "user", key)
        return replace(self, users=vocabulary, user_table=attributes)

    def with_items(
        self,
        table: Any,
        key: str | None = None,
        *,
        learn: Sequence[str] = (),
        display: Sequence[str] = (),
    ) -> Dataset:
        """Return the data with a table of item attributes; its new ids join the catalogue.

        learn: columns to learn from. display: columns that are only used for rules and display; by
        default these are texts that differ from item to item.
        """
        vocabulary, attributes = aligned(self.items, to_polars(table), "item", key)
        check_no_leak(sorted(set(attributes.columns) & set(self.context)), attributes, ())
        if not attributes.width:
            return replace(self, items=vocabulary, item_table=attributes)
        requested = [name for name in name_list(display) if name in attributes.columns]
        free = [name for name in attributes.columns if name not in {*requested, *name_list(learn)}]
        why = {name: reason for name in free if (reason := why_display(attributes[name]))}
        if why:
            texts = "; ".join(f"{name!r} ({reason})" for name, reason in why.items())
            option = named("item_columns", list(why))
            line = f"kept for rules and display, not learned from: {texts}. To learn, give {option}"
            _log_notice(line)
        return replace(
            self,
            items=vocabulary,
            item_table=attributes.drop(*requested, *why),
            catalogue=vocabulary.ids.rename("").to_frame().hstack(attributes),
        )

    def with_impressions(
        self,
        table: Any,
        user: str | None = None,
        item: str | None = None,
        timestamp: str | None = None,
    ) -> Dataset:
        """Return the data with impressions: items that users were shown or disliked.

        Impressions are not events. Only FMPair(impression_share=...) uses them: it draws negatives
        from those that are not training events. Each part of a split keeps all of them.
        user, item, timestamp: the table's columns; by default inferred from their names.
        """
        roles = {"user": user, "item": item, "timestamp": timestamp}
        return replace(self, impressions=add_impressions(self, to_polars(table), roles))

    def with_event_weights(
        self, weights: Mapping[str, float], column: str = "event_type"
    ) -> Dataset:
        """Return the data with event weights multiplied by a weight for each event type.

        column: the name of the event type column in later events, to which the weights also apply.
        """
        if "event_type" not in self.columns.columns:
            raise DataError(
                f"{named('event_weights')} needs a column of event types: name it with "
                f"{named('event_type', ...)}"
            )
        weight = weights_by_type(self.columns["event_type"], weights)
        weight *= self.weight.astype(np.float64)
        stored = EventWeights(column, tuple((str(t), float(w)) for t, w in weights.items()))
        columns = self.columns.with_columns(weight.alias("weight"))
        return replace(self, columns=columns, event_weights=stored)

    def take(self, rows: np.ndarray) -> Dataset:
        """Return the events at these row numbers (or of this mask), with all vocabularies."""
        check_process()
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        columns = self.columns[rows] if self.columns.width else self.columns
        return replace(self, user=self.user[rows], item=self.item[rows], columns=columns)

    def column(self, name: str) -> np.ndarray | None:
        """Return a standard column as an array, None if the data have no such column."""
        return self.columns[name].to_numpy() if name in self.columns.columns else None

    @property
    def weight(self) -> np.ndarray:
        """float32 [events]; 1 where the data give no weight."""
        weight = self.column("weight")
        return np.ones(len(self), np.float32) if weight is None else weight.astype(np.float32)

    @cached_property
    def seen(self) -> Rows:
        """The distinct items of each user, sorted; values are the numbers of events."""
        return distinct_pairs(self.user, self.item, len(self.users))

    @property
    def all_item_columns(self) -> pl.DataFrame:
        """One row per item of `items`: the columns of the catalogue and of the item table."""
        if not self.catalogue.width:
            return plain_columns(self.item_table)
        ids, *columns = self.catalogue.get_columns()
        ordered = in_order(pl.DataFrame(columns), Vocabulary(ids).numbers(self.items.ids))
        others = [name for name in self.item_table.columns if name not in ordered.columns]
        return plain_columns(ordered.hstack(self.item_table.select(others)) if others else ordered)

    def frame(self) -> pl.DataFrame:
        """Return the events as a frame: user and item ids, then all other columns."""
        check_process()
        ids = pl.DataFrame({"user": self.users.take(self.user), "item": self.items.take(self.item)})
        return ids.hstack(self.columns) if self.columns.width else ids

    def compact(self) -> Dataset:
        """Return the data without the users and items that have no events."""
        check_process()
        user_numbers, user = np.unique(self.user, return_inverse=True)
        item_numbers, item = np.unique(self.item, return_inverse=True)
        return replace(
            self,
            users=Vocabulary(self.users.take(user_numbers)),
            items=Vocabulary(self.items.take(item_numbers)),
            user=user.astype(np.int32),
            item=item.astype(np.int32),
            user_table=self.user_table[user_numbers] if self.user_table.width else self.user_table,
            item_table=self.item_table[item_numbers] if self.item_table.width else self.item_table,
        )


def _log_notice(line: str) -> None:
    if line:
        LOG.warning("%s", Notice(line))  # the log handler spells option names


class Columns(NamedTuple):
    """Names of the context columns and of the item attributes."""

    context: Sequence[str]
    item: Sequence[str] = ()


def columns_of(data: Dataset) -> Columns:
    """Return the names of the context columns and of the item attributes."""
    return Columns(data.context, data.item_table.columns)


def as_dataset(data: Any, like: Columns | None = None, **options: Any) -> Dataset:
    """Return a Dataset, a sparse matrix or a frame as a Dataset.

    like: columns of earlier data, which determine the roles of the frame's columns, since a few new
    events do not suffice to infer them. options: of `Dataset.from_frame`, for a frame.
    """
    check_process()
    if isinstance(data, Dataset):
        return data
    if hasattr(data, "tocoo"):
        return Dataset.from_csr(data)
    if like is not None:
        events = to_polars(data)
        context, item = (
            [name for name in names if name in events.columns]
            for names in (like.context, like.item)
        )
        options = decide(events, {}, None, item, context).options
        options["item_columns"] = item  # the earlier data have no other attributes
        return replace(Dataset.from_frame(events, **options), frame_kind=kind_of(data))
    try:
        return Dataset.from_frame(data, **options)
    except DataError as error:
        if not error.names_options:
            raise
        raise DataError(f"{error.args[0]} (an option of Dataset.from_frame)") from error


def _with_order(data: Dataset, roles: dict[str, str], order: str | None) -> Dataset:
    """Return the data with row numbers instead of times, if `order` is given."""
    if order is None:
        return data
    one_of("order", order, ORDERS)
    if "timestamp" in roles:
        raise DataError(
            f"{named('order', order)} is for data without times, but column "
            f"{roles['timestamp']!r} has times: leave out one of the two ({named('ignore', ...)})"
        )
    if "timestamp" in data.context:
        raise DataError("a context column must not be named 'timestamp': rename it")
    rows = pl.Series("timestamp", np.arange(len(data)))
    columns = data.columns.with_columns(rows) if data.columns.width else rows.to_frame()
    return replace(data, columns=columns, order=order)


def _weighted(data: Dataset, roles: dict[str, str], weights: Mapping[str, float] | None) -> Dataset:
    column = roles.get("event_type", "event_type")
    return data if weights is None else data.with_event_weights(weights, column)


def _without_repeats(data: Dataset, minutes: float | None) -> Dataset:
    """Return the data with each run of repeats merged into its first event."""
    if minutes is None:
        return data
    moment = moments(data) if is_calendar(data) else None
    if moment is None:
        raise DataError(
            f"{named('merge_repeats')} needs times with dates: name their column with "
            f"{named('timestamp', ...)}"
        )
    first = first_of_run(data.user, data.item, moment, minutes)
    rows = np.unique(first)
    columns = merged(data.columns, first)
    return replace(data, user=data.user[rows], item=data.item[rows], columns=columns)


def _with_impressions(data: Dataset, impressions: Any, columns: dict[str, str | None]) -> Dataset:
    """Return the data with the table of impressions, if one is given; columns: by role."""
    if impressions is None:
        return data
    return data.with_impressions(impressions, *(columns[r] for r in ("user", "item", "timestamp")))


def _with_user_table(data: Dataset, users: Any, of_events: pl.Series, key: str | None) -> Dataset:
    """Return the data with the table of users, if one is given."""
    if users is None:
        return data
    table = to_polars(users)
    check_known(table, of_events, "user", key)
    return data.with_users(table, key=key)


def _with_item_table(
    data: Dataset, decisions: Decisions, table: Any, learn: Any, display: Any
) -> Dataset:
    """Return the data with the item table, unless it is empty."""
    shown = [*name_list(display), *decisions.named(DISPLAY)]
    key = decisions.roles["item"]
    return data.with_items(table, key, learn=learn, display=shown) if table.width else data
