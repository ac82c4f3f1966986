"""The item side folded: one vector and one constant per item, whatever attributes it has."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Meeting, Parameters, Triples

# Terms of order three between the two sides, folded: no triple is ever visited.
#
# Two features of the query meet one of the item, and one of the query meets two of the item. With t
# the vectors of triples, A1 the sum of a side's x t and A2 the sum of the products of all pairs of
# them, these terms are A2(query) . A1(item) + A1(query) . A2(item). So with [q | A2 | A1] for the
# query and [p | A1 | A2] for the item the score still is one product of two vectors.


def vector_length(columns: int, triples: Triples | None) -> int:
    """How long the vectors of queries and items are, given the columns of the tables."""
    return columns + (triples.factors if triples and triples.mirrored else 0)


def pair_columns(columns: int, triples: Triples | None) -> int:
    """How many of the tables' columns are vectors of pairs."""
    return columns - (triples.factors if triples else 0)


def query_vectors(
    own: np.ndarray, rows: Rows, table: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """[queries, ...]: the vectors that meet those of items.

    own: [queries, factors], the users' rows of their table; rows: of each query over `table`.
    """
    sums = own + rows.dot(table)
    if triples is None:
        return sums
    pairs = pair_columns(own.shape[1], triples)
    two = second(own[:, pairs:], rows, table[:, pairs:], triples.query)
    parts = [sums[:, :pairs], two, sums[:, pairs:]]
    return np.hstack(parts if triples.mirrored else parts[:2])


def with_second(
    sums: np.ndarray, own: np.ndarray, rows: Rows, table: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """[items, ...]: the vectors of items that meet those of queries, from the sums of their rows.

    own: [items, factors], the items' rows of their table; rows: of each item over `table`.
    """
    if triples is None or not triples.mirrored:
        return sums
    pairs = pair_columns(own.shape[1], triples)
    return np.hstack([sums, second(own[:, pairs:], rows, table[:, pairs:], triples.item)])


def second(own: np.ndarray, rows: Rows, table: np.ndarray, meeting: Meeting) -> np.ndarray:
    """A2, [rows, factors]: the products of the pairs that meet, each factor for itself.

    own: [rows, factors] of the ids, table: [features, factors]: vectors of triples alone.
    """
    meets, group = meeting.meets, meeting.group[rows.column]
    alone = meets[meeting.own, meeting.own] * own * own
    alone += rows._replace(value=rows.value**2 * meets[group, group]).dot(table * table)
    stack = np.stack(
        [rows._replace(value=rows.value * (group == one)).dot(table) for one in range(len(meets))]
    )
    stack[meeting.own] += own
    return 0.5 * ((stack * np.tensordot(meets, stack, 1)).sum(axis=0) - alone)


def item_sides(
    items: np.ndarray,
    bias: np.ndarray,
    rows: Rows,
    table: np.ndarray,
    table_bias: np.ndarray,
    triples: Triples | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(vectors [items, factors], constants [items]) of items with the attributes `rows`."""
    sums, linear = item_sums(items, bias, rows, table, table_bias)
    pairs = pair_columns(items.shape[1], triples)
    squares = (table[:, :pairs] ** 2).sum(axis=1, keepdims=True)
    alone = (items[:, :pairs] ** 2).sum(axis=1)
    alone = alone + rows._replace(value=rows.value**2).dot(squares)[:, 0]
    inner = 0.5 * ((sums[:, :pairs] ** 2).sum(axis=1) - alone)
    return with_second(sums, items, rows, table, triples), linear + inner


def item_sums(
    items: np.ndarray, bias: np.ndarray, rows: Rows, table: np.ndarray, table_bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(sums of rows [items, factors], biases [items]): the same without pairs within an item."""
    return items + rows.dot(table), bias + rows.dot(table_bias[:, None])[:, 0]


def with_unit_sides(
    parameters: Parameters, item_rows: Rows, triples: Triples | None = None
) -> Parameters:
    """Items of length one and without constants: their products rank as cosines do."""
    features, no_bias = parameters.features, np.zeros_like(parameters.item_bias)
    bias = np.zeros_like(parameters.feature_bias)
    vectors, _ = item_sides(parameters.items, no_bias, item_rows, features, bias, triples)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    items = parameters.items + vectors / np.maximum(lengths, 1e-6) - vectors
    _, constants = item_sides(items, no_bias, item_rows, features, bias, triples)
    return parameters._replace(items=items, item_bias=-constants, feature_bias=bias)
