"""The item side folded: one vector and one constant per item, whatever attributes it has."""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters, Triples
from fmpair.engine.triples import pair_columns, with_second


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
