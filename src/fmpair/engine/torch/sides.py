"""Query vectors of a minibatch and item vectors, computed from sparse features with PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding_bag, normalize

from fmpair.arrays import Rows
from fmpair.engine.contract import Groups, History, Meeting, Problem, Triples
from fmpair.engine.item_side import dense_fields, pair_columns, split
from fmpair.engine.strata.field_regularisation import shared_item_rows

# Rows are padded to the longest one if it has at most NARROW entries, or UNEVEN times the mean.
NARROW, UNEVEN = 32, 4
# Where dense fields are matrix products: on a CPU these depend on the number of threads.
MULTIPLIED_ON = ("cuda",)
Tables = Any  # `Parameters` of tensors
Dense = tuple[tuple[slice, torch.Tensor], ...]


# Sparse rows on a device, and weighted sums of table rows with deterministic gradients.


class DeviceRows(NamedTuple):
    """`Rows` on a device. longest: entries of the longest row; width: the same, or 0 if rows differ
    too much in length to be padded.

    start, column: int64 [rows + 1], [entries]; value: float32 [entries]. dense: the fields of which
    a row has all features, see `item_side`; the entries are those of the others.
    """

    start: torch.Tensor
    column: torch.Tensor
    value: torch.Tensor
    width: int
    longest: int
    dense: Dense = ()

    @property
    def filled(self) -> bool:
        return len(self.column) > 0 or len(self.dense) > 0


class Bags(NamedTuple):
    """The table rows to sum for each bag: [bags, width], or flat with the start of each bag.

    dense: further rows of the table, and their values [bags, rows].
    """

    column: torch.Tensor
    value: torch.Tensor
    start: torch.Tensor | None = None
    dense: Dense = ()


def on_device(rows: Rows, device: torch.device, groups: Groups | None = None) -> DeviceRows:
    """Copy rows to a device; groups: of the features, to multiply dense fields as matrices."""
    groups = groups if device.type in MULTIPLIED_ON else None
    dense_parts = [] if groups is None else dense_fields(groups, rows)
    rows, fields = split(rows, dense_parts) if dense_parts else (rows, [])
    dense = tuple((field, torch.from_numpy(matrix).to(device)) for field, matrix in fields)
    lengths = np.diff(rows.start)
    longest = int(lengths.max(initial=0))
    even = longest <= max(NARROW, UNEVEN * float(lengths.mean() if len(lengths) else 0))
    arrays = (rows.start, rows.column.astype(np.int64), rows.value)
    start, column, value = (
        torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays
    )
    return DeviceRows(start, column, value, longest if even else 0, longest, dense)


def whole(rows: DeviceRows) -> Bags:
    """Return one bag per row."""
    return Bags(rows.column, rows.value, rows.start, rows.dense)


def taken(rows: DeviceRows, which: torch.Tensor) -> Bags:
    """Return the bags of some rows; which: int64 [bags]."""
    dense = tuple((field, matrix[which]) for field, matrix in rows.dense)
    if not len(rows.column):
        return Bags(rows.column, rows.value, dense=dense)
    first = rows.start[which]
    length = rows.start[which + 1] - first
    if rows.width:  # shapes are known in advance, so nothing waits for the device
        step = torch.arange(rows.width, device=which.device)
        entry = (first[:, None] + step).clamp(max=len(rows.column) - 1)
        value = rows.value[entry] * (step < length[:, None])
        return Bags(rows.column[entry], value, dense=dense)
    start = torch.cat([length.new_zeros(1), length.cumsum(0)])
    entry = torch.repeat_interleave(first - start[:-1], length)
    entry = entry + torch.arange(len(entry), device=which.device)
    return Bags(rows.column[entry], rows.value[entry], start, dense)


def merged(bags: Bags) -> Bags:
    """Add up the values of repeated columns in each padded bag, at their last position."""
    column, order = torch.sort(bags.column, dim=1, stable=True)
    total = bags.value.gather(1, order).double().cumsum(1)
    last = torch.ones_like(column, dtype=torch.bool)
    last[:, :-1] = column[:, 1:] != column[:, :-1]
    position = torch.arange(column.shape[1], device=column.device).expand_as(column)
    end = torch.where(last, position, -1).cummax(1).values  # of the previous run of equal columns
    end = torch.cat([torch.full_like(end[:, :1], -1), end[:, :-1]], 1)
    before = torch.where(end >= 0, total.gather(1, end.clamp(min=0)), 0.0)
    return Bags(column, torch.where(last, total - before, 0.0).float())


def sums(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """Return the sum of value * table[column] for every bag: [bags, columns of the table].

    Gradients are summed in sorted order, so that they are deterministic.
    """
    if bags.column.numel() or not bags.dense:
        total = embedding_bag(
            bags.column,
            table,
            bags.start,
            mode="sum",
            per_sample_weights=bags.value,
            include_last_offset=bags.start is not None,
        )
    else:
        total = table.new_zeros((len(bags.dense[0][1]), table.shape[1]))
    for field, matrix in bags.dense:
        total = total + matrix @ table[field]
    return total


def sums_of_squares(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """Return the sum of (value * table[column])^2 for every bag."""
    dense = tuple((field, matrix.square()) for field, matrix in bags.dense)
    return sums(table.square(), bags._replace(value=bags.value.square(), dense=dense))


# Histories.


class DeviceHistory(NamedTuple):
    """`History` on a device. features: the query features of each item, or None if the features
    from `first` on are the items, one each. shared: they use the items' vectors. repeats: whether
    a time line has an item twice.
    """

    start: torch.Tensor
    item: torch.Tensor
    until: torch.Tensor
    since: torch.Tensor | None
    weight: torch.Tensor
    features: DeviceRows | None
    first: int
    items: int
    shared: bool
    repeats: bool


def history_of(history: History, items: int, device: torch.device) -> DeviceHistory:
    """Copy a history to a device."""

    def moved(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(device)

    rows, lengths = history.rows, np.diff(history.start)
    first = int(rows.column[0]) if len(rows.column) else 0
    plain = len(rows.column) == items and bool((rows.value == 1).all())
    plain = plain and np.array_equal(rows.column, np.arange(first, first + items))
    owner = torch.repeat_interleave(moved(lengths))  # on the device: np.unique takes longer
    pairs = torch.unique(owner * items + moved(history.item))
    return DeviceHistory(
        moved(history.start),
        moved(history.item),
        moved(history.until),
        moved(history.since) if len(history.since) else None,
        moved(history.weight),
        None if plain else on_device(rows, device),
        first,
        items,
        history.shared,
        len(pairs) < len(history.item),
    )


def before(history: DeviceHistory, user: torch.Tensor, event: torch.Tensor) -> Bags:
    """Return the weighted items before each event; positions before the first item weigh 0."""
    until = history.until[event].long()
    first = history.start[user] if history.since is None else history.since[event].long()
    step = torch.arange(1, len(history.weight) + 1, device=event.device)
    entry = until[:, None] - step
    inside = entry >= first[:, None]
    item = history.item[entry.clamp(min=0)].long()
    return Bags(item, history.weight * inside)


def features_before(history: DeviceHistory, earlier: Bags) -> Bags:
    """Return the query features of earlier items, each feature once per bag."""
    if history.features is None:
        bags = earlier._replace(column=earlier.column + history.first)
        return merged(bags) if history.repeats else bags
    rows = history.features._replace(width=max(history.features.width, history.features.longest))
    item_features = taken(rows, earlier.column.flatten())
    shape = (len(earlier.column), -1)
    value = item_features.value * earlier.value.flatten()[:, None]
    return merged(Bags(item_features.column.reshape(shape), value.reshape(shape)))


# Terms of order three, see `engine.item_side`.


class DeviceMeeting(NamedTuple):
    """`Meeting` on a device. group: int64 [features]; meets: float32 [groups, groups]."""

    own: int
    group: torch.Tensor
    meets: torch.Tensor


def meeting_of(meeting: Meeting, device: torch.device) -> DeviceMeeting:
    """Copy a meeting to a device."""
    group = torch.from_numpy(meeting.group.astype("int64")).to(device)
    return DeviceMeeting(meeting.own, group, torch.from_numpy(meeting.meets.copy()).to(device))


def pairwise_products(
    id_rows: torch.Tensor,
    total: torch.Tensor,
    bags: list[Bags],
    table: torch.Tensor,
    meeting: DeviceMeeting,
) -> torch.Tensor:
    """Return A2 [rows, factors]: summed products of the vectors of pairs of features that meet.

    id_rows: [rows, factors] of the ids; total: the sum of these and of the bags' rows of `table`.
    All are vectors of triples.
    """
    meets, id_group = meeting.meets, meeting.own
    alone = meets[id_group, id_group] * id_rows.square()
    for bag in bags:
        group = meeting.group[bag.column]
        root = bag.value * meets[group, group]  # meets is 0 or 1, and equal to its square
        alone = alone + sums_of_squares(table, bag._replace(value=root))
    if len(meets) == 1:
        return 0.5 * (meets[0, 0] * total.square() - alone)
    stack = [id_rows if g == id_group else torch.zeros_like(id_rows) for g in range(len(meets))]
    for bag in bags:
        group = meeting.group[bag.column]
        for g in range(len(meets)):
            part = bag._replace(value=bag.value * (group == g))
            stack[g] = stack[g] + sums(table, part)
    stacked = torch.stack(stack)
    return 0.5 * ((stacked * torch.tensordot(meets, stacked, 1)).sum(0) - alone)


# Vectors of queries and items.


class Sides(NamedTuple):
    """The features of queries and items; None for empty rows. pairs: columns of vectors of pairs.

    of_query, of_item: which features of a side meet in terms of order three, if there are any.
    """

    user_rows: DeviceRows | None
    contexts: DeviceRows | None
    item_rows: DeviceRows | None
    history: DeviceHistory | None
    pairs: int
    of_query: DeviceMeeting | None
    of_item: DeviceMeeting | None


def sides_of(problem: Problem, columns: int, device: torch.device) -> Sides:
    """Copy the features of both sides to a device; columns: of the tables."""

    def filled(rows: DeviceRows) -> DeviceRows | None:
        return rows if rows.filled else None

    triples, history = problem.triples, problem.history
    mirrored = triples is not None and triples.mirrored
    of_query, of_items = problem.query_groups, problem.item_groups
    groups = (None, None) if triples else (of_query, of_items)  # triples need single features
    return Sides(
        filled(on_device(problem.user_rows, device, groups[0])),
        filled(on_device(problem.contexts, device, groups[0])),
        filled(on_device(problem.item_rows, device, groups[1])),
        None if history is None else history_of(history, problem.items, device),
        pair_columns(columns, triples),
        meeting_of(triples.query, device) if triples else None,
        meeting_of(triples.item, device) if triples and mirrored else None,
    )


def query_vectors(
    sides: Sides,
    tables: Tables,
    user_rows: torch.Tensor,
    user: torch.Tensor,
    situation: torch.Tensor,
    event: torch.Tensor | None,
) -> torch.Tensor:
    """Return the query vectors: [queries, length]; with terms of order three [q | A2 | A1].

    user_rows: [queries, columns] of the users; event: whose history to use, None for none.
    """
    total, bags = user_rows, _bags(sides, user, situation)
    for bag in bags:
        total = total + sums(tables.query, bag)
    history = sides.history if event is not None else None
    if history is not None and event is not None:
        earlier = before(history, user, event)
        total = total + _of_history(history, tables, earlier, sides.pairs)
        if sides.of_query is not None:
            bags.append(features_before(history, earlier))
    if sides.of_query is None:
        return total
    table = tables.query[:, sides.pairs :].contiguous()
    A1 = total[:, sides.pairs :]
    A2 = pairwise_products(user_rows[:, sides.pairs :], A1, bags, table, sides.of_query)
    parts = [total[:, : sides.pairs], A2, A1]
    return torch.cat(parts if sides.of_item is not None else parts[:2], 1)


def _bags(sides: Sides, user: torch.Tensor, situation: torch.Tensor) -> list[Bags]:
    """Return the features of each query, without its history."""
    sources = ((sides.user_rows, user), (sides.contexts, situation))
    return [taken(rows, which) for rows, which in sources if rows is not None]


def _of_history(history: DeviceHistory, tables: Tables, earlier: Bags, pairs: int) -> torch.Tensor:
    """Return the weighted sum of the history vectors of earlier items: [queries, columns]."""
    if history.features is None and not history.shared:
        return sums(tables.query, earlier._replace(column=earlier.column + history.first))
    if history.features is not None:
        vectors = sums(tables.query, whole(history.features))
    else:
        vectors = tables.query[history.first : history.first + history.items]
    if history.shared:  # vectors of pairs only
        vectors = torch.cat([tables.items[:, :pairs], vectors[:, pairs:]], 1)
    return sums(vectors, earlier)


def item_vectors(sides: Sides, tables: Tables) -> tuple[torch.Tensor, torch.Tensor]:
    """Return vectors [items, length] and constants [items] as defined in `engine.item_side`."""
    if sides.item_rows is None:
        return tables.items, tables.item_bias
    bags, pairs = whole(sides.item_rows), sides.pairs
    total = tables.items + sums(tables.features, bags)
    features = tables.features[:, :pairs].contiguous()
    alone = tables.items[:, :pairs].square() + sums_of_squares(features, bags)
    linear = tables.item_bias + sums(tables.feature_bias[:, None], bags)[:, 0]
    constants = linear + 0.5 * (total[:, :pairs].square() - alone).sum(1)
    if sides.of_item is None:
        return total, constants
    id_rows, table = tables.items[:, pairs:], tables.features[:, pairs:].contiguous()
    A2 = pairwise_products(id_rows, total[:, pairs:], [bags], table, sides.of_item)
    return torch.cat([total, A2], 1), constants


def unit(vectors: torch.Tensor) -> torch.Tensor:
    """Scale vectors to length one, for cosines."""
    return normalize(vectors, dim=1, eps=1e-6)


def share_item_vectors(
    query: np.ndarray, items: np.ndarray, history: History | None, triples: Triples | None
) -> None:
    """Copy item vectors into the query table, for histories that share them."""
    if history is not None and history.shared:
        pairs = pair_columns(items.shape[1], triples)
        query[shared_item_rows(history, len(items)), :pairs] = items[:, :pairs]
