"""The catalogue of models in service: item changes without a new model, and searches for ids."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from fmpair.data.frame import to_polars
from fmpair.data.vocabulary import Vocabulary, comparable
from fmpair.errors import DataError, UnknownError, listing
from fmpair.events.event import ITEM, REMOVED, ItemChange
from fmpair.events.store import EventStore, pages
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.id_lookup import unknown_id
from fmpair.fitted.query_encoder import GUESSED_LIVE
from fmpair.fitted.question import name_of
from fmpair.fitted.recommender import Recommender
from fmpair.serve.item_values import ILL_TYPED, Column, normal_changes, typed
from fmpair.serve.requests import IdList
from fmpair.training.growth import with_items

LOG = logging.getLogger("fmpair")

TITLE = re.compile(r"(^|_)(title|headline)$|^(item_|product_|article_)?name$")


@dataclass(frozen=True)
class Fitting:
    """Changes of items in the types of a model.

    table: (item, columns); a null leaves the value as it is. erased: by column, the items whose
    value is erased.
    """

    table: pl.DataFrame
    erased: Mapping[str, pl.Series] = field(default_factory=dict)


@dataclass(frozen=True)
class Changes:
    """Changes of items as they are stored. position: of the last change."""

    rows: Sequence[ItemChange] = ()
    position: int = 0

    @classmethod
    def of(cls, rows: Sequence[ItemChange]) -> Changes:
        """Return changes up to the last of their positions."""
        return cls(rows, max((change.position for change in rows), default=0))

    @classmethod
    def stored(cls, store: EventStore | None, after: int = 0) -> Changes:
        """Return the changes of a store after the one at this position."""
        read: Iterable[list[ItemChange]] = () if store is None else pages(store.items, after)
        changes = [change for page in read for change in page]
        return cls.of(changes) if changes else cls(position=after)

    def fitting(self, model: Any) -> Fitting:
        """Return the changes whose ids and values fit the model; log the others."""
        if not self.rows:
            return Fitting(pl.DataFrame({ITEM: []}))
        table, erased, wrong = typed(self.rows, columns_of(model))
        ids = table[ITEM].cast(model.space.items.ids.dtype, strict=False)
        gone = {name: ids[rows].drop_nulls().unique() for name, rows in erased.items()}
        if ids.null_count():
            wrong = ["some ids", *wrong]
        table = table.with_columns(ids).filter(ids.is_not_null())
        table = table.unique(ITEM, keep="last", maintain_order=True)
        for name in _unfit(model, table):
            wrong.append(name)
            table = table.drop(name)
            gone.pop(name, None)
        if wrong:
            shown = listing(wrong)
            LOG.warning("changes of items do not fit the model and are ignored: %s", shown)
        return Fitting(table, gone)


def _unfit(model: Any, table: pl.DataFrame) -> list[str]:
    """Return the columns whose type does not fit the model."""
    wrong = []
    try:
        check_types(model, table)
    except DataError:  # a model file may be replaced by one of other types
        for name in table.columns[1:]:
            try:
                check_types(model, table.select(ITEM, name))
            except DataError:
                wrong.append(name)
    return wrong


def columns_of(model: Any) -> dict[str, Column]:
    """Return what the columns of a model's items hold, those of the live catalogue included."""
    tables = [model.space.catalogue, catalogue_of(model).table]
    schemas = [table.schema.items() for table in tables]
    known = {name: Column(dtype) for types in schemas for name, dtype in types if dtype != pl.Null}
    for encoder in model.space.item.encoders if ranks_new_items(model) else ():
        if encoder.is_vector and encoder.source in known:
            column = known[encoder.source]
            known[encoder.source] = Column(column.dtype, encoder.size, encoder.field.separator)
    return known | {REMOVED: Column(pl.Boolean())}


def accepted(models: Sequence[Any], changes: Sequence[ItemChange]) -> list[ItemChange]:
    """Return changes in the form in which they are stored; raise DataError if a model lacks it."""
    for model in models:
        _check_ids(model.space.items.ids.dtype, changes)
    columns = [columns_of(model) for model in models]
    changes = normal_changes(changes, columns)
    for model, known in zip(models, columns):
        check_types(model, typed(changes, known).table)
    return changes


def _check_ids(dtype: pl.DataType, changes: Sequence[ItemChange]) -> None:
    """Raise a DataError for an id of another type than the items of a model have."""
    plain = str if dtype == pl.String else int if dtype.is_integer() else float
    if {type(change.item) for change in changes} <= {plain}:
        return
    for change in changes:
        fitting = comparable(pl.Series([change.item]), dtype)
        if fitting is None or fitting.null_count():
            kind = "text" if dtype == pl.String else "numbers" if dtype.is_numeric() else "times"
            raise DataError(f"item {change.item!r}: the ids of the model's items are {kind}")


def check_types(model: Any, table: pl.DataFrame) -> None:
    """Raise a DataError for ids and values of another type than the model knows."""
    known = catalogue_of(model)
    if known.key != ITEM and known.key in table.columns:
        raise DataError(f"column {known.key!r} has item ids: send them as {ITEM!r}")
    # one row is enough: only types are compared
    part = Catalogue(Vocabulary(known.items.ids.head(1)), known.table.head(1), known.key)
    part.changed(table.rename({ITEM: known.key}))
    if not ranks_new_items(model):
        return
    try:
        model.space.item.encode("item", table, len(table), model.space.whole)
    except ILL_TYPED as error:
        raise DataError(f"the columns of the items do not fit the model: {error}") from error


def new_columns(model: Any, changes: Sequence[ItemChange]) -> list[str]:
    """Return the columns of changes that are not in the model's catalogue; [] without one."""
    known = [] if model.catalogue is None else model.catalogue.columns
    names = dict.fromkeys(name for change in changes for name in change.columns)
    return [name for name in names if known and name not in (ITEM, REMOVED, *known)]


def ranks_new_items(model: Any) -> bool:
    """Return whether a model has learned attributes of items, by which it ranks new ones."""
    return isinstance(model, Recommender) and bool(model.space.item.encoders)


def catalogue_of(model: Any) -> Catalogue:
    """Return the catalogue of a model, without columns if it has none."""
    if model.catalogue is not None:
        return model.catalogue
    return Catalogue(model.space.items, model.space.catalogue, name_of(model.space, ITEM))


def title_column(model: Any) -> str | None:
    """Return the column with titles of items, None if there is none."""
    catalogue = model.catalogue
    if catalogue is None:
        return None
    named = (name for name in catalogue.columns if TITLE.search(name.lower()))
    return next((name for name in named if catalogue.table[name].dtype == pl.String), None)


def catalogue_values(
    model: Any, items: Sequence[Any], names: Sequence[str]
) -> list[dict[str, Any] | None]:
    """Return the values of these catalogue columns for items of the model, without nulls.

    None for each item if the catalogue has none of the columns.
    """
    catalogue = model.catalogue
    columns = () if catalogue is None else catalogue.columns
    known = [name for name in dict.fromkeys(names) if name in columns]
    if not known or not items:
        return [None] * len(items)
    rows = catalogue.table.select(known)[model.id_lookup.items.numbers(items)].rows(named=True)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def with_new_items(model: Any, changes: Fitting) -> Any:
    """Return the model with new items and other attributes, if it has learned attributes.

    changes: those that fit the model.
    """
    if not len(changes.table) or not ranks_new_items(model):
        return model
    learned = {encoder.source for encoder in model.space.item.encoders}
    columns = changes.table.select(name for name in changes.table.columns[1:] if name in learned)
    erased = {name: items for name, items in changes.erased.items() if name in learned}
    return with_items(model, changes.table[ITEM], columns, erased)


def note_changes(model: Any, changes: Fitting) -> None:
    """Apply changes to the catalogue of a model in service; hide items marked as removed.

    changes: those that fit the model.
    """
    if not len(changes.table):
        return
    catalogue = catalogue_of(model)
    catalogue = catalogue.changed(changes.table.rename({ITEM: catalogue.key}))
    for name, items in changes.erased.items():
        if name not in catalogue.columns:
            continue
        nothing = pl.Series(name, [None] * len(items), catalogue.table.schema[name])
        gone = items.rename(catalogue.key).to_frame().with_columns(nothing)
        catalogue = catalogue.changed(gone, clear=True)
    hidden = np.zeros(0, np.int32)
    if REMOVED in catalogue.columns:
        flags = catalogue.table[REMOVED].head(len(model.space.items)).cast(pl.Boolean, strict=False)
        hidden = np.flatnonzero(flags.fill_null(False).to_numpy()).astype(np.int32)
    model.live.catalogue, model.live.removed = catalogue, hidden


# Searches for ids, which leave out removed items.


def _removed(model: Any) -> np.ndarray:
    """Return the numbers of the items that are in no answer."""
    return np.zeros(0, np.int32) if model.live is None else model.live.removed


def absent(model: Any, item: Any) -> UnknownError:
    """Return the error for an item that is unknown or removed, and so in no answer."""
    if model.space.items.number(item) < 0:
        return unknown_id(ITEM, item, model.space.items.ids, GUESSED_LIVE)
    return UnknownError(f"item {item!r} is removed: PUT /v1/items with removed: false restores it")


def similar_items(model: Any, item: Any, n: int) -> pl.DataFrame:
    """Return the n most similar items that are not removed: a frame (item, similarity, rank).

    Raise UnknownError for an item that is itself unknown or removed.
    """
    hidden = _removed(model)
    number = model.space.items.number(item)
    if number < 0 or number in hidden:
        raise absent(model, item)
    frame = to_polars(model.similar_items(item, n + len(hidden)))
    if not len(hidden):
        return frame
    ids = model.space.items.take(hidden)
    frame = frame.filter(~frame.to_series(0).is_in(ids.implode())).head(n)
    return frame.with_columns(rank=pl.int_range(1, len(frame) + 1))


def ids_with_prefix(known: Vocabulary, prefix: str, n: int) -> IdList:
    """Return the ids that start with a prefix, in the order of the model."""
    ids = known.ids
    if prefix:
        ids = ids.filter(_begins(ids, prefix))
    return IdList(ids.head(n).to_list(), len(ids))


def items_with_prefix(model: Any, prefix: str, n: int) -> IdList:
    """Return the items whose id starts with a prefix, or whose title contains it."""
    ids, title = model.space.items.ids, title_column(model)
    titles = None if title is None else model.catalogue.table[title].head(len(ids))
    wanted = pl.Series(np.ones(len(ids), bool))
    if prefix:
        wanted = _begins(ids, prefix)
        if titles is not None:
            lower = titles.str.to_lowercase()
            wanted = wanted | lower.str.contains(prefix.lower(), literal=True).fill_null(False)
    wanted = wanted & ~pl.Series(np.isin(np.arange(len(ids)), _removed(model)))
    shown = None if titles is None else titles.filter(wanted).head(n).to_list()
    return IdList(ids.filter(wanted).head(n).to_list(), int(wanted.sum()), shown)


def _begins(ids: pl.Series, prefix: str) -> pl.Series:
    return ids.cast(pl.String).str.to_lowercase().str.starts_with(prefix.lower())
