"""Products of matrices inside kernels: right for any size, with one order of each sum."""

import numpy as np
import pytest

from fmpair.engine.cpu import products
from fmpair.engine.cpu.simd import blank

SIZES = [(1, 2, 8), (7, 31, 16), (8, 32, 40), (21, 65, 72), (64, 130, 256)]


def tables(events, items, columns):
    """Queries and items with room for whole tiles, and more items around those of the block."""
    rng = np.random.default_rng(0)
    queries, table = blank(products.rounded(events), columns), blank(items + 9, columns)
    queries[:events] = rng.normal(size=(events, columns))
    table[:] = rng.normal(size=table.shape)
    return queries, table


def scores_of(queries, table, first, events, items):
    """The scores as the kernels store them: float32 [events and more, items and more]."""
    row = int(products.rounded(items))
    packed = blank(row, table.shape[1]).reshape(-1)
    products.pack(table, first, items, packed)
    out = blank(len(queries), row).reshape(-1)
    products.with_packed(out, row, queries, packed, events, items)
    return out.reshape(len(queries), row)


def in_order(left, right):
    """left @ right with terms added one by one, each rounded once to float32."""
    total = np.zeros((len(left), right.shape[1]), np.float32)
    for k in range(left.shape[1]):
        exact = left[:, k, None].astype(np.float64) * right[k].astype(np.float64) + total
        total = exact.astype(np.float32)
    return total


@pytest.mark.parametrize(("events", "items", "columns"), SIZES)
def test_scores_are_products_with_the_items_of_the_block_alone(events, items, columns):
    queries, table = tables(events, items, columns)
    found = scores_of(queries, table, 4, events, items)
    right = queries[:events] @ table[4 : 4 + items].T
    np.testing.assert_allclose(found[:events, :items], right, rtol=1e-4, atol=1e-4)
    assert not found[:events, items:].any()


@pytest.mark.parametrize(("events", "items", "columns"), SIZES)
def test_gradients_are_sums_weighted_by_slopes(events, items, columns):
    queries, table = tables(events, items, columns)
    slopes = scores_of(queries, table, 0, events, items)
    flat, row = slopes.reshape(-1), slopes.shape[1]
    of_queries, of_items = blank(len(queries), columns), blank(row, columns)
    products.weighted_sums(of_queries, events, flat, row, 1, table, 3, items)
    products.weighted_sums(of_items, items, flat, 1, row, queries, 0, events)
    some = slopes[:events, :items]
    right = some @ table[3 : 3 + items], some.T @ queries[:events]
    np.testing.assert_allclose(of_queries[:events], right[0], rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(of_items[:items], right[1], rtol=1e-3, atol=1e-2)


def test_the_bits_are_those_of_a_sum_in_order_whatever_the_tiles():
    queries, table = tables(21, 65, 72)
    found = scores_of(queries, table, 2, 21, 65)
    np.testing.assert_array_equal(found[:21, :65], in_order(queries[:21], table[2:67].T))
    sums = blank(len(queries), 72)
    products.weighted_sums(sums, 21, found.reshape(-1), found.shape[1], 1, table, 2, 65)
    np.testing.assert_array_equal(sums[:21], in_order(found[:21, :65], table[2:67]))
