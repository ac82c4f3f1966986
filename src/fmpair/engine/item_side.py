"""The item side in closed form: one vector and one constant per item, whatever its attributes.

Terms of order three also fold into one product per query and item. With t the triple vectors, A1
the sum of a side's x t, and A2 the sum of the products of all pairs of x t, these terms are
A2(query) . A1(item) + A1(query) . A2(item). So a query is [q | A2 | A1] and an item [p | A1 | A2].
"""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Meeting, Parameters, Triples


def vector_length(columns: int, triples: Triples | None) -> int:
    """Return the length of query and item vectors, given the columns of the tables."""
    return columns + (triples.factors if triples and triples.mirrored else 0)


def pair_columns(columns: int, triples: Triples | None) -> int:
    """Return how many of the columns hold pair vectors."""
    return columns - (triples.factors if triples else 0)


def query_vectors(
    own: np.ndarray, rows: Rows, table: np.ndarray, triples: Triples | None
) -> np.ndarray:
    """Return query vectors; own: [queries, factors], the users' rows; rows: of queries over
    `table`."""
    sums = own + rows.dot(table)
    if triples is None:
        return sums
    pairs = pair_columns(own.shape[1], triples)
    two = pairwise_products(own[:, pairs:], rows, table[:, pairs:], triples.query)
    parts = [sums[:, :pairs], two, sums[:, pairs:]]
    return np.hstack(parts if triples.mirrored else parts[:2])


def pairwise_products(
    own: np.ndarray, rows: Rows, table: np.ndarray, meeting: Meeting
) -> np.ndarray:
    """Return A2 [rows, factors]: the sum over pairs of features of the product of their vectors.

    own: [rows, factors], triple vectors of the ids; table: [features, factors].
    """
    meets, group = meeting.meets, meeting.group[rows.column]
    alone = meets[meeting.own, meeting.own] * own * own
    alone += rows._replace(value=rows.value**2 * meets[group, group]).dot(table * table)
    groups = range(len(meets))
    stack = np.stack([rows._replace(value=rows.value * (group == g)).dot(table) for g in groups])
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
