"""The query and the items of a list as vectors, and their products.

As in `optimizer`, what is None does not exist in the compiled code, and all becomes a part of the
kernel.
"""

from __future__ import annotations

import numpy as np

from fmpair.engine.cpu.list_simd import list_dots, list_squares
from fmpair.engine.cpu.losses import ZERO
from fmpair.engine.cpu.pairs import build_item
from fmpair.engine.cpu.simd import assign, gather
from fmpair.engine.cpu.triples import add_features, begin_query, end_query, meet_item
from fmpair.jit import kernel


@kernel(forceinline=True)
def build_sides(
    scratch, items, item_bias, member, constant, table, bias, item_at, start, column, value, third,
    mirror, here, end, width,
):
    """scratch[m + 1], constant[m]: the sides of a list's items with their attributes."""
    for m in range(here, end):
        i = np.int64(member[m])
        a, a_end = start[item_at[i]], start[item_at[i] + 1]
        constant[m] = build_item(
            scratch, m + 1, items, i, table, bias, a, a_end, column, value, width
        )
        constant[m] += item_bias[i]
        constant[m] -= meet_item(
            third, mirror, scratch, m, items, i, table, a, a_end, column, value
        )


@kernel(forceinline=True)
def take_constants(item_bias, member, constant, here, end):
    """constant[m]: those of a list's items that have no attributes, or are folded with them."""
    for m in range(here, end):
        constant[m] = item_bias[member[m]]


@kernel(forceinline=True)
def build_query(
    scratch, users, u, table, p, p_end, p_column, p_value, c, c_end, c_column, c_value, third,
    mirror, width,
):
    """scratch[0]: the query of a user with attributes [p, p_end) in a context [c, c_end)."""
    gather(scratch, 0, users, u, table, c, c_end, c_column, c_value, width)
    gather(scratch, 0, scratch, 0, table, p, p_end, p_column, p_value, width)
    if third is not None:
        begin_query(third, mirror, scratch, users, u)
        add_features(third, table, p, p_end, p_column, p_value)
        add_features(third, table, c, c_end, c_column, c_value)
        end_query(third, scratch)


@kernel(forceinline=True)
def build_user(scratch, users, u, third, mirror, width):
    """The same of a user about whom nothing else is known."""
    assign(scratch, 0, users, u, width)
    if third is not None:
        begin_query(third, mirror, scratch, users, u)
        end_query(third, scratch)


@kernel(forceinline=True)
def dots(table, member, score, square, scratch, sharpness, here, end, width):
    """score[m] = scratch[0] . table[member[m]]; of cosines also square[m], the squared length."""
    list_dots(scratch, table, member, score, here, end, width)
    if sharpness > ZERO:
        list_squares(table, member, square, here, end, width)


@kernel(forceinline=True)
def bring_up(scratch, mirror, m, width):
    """The item at place m of a list takes place 1."""
    assign(scratch, 2, scratch, m + 1, width)
    if mirror is not None:
        mirror.met[1] = mirror.met[m]
