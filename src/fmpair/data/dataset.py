"""Interactions with numbered ids, their context, and tables of users and items."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, distinct_pairs
from fmpair.checks import one_of
from fmpair.data.columns.inference import ATTRIBUTE, CONTEXT, Decisions, decide, without
from fmpair.data.columns.roles import (
    STANDARD,
    check_events,
    check_no_leak,
    check_types,
    find_column,
    with_ids,
)
from fmpair.data.event_types import EventWeights, add_impressions, kind_weights
from fmpair.data.frame import kind_of, to_polars
from fmpair.data.times import read_times
from fmpair.data.vocabulary import Vocabulary, as_plain, comparable
from fmpair.errors import DataError, Notice, listing, named
from fmpair.option_names import known_options_only, no_attribute
from fmpair.threads import check_process

# Attribute tables, keyed by id and aligned with a vocabulary.


def align_table(
    vocabulary: Vocabulary, table: pl.DataFrame, role: str, key: str | None = None
) -> tuple[Vocabulary, pl.DataFrame]:
    """The vocabulary with the table's new ids, and the attributes in its order: [ids, columns]."""
    check_types(table)
    ids = ids_of(table, vocabulary.ids.dtype, role, key)
    column = ids.name
    if ids.null_count():
        count = ids.null_count()
        how_many = f"{count:,} rows" if count > 1 else "a row"
        raise DataError(f"the {role} table has {how_many} without an id in {column!r}")
    if ids.n_unique() < len(ids):
        twice = ids.filter(ids.is_duplicated())[0]
        raise DataError(
            f"the {role} table has more than one row for {column} {twice!r}: give "
            "one, with a list where there are several values"
        )
    grown = vocabulary.extend(ids)
    rows = Vocabulary(ids).numbers(grown.ids)
    attributes = table.drop(column)
    if not attributes.width:
        return grown, pl.DataFrame()
    picked = pl.Series("row", rows).cast(pl.Int64).replace({-1: None})
    return grown, attributes.select(pl.all().gather(picked))


def ids_of(table: pl.DataFrame, dtype: pl.DataType, role: str, key: str | None = None) -> pl.Series:
    """The ids of a table in the type of those of the events; its name is that of the column."""
    column = key if key in table.columns else find_column(role, table.columns, None)
    if column is None:
        raise DataError(
            f"the {role} table has no id column: none of {listing(table.columns)} is named "
            f"like {role}; rename it to {role!r}"
        )
    ids = comparable(as_plain(table[column]), dtype)
    if ids is None:
        raise DataError(
            f"{column!r} of the {role} table holds {table[column].dtype}, but the {role} ids "
            f"of the events are {dtype}: give both the same type"
        )
    return ids


# Columns of the events that describe the item, moved to the table of items.


def item_table(
    events: pl.DataFrame, found: Decisions, items: Any, leaks: Sequence[str]
) -> pl.DataFrame | None:
    """The item table with columns of the events added: each item's most frequent value."""
    key, moved = found.roles["item"], found.named(ATTRIBUTE)
    table = None if items is None else to_polars(items)
    if table is not None:
        check_no_leak(found.named(CONTEXT), table, leaks)
    if not moved:
        return table
    own = events.group_by(key, maintain_order=True).agg(_usual(events[name]) for name in moved)
    own = own.with_columns(as_plain(own[key]))
    if table is None:
        return own
    ids = ids_of(table, own[key].dtype, "item", key)
    table = table.with_columns(ids).rename({ids.name: key})
    return own.join(table, on=key, how="full", coalesce=True)


def _usual(values: pl.Series) -> pl.Expr:
    """The most frequent value of a group, the least of several such; of lists the first."""
    known = pl.col(values.name).drop_nulls()
    if values.dtype.is_nested():
        return known.first()
    return known.mode().sort().first()


LOG = logging.getLogger("fmpair")

ROLES = ("user", "item", *STANDARD)
ORDERS = ("rows", "per-user")  # what the order of rows may say where there are no times


@dataclass(frozen=True)
class Dataset:
    """Immutable events (user, item, context) over shared vocabularies.

    user, item: int32 [events], indices into `users` and `items`.
    columns: one row per event; any of rating, weight, timestamp, domain, session, event_type, and
    the context columns.
    user_table, item_table: one row per id of the vocabulary, null where nothing is known.
    impressions: ids of users and items, and maybe times: items shown and not chosen, see
    `with_impressions`.
    gaps: whether events were set aside from among these, so that what came before one of them is
    not all known.
    order: None where `timestamp` holds times. Else it holds numbers of rows: their order is that of
    time, among all events ('rows'), or among those of one user only ('per-user').
    id_columns: what the columns of users and items were called where the events come from.
    event_weights: those by kind of event, which `weight` has; None where kinds have none.
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
        item_columns: Sequence[str] = (),
        leaks: Sequence[str] = (),
        impressions: Any = None,
        order: str | None = None,
        event_weights: Mapping[str, float] | None = None,
        missing: str = "drop",
    ) -> Dataset:
        """Events from a polars, pandas or pyarrow frame; what each column is, `decide` tells.

        session, event_type: columns of sessions and of kinds of events (view, buy), never context.
        users, items: tables of attributes, keyed by the same id columns.
        item_columns: event columns that describe the item: they move to the item table.
        leaks: such columns kept as context all the same (the legacy protocol of the paper).
        impressions: a table of items shown to users or disliked by them, see `with_impressions`.
        order: where no column has times, 'rows' (or 'per-user': each user's) are in order of time.
        missing: rows without a user or item are left out and counted (drop) or refused (error).
        event_weights: by kind of event how much it counts; weights of the events are multiplied.
        """
        events = without(to_polars(frame), ignore)
        given = (user, item, rating, weight, timestamp, domain, session, event_type)
        found = decide(events, dict(zip(ROLES, given)), context, item_columns, leaks)
        _log("" if context is not None else found.surprises)
        roles, names = found.roles, found.named(CONTEXT)
        events = with_ids(events, roles, missing)
        check_events(events, roles, names)
        data = _ordered(cls._numbered(events, roles, names), roles, order)
        data = replace(_weighted(data, roles, event_weights), frame_kind=kind_of(frame))
        if users is not None:
            data = data.with_users(users, key=user)
        table = item_table(events, found, items, leaks)
        if table is not None:
            data = data.with_items(table, key=roles["item"])
        if impressions is not None:
            data = data.with_impressions(impressions, user, item, timestamp)
        return data

    @classmethod
    def _numbered(
        cls, events: pl.DataFrame, roles: dict[str, str], context: Sequence[str]
    ) -> Dataset:
        users = Vocabulary.of(events[roles["user"]])
        items = Vocabulary.of(events[roles["item"]])
        if "timestamp" in roles:
            events = events.with_columns(read_times(events[roles["timestamp"]]))
        kept = [pl.col(roles[r]).alias(r) for r in STANDARD if r in roles]
        clash = [name for name in context if name in STANDARD and name in roles]
        if clash:
            raise DataError(f"a context column may not be named {clash[0]!r}: rename it")
        return cls(
            users,
            items,
            users.numbers(events[roles["user"]]),
            items.numbers(events[roles["item"]]),
            events.select(*kept, *context),
            tuple(context),
            id_columns=(roles["user"], roles["item"]),
        )

    @classmethod
    def from_csr(
        cls, matrix: Any, *, users: Sequence[Any] | None = None, items: Sequence[Any] | None = None
    ) -> Dataset:
        """Events from a scipy sparse matrix [users, items]; its values become weights."""
        coo = matrix.tocoo()
        user_ids = pl.Series(np.arange(coo.shape[0]) if users is None else users)
        item_ids = pl.Series(np.arange(coo.shape[1]) if items is None else items)
        if (len(user_ids), len(item_ids)) != coo.shape:
            raise DataError(
                f"the matrix is {coo.shape[0]} x {coo.shape[1]}, but {len(user_ids)} user and "
                f"{len(item_ids)} item ids were given: rows are users, columns are items"
            )
        frame = pl.DataFrame(
            {
                "user": user_ids.gather(coo.row),
                "item": item_ids.gather(coo.col),
                "weight": np.asarray(coo.data, np.float64),
            }
        )
        data = cls.from_frame(frame)
        return data.with_users(pl.DataFrame({"user": user_ids})).with_items(
            pl.DataFrame({"item": item_ids})
        )

    if not TYPE_CHECKING:  # which would take any name for an attribute

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
        """With attributes of users; ids only the table knows join the vocabulary."""
        vocabulary, aligned = align_table(self.users, to_polars(table), "user", key)
        return replace(self, users=vocabulary, user_table=aligned)

    def with_items(self, table: Any, key: str | None = None) -> Dataset:
        """With attributes of items; ids only the table knows join the catalogue."""
        vocabulary, aligned = align_table(self.items, to_polars(table), "item", key)
        shared = sorted(set(aligned.columns) & set(self.context))
        if shared:
            check_no_leak(shared, aligned, ())
        return replace(self, items=vocabulary, item_table=aligned)

    def with_impressions(
        self,
        table: Any,
        user: str | None = None,
        item: str | None = None,
        timestamp: str | None = None,
    ) -> Dataset:
        """With impressions: pairs of users and items that they were shown or disliked.

        They are no events: only FMPair(impression_share=...) uses them, which draws negatives from
        them, except those that are training events. Parts of a split keep them all.
        user, item, timestamp: the table's columns; inferred from their names unless given.
        """
        named = {"user": user, "item": item, "timestamp": timestamp}
        return replace(self, impressions=add_impressions(self, to_polars(table), named))

    def take(self, rows: np.ndarray) -> Dataset:
        """The given events, over the same vocabularies and tables."""
        check_process()
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        columns = self.columns[rows] if self.columns.width else self.columns
        return replace(self, user=self.user[rows], item=self.item[rows], columns=columns)

    def column(self, name: str) -> np.ndarray | None:
        """A standard column as numbers, None where the data have none."""
        return self.columns[name].to_numpy() if name in self.columns.columns else None

    @property
    def weight(self) -> np.ndarray:
        """float32 [events]; 1 where the data give no weight."""
        found = self.column("weight")
        return np.ones(len(self), np.float32) if found is None else found.astype(np.float32)

    @cached_property
    def seen(self) -> Rows:
        """Per user the distinct items, sorted; values are how often each occurs."""
        return distinct_pairs(self.user, self.item, len(self.users))

    def frame(self) -> pl.DataFrame:
        """The events with their own ids: user, item, and all further columns."""
        check_process()
        ids = pl.DataFrame({"user": self.users.take(self.user), "item": self.items.take(self.item)})
        return ids.hstack(self.columns) if self.columns.width else ids

    def compact(self) -> Dataset:
        """Without the users and items that have no event."""
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


def as_dataset(data: Any, like: Columns | None = None, **options: Any) -> Dataset:
    """A Dataset as it is; a sparse matrix; a frame by the default rules, or by these options.

    like: the columns of the data that came before, which the frame's contents do not change:
    those of a few events may look like anything.
    """
    check_process()
    if isinstance(data, Dataset):
        return data
    if hasattr(data, "tocoo"):
        return Dataset.from_csr(data)
    if like is not None:
        return _alike(to_polars(data), data, like)
    try:
        return Dataset.from_frame(data, **options)
    except DataError as error:
        if not error.names_options:
            raise
        raise DataError(f"{error.args[0]} (in Dataset.from_frame, which takes it)") from error


def _log(text: str) -> None:
    if text:
        LOG.warning("%s", Notice(text))  # spelled by whoever shows the log


class Columns(NamedTuple):
    """Names of columns: context, and attributes of items."""

    context: Sequence[str]
    item: Sequence[str] = ()


def _weighted(data: Dataset, roles: dict[str, str], weights: Mapping[str, float] | None) -> Dataset:
    """With weights by kind of event."""
    if weights is None:
        return data
    if "event_type" not in data.columns.columns:
        raise DataError(
            f"{named('event_weights')} go with kinds of events, and no column tells them: name it "
            f"with {named('event_type', ...)}"
        )
    weight = kind_weights(data.columns["event_type"], weights) * data.weight.astype(np.float64)
    kept = EventWeights(roles["event_type"], tuple((str(k), float(w)) for k, w in weights.items()))
    columns = data.columns.with_columns(weight.alias("weight"))
    return replace(data, columns=columns, event_weights=kept)


def _ordered(data: Dataset, roles: dict[str, str], order: str | None) -> Dataset:
    """With the order of rows in place of times, where it is said to be that of time."""
    if order is None:
        return data
    one_of("order", order, ORDERS)
    if "timestamp" in roles:
        raise DataError(
            f"column {roles['timestamp']!r} has times, and {named('order', order)} says that rows "
            f"are in order of time: leave one of the two out ({named('ignore', ...)})"
        )
    if "timestamp" in data.context:
        raise DataError("a context column may not be named 'timestamp': rename it")
    rows = pl.Series("timestamp", np.arange(len(data)))
    columns = data.columns.with_columns(rows) if data.columns.width else rows.to_frame()
    return replace(data, columns=columns, order=order)


def columns_of(data: Dataset) -> Columns:
    """The names of the context columns and of the attributes of items."""
    return Columns(data.context, data.item_table.columns)


def _alike(events: pl.DataFrame, frame: Any, like: Columns) -> Dataset:
    context, item = (
        [name for name in names if name in events.columns] for names in (like.context, like.item)
    )
    found = decide(events, {}, None, item, context)
    options = {**found.options, "item_columns": item}  # others are unknown to what came before
    return replace(Dataset.from_frame(events, **options), frame_kind=kind_of(frame))
