"""Growing a fitted model: its arrays extended by new ids and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, empty_rows, group_rows, ordered_rows, stack_rows
from fmpair.data import Dataset
from fmpair.data.item_columns import changed
from fmpair.data.vocabulary import Vocabulary
from fmpair.engine.contract import Parameters
from fmpair.features import FeatureSpace, Side
from fmpair.features.encoder import sum_to_one
from fmpair.fitted.history import Recent, stacked
from fmpair.fitted.item_arrays import triples_of
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.visitor import place_new, rare_bias
from fmpair.training.options import FMPairOptions
from fmpair.training.start import initial

NO_ITEMS = np.zeros(0, np.int64)


class Grown(NamedTuple):
    """A model's arrays over an extended space."""

    parameters: Parameters
    user_rows: Rows
    item_rows: Rows
    seen: Rows
    recent: Recent | None


def extend_arrays(
    model: Recommender, options: FMPairOptions, space: FeatureSpace, data: Dataset
) -> Grown:
    """Extend a model's arrays to the space; new ids start as in a fit from scratch.

    data: the new events, numbered by the space.
    """
    query_at = _moved(model.space.query, space.query)
    item_at = _moved(model.space.item, space.item)
    users, items = len(space.users), len(space.items)
    user_rows = renewed(
        _with_columns(model.user_rows, query_at), space.user_rows(data.user_table, users),
        space.query.field_numbers(), space.whole,
    )  # fmt: skip
    item_rows = renewed(
        _with_columns(model.item_rows, item_at), space.item_rows(data.item_table, items),
        space.item.field_numbers(), space.whole,
    )  # fmt: skip
    first, old = initial(options, space), model.parameters
    first.users[: len(old.users)], first.items[: len(old.items)] = old.users, old.items
    first.item_bias[: len(old.items)] = old.item_bias
    first.query[query_at], first.features[item_at] = old.query, old.features
    first.feature_bias[item_at] = old.feature_bias
    recent = model.recent
    if recent is not None and recent.users < users:
        recent = recent.take(np.append(np.arange(recent.users), np.full(users - recent.users, -1)))
    return Grown(first, user_rows, item_rows, _seen(model, data), recent)


def with_items(
    model: Recommender,
    ids: pl.Series,
    attributes: pl.DataFrame,
    erased: Mapping[str, pl.Series] = MappingProxyType({}),
) -> Recommender:
    """Return the model with new items and changed attributes of known items, without training.

    ids: distinct; attributes: one row per id, where a null or a missing column changes nothing;
    erased: by attribute, those of the ids that no longer have it. A new item is ranked by its
    attributes and by the bias of rare items. Values that training did not see have no effect. New
    events that a model in service has received are kept.
    """
    old = model.space
    items, catalogue, numbers = changed(old.items, old.catalogue, ids, attributes)
    gone = {name: items.numbers(lost) for name, lost in erased.items()}
    for name, lost in erased.items() if catalogue.width else ():
        nothing = pl.DataFrame({name: [None] * len(lost)}, {name: catalogue.schema[name]})
        _, catalogue, _ = changed(items, catalogue, lost, nothing, clear=True)
    space = replace(old, items=items, catalogue=catalogue)
    new_rows = space.item_rows(_aligned(attributes, numbers, len(items)), len(items))
    known_rows = _without(model.item_rows, old, gone)
    rows = renewed(known_rows, new_rows, old.item.field_numbers(), old.whole)
    if items is old.items and all(map(np.array_equal, rows, model.item_rows)):
        return model
    user_rows = model.user_rows
    if items is not old.items:
        space = space.with_history(old.history)
        user_rows = _with_columns(user_rows, _moved(old.query, space.query))
    grown = _with_item_tables(model, space, rows, np.concatenate([NO_ITEMS, *gone.values()]))
    live = model.live
    if live is not None:  # events of new items must not reach who still asks the old model
        live = replace(live, seen=dict(live.seen), recent=dict(live.recent))
    return model.replaced(
        space=space,
        parameters=grown,
        item_rows=rows,
        user_rows=user_rows,
        live=live,
        id_lookup=model.id_lookup.of_space(space),
        item_side=model.item_side.changed(space, grown, rows, numbers),
    )


def _without(rows: Rows, space: FeatureSpace, erased: Mapping[str, np.ndarray]) -> Rows:
    """Return the attributes of items without the erased ones; erased: items by attribute."""
    if not erased:
        return rows
    numbers = np.unique(np.concatenate(list(erased.values())))
    numbers = numbers[numbers < rows.size]
    part = rows.take(numbers)
    field, kept = space.item.field_numbers()[part.column], np.ones(len(part.column), bool)
    for name, lost in erased.items():
        fields = [place for place, e in enumerate(space.item.encoders) if e.source == name]
        kept &= ~(np.isin(numbers[part.owner], lost) & np.isin(field, fields))
    left = ordered_rows(part.owner[kept], part.column[kept], part.value[kept], part.size)
    return _with_rows(rows, numbers, sum_to_one(left) if space.whole else left)


def _with_item_tables(
    model: Recommender, space: FeatureSpace, rows: Rows, erased: np.ndarray
) -> Parameters:
    """Return the tables of a model extended to the items of a space, whose attributes are `rows`.

    They are those of the model, not copies, where nothing changes. erased: items that lost
    attributes; those without events start anew.
    """
    parameters, new = model.parameters, len(space.items) - len(model.space.items)
    places_new = isinstance(model.recipe, FMPairOptions) and model.recipe.places_new
    content = space.item.content(rows) if places_new else empty_rows(rows.size)
    times = np.pad(model.item_counts, (0, new))
    anew = erased[times[erased] == 0] if places_new else NO_ITEMS
    if not new and not len(content.column) and not len(anew):
        return parameters
    bias = rare_bias(parameters.item_bias, model.item_counts)
    query = np.zeros((space.query.size, parameters.query.shape[1]), np.float32)
    query[_moved(model.space.query, space.query)] = parameters.query
    grown = parameters._replace(
        items=np.pad(parameters.items, ((0, new), (0, 0))),
        item_bias=np.pad(parameters.item_bias, (0, new), constant_values=np.float32(bias)),
        query=query,
    )
    grown.items[anew], grown.item_bias[anew] = 0, bias
    return place_new(grown, rows, content, times, triples_of(space)) if places_new else grown


def renumbered(data: Dataset, space: FeatureSpace) -> Dataset:
    """Renumber events and tables by the space's vocabularies."""
    user_numbers = space.users.numbers(data.users.ids)
    item_numbers = space.items.numbers(data.items.ids)
    return replace(
        data,
        users=space.users,
        items=space.items,
        user=user_numbers[data.user],
        item=item_numbers[data.item],
        user_table=_aligned(data.user_table, user_numbers, len(space.users)),
        item_table=_aligned(data.item_table, item_numbers, len(space.items)),
    )


def part(model: Recommender, number: np.ndarray) -> Recommender:
    """Return the model with only these users, in ascending order."""
    users = model.space.users
    if len(number) == len(users):
        return model
    return model.replaced(
        space=replace(model.space, users=Vocabulary(users.take(number))),
        parameters=model.parameters._replace(users=model.parameters.users[number]),
        user_rows=model.user_rows.take(number),
        seen=model.seen.take(number),
        recent=None if model.recent is None else model.recent.take(number),
    )


def put_back(model: Recommender, data: Dataset, learned: Recommender) -> Recommender:
    """Return the whole model with the users of the data as in `learned`, a part of the model."""
    users = model.space.users.extend(data.users.ids)
    number, row = (ids.numbers(data.users.ids) for ids in (users, learned.space.users))
    old = model.parameters.users
    table = np.empty((len(users), old.shape[1]), old.dtype)
    table[: len(old)] = old
    table[number] = learned.parameters.users[row]
    profiles = model.user_rows
    if learned.space.query.size > model.space.query.size:
        profiles = _with_columns(profiles, _moved(model.space.query, learned.space.query))
    return learned.replaced(
        space=replace(learned.space, users=users),
        parameters=learned.parameters._replace(users=table),
        user_rows=_with_rows(profiles, number, learned.user_rows.take(row)),
        seen=_with_rows(model.seen, number, learned.seen.take(row)),
        recent=_with_recent(model.recent, len(users), number, learned.recent, row),
    )


def _with_recent(
    old: Recent | None, users: int, number: np.ndarray, new: Recent | None, new_row: np.ndarray
) -> Recent | None:
    """Replace the latest events of the users with these numbers by rows of `new`."""
    if old is None or new is None:
        return None
    row = np.where(np.arange(users) < old.users, np.arange(users), -1)
    row[number] = old.users + new_row
    return stacked(old, new).take(row)


def _with_rows(rows: Rows, number: np.ndarray, new: Rows) -> Rows:
    """Replace the rows at these numbers; numbers beyond the last row are in order."""
    both = stack_rows(rows, new)
    if (number >= rows.size).all():
        return both
    row = np.arange(max(rows.size, number.max() + 1))
    row[number] = rows.size + np.arange(new.size)
    return both.take(row)


def renewed(old: Rows, new: Rows, field: np.ndarray, whole: bool) -> Rows:
    """Merge the rows of each id field by field: new values replace the old ones of their field.

    field: int [features], the field of each feature. whole: whether the values of a row sum to one;
    if so, a replaced field keeps its share of the row.
    """
    changed = np.flatnonzero(np.diff(new.start))
    old = stack_rows(old, empty_rows(new.size - old.size))
    before, after = old.take(changed), new.take(changed)
    fields = int(field.max(initial=-1)) + 1
    had, has = (rows.owner * fields + field[rows.column] for rows in (before, after))
    value = after.value
    if whole:
        size = len(changed) * fields
        part, now = np.bincount(had, before.value, size), np.bincount(has, after.value, size)
        value = value * np.where(part > 0, part / np.maximum(now, 1e-12), 1.0)[has]
    unchanged = ~np.isin(had, has)
    merged = group_rows(
        np.append(before.owner[unchanged], after.owner),
        np.append(before.column[unchanged], after.column),
        len(changed),
        np.append(before.value[unchanged], value),
    )
    row = np.arange(new.size)
    row[changed] = new.size + np.arange(len(changed))
    return stack_rows(old, sum_to_one(merged) if whole else merged).take(row)


def _moved(old: Side, new: Side) -> np.ndarray:
    """Return the number of each old feature in the extended side: int64 [old features]."""
    pieces = [
        np.arange(encoder.size) + first for encoder, first in zip(old.encoders, new.offsets[:-1])
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


def _with_columns(rows: Rows, at: np.ndarray) -> Rows:
    column = at[rows.column] if len(at) else rows.column
    return rows._replace(column=column.astype(np.int32))


def _aligned(table: pl.DataFrame, numbers: np.ndarray, count: int) -> pl.DataFrame:
    """Move a table's rows to new numbers; other rows are null."""
    if not table.width:
        return table
    row = np.full(count, len(table), np.int64)
    row[numbers] = np.arange(len(table))
    padded = table.clear(1) if len(table) == 0 else table
    return padded.vstack(table.clear(1))[row]


def _seen(model: Recommender, data: Dataset) -> Rows:
    """Return the seen items of the model and of the events, with counts."""
    old = model.seen
    user, item = np.concatenate([old.owner, data.user]), np.concatenate([old.column, data.item])
    times = np.concatenate([old.value, np.ones(len(data), np.float32)])
    return add_repeats(group_rows(user, item, len(data.users), times))
