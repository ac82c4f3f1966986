"""The item side in closed form, and fields whose features occur together.

An item has one vector and one constant, with any attributes.
Terms of order three also fold into one product per query and item. With t the triple vectors, A1
the sum of a side's x t, and A2 the sum of the products of all pairs of x t, these terms are
A2(query) . A1(item) + A1(query) . A2(item). So a query is [q | A2 | A1] and an item [p | A1 | A2].
"""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, empty_rows, starts
from fmpair.engine.contract import Groups, Meeting, Parameters, Triples


def vector_length(columns: int, triples: Triples | None) -> int:
    """Return the length of query and item vectors, given the columns of the tables."""
    return columns + (triples.factors if triples and triples.mirrored else 0)


def pair_columns(columns: int, triples: Triples | None) -> int:
    """Return how many of the columns hold pair vectors."""
    return columns - (triples.factors if triples else 0)


def query_vectors(
    id_rows: np.ndarray, rows: Rows, table: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """Return query vectors; id_rows: [queries, factors], the users' rows; rows: of queries over
    `table`."""
    sums = id_rows + rows.dot(table)
    if triples is None:
        return sums
    pairs = pair_columns(id_rows.shape[1], triples)
    two = pairwise_products(id_rows[:, pairs:], rows, table[:, pairs:], triples.query)
    parts = [sums[:, :pairs], two, sums[:, pairs:]]
    return np.hstack(parts if triples.mirrored else parts[:2])


def pairwise_products(
    id_rows: np.ndarray, rows: Rows, table: np.ndarray, meeting: Meeting
) -> np.ndarray:
    """Return A2 [rows, factors]: the sum over pairs of features of the product of their vectors.

    id_rows: [rows, factors], triple vectors of the ids; table: [features, factors].
    """
    meets, group = meeting.meets, meeting.group[rows.column]
    alone = meets[meeting.own, meeting.own] * id_rows * id_rows
    alone += rows._replace(value=rows.value**2 * meets[group, group]).dot(table * table)
    groups = range(len(meets))
    stack = np.stack([rows._replace(value=rows.value * (group == g)).dot(table) for g in groups])
    stack[meeting.own] += id_rows
    return 0.5 * ((stack * np.tensordot(meets, stack, 1)).sum(axis=0) - alone)


def item_sides(
    items: np.ndarray,
    bias: np.ndarray,
    rows: Rows,
    table: np.ndarray,
    table_bias: np.ndarray,
    triples: Triples | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return (vectors [items, factors], constants [items]) of items with attributes `rows`."""
    sums, linear = item_sums(items, bias, rows, table, table_bias)
    pairs = pair_columns(items.shape[1], triples)
    squares = (table[:, :pairs] ** 2).sum(axis=1, keepdims=True)
    alone = (items[:, :pairs] ** 2).sum(axis=1)
    alone = alone + rows._replace(value=rows.value**2).dot(squares)[:, 0]
    inner = 0.5 * ((sums[:, :pairs] ** 2).sum(axis=1) - alone)
    if triples is not None and triples.mirrored:
        two = pairwise_products(items[:, pairs:], rows, table[:, pairs:], triples.item)
        sums = np.hstack([sums, two])
    return sums, linear + inner


def item_sums(
    items: np.ndarray, bias: np.ndarray, rows: Rows, table: np.ndarray, table_bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (sums of rows [items, factors], biases [items]), without pairs within an item."""
    return items + rows.dot(table), bias + rows.dot(table_bias[:, None])[:, 0]


def with_unit_sides(
    parameters: Parameters, item_rows: Rows, triples: Triples | None = None
) -> Parameters:
    """Return parameters whose item vectors have length one and no constants, as cosines rank."""
    features, no_bias = parameters.features, np.zeros_like(parameters.item_bias)
    bias = np.zeros_like(parameters.feature_bias)
    vectors, _ = item_sides(parameters.items, no_bias, item_rows, features, bias, triples)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    items = parameters.items + vectors / np.maximum(lengths, 1e-6) - vectors
    _, constants = item_sides(items, no_bias, item_rows, features, bias, triples)
    return parameters._replace(items=items, item_bias=-constants, feature_bias=bias)


Dense = list[tuple[slice, np.ndarray]]  # features of a field, and values [rows, features]


# Fields whose features occur together, as the values of a list and the dimensions of a vector do.
# Sparse rows describe them like any other field, and define what is learned. Engines use the
# functions below to multiply matrices instead, and to bound steps on features that always move
# together.


def dense_fields(groups: Groups, rows: Rows) -> list[slice]:
    """Return the features of each field of which a row has all, in order, or none."""
    fields, first = np.unique(groups.field, return_index=True)
    edges = np.append(first, len(groups.field)).tolist()
    counts, lengths = np.bincount(rows.column, minlength=edges[-1]), np.diff(rows.start)
    dense = []
    for start, end in zip(edges[:-1], edges[1:]):
        times, size = int(counts[start]), end - start
        if size < 2 or not times or (counts[start:end] != times).any() or lengths.max() < size:
            continue
        column, together = rows.column, True
        if times * size < len(column):  # there are other fields
            inside = np.flatnonzero((column >= start) & (column < end)).reshape(times, size)
            column, together = column[inside], (np.diff(inside, axis=1) == 1).all()
        every = np.arange(start, end, dtype=np.int32)
        if together and (column.reshape(times, size) == every).all():
            dense.append(slice(start, end))
    return dense


def joint_steepness(groups: Groups, rows: Rows) -> np.ndarray:
    """Return what to use instead of a feature's squared value to bound its steps, if it is larger.

    float32 [features]. Features that occur together move together, so their steps together could
    overshoot although no single one does. For lists, the bound is the feature's value times the sum
    of the values of the row (Gershgorin). For vectors that would be far too large: their bound is
    the largest squared length of a row, times the square root of the share of rows that have the
    vector. (The sum of the outer products of unit vectors has no eigenvalue above its Frobenius
    norm.)
    """
    out = np.zeros(len(groups.field), np.float32)
    size = np.abs(rows.value.astype(np.float64))
    owner_field = rows.owner * (int(groups.field.max(initial=0)) + 1) + groups.field[rows.column]
    total = np.bincount(owner_field, size)
    np.maximum.at(out, rows.column, (size * total[owner_field]).astype(np.float32))
    for field in dense_fields(groups, rows):
        inside = (rows.column >= field.start) & (rows.column < field.stop)
        values = rows.value[inside].reshape(-1, field.stop - field.start)
        longest = float(np.einsum("rd,rd->r", values, values).max())
        share = min(float(groups.owners[field.start]) / max(rows.size, 1), 1.0)
        out[field] = longest * np.sqrt(share)
    return out


def split(rows: Rows, fields: list[slice]) -> tuple[Rows, Dense]:
    """Return the rows without the dense fields, and these as matrices, zeros where missing."""
    if not fields:
        return rows, []
    only = fields[0]
    if only.start <= rows.column.min() and rows.column.max() < only.stop:
        matrix = np.zeros((rows.size, only.stop - only.start), np.float32)
        matrix[np.diff(rows.start) > 0] = rows.value.reshape(-1, matrix.shape[1])
        return empty_rows(rows.size), [(only, matrix)]
    dense: Dense = []
    owner, kept = rows.owner, np.ones(len(rows.column), bool)
    for field in fields:
        inside = (rows.column >= field.start) & (rows.column < field.stop)
        size = field.stop - field.start
        matrix = np.zeros((rows.size, size), np.float32)
        matrix[owner[inside][::size]] = rows.value[inside].reshape(-1, size)
        dense.append((field, matrix))
        kept &= ~inside
    lengths = np.bincount(owner[kept], minlength=rows.size)
    return Rows(starts(lengths), rows.column[kept], rows.value[kept]), dense
