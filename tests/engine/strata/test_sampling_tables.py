"""Sampling tables: alias tables, sorted items, impressions by run, and which items are folded."""

import numpy as np
import pytest
from engine.problems import parameters_of, problem_of, settings_of, triple_l2_of, with_triples
from hypothesis import given
from hypothesis import strategies as st

from fmpair.arrays import empty_rows
from fmpair.engine.item_side import item_sides
from fmpair.engine.strata import partition as strata
from fmpair.engine.strata.sampling_tables import (
    TIMES,
    alias_table,
    folds,
    lists_between,
    ordering,
    pieces,
    steps_between,
)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30).filter(lambda w: sum(w) > 0))
def test_an_alias_table_gives_every_item_its_share(weights):
    weight = np.array(weights)
    accept, other = alias_table(weight)
    kept = (accept.astype(float) + 1) / 2**32
    chance = kept.copy()
    np.add.at(chance, other, 1 - kept)
    np.testing.assert_allclose(chance / len(weight), weight / weight.sum(), atol=1e-6)


def test_items_without_events_are_drawn_alike_where_no_item_has_any():
    accept, _ = alias_table(np.zeros(4))
    assert (accept == 2**32 - 1).all()


def test_items_are_ordered_by_each_factor_and_by_their_constants():
    vectors = np.array([[3.0, 0.0], [1.0, 5.0], [2.0, 4.0]])
    found = ordering(vectors, np.array([0.1, 0.3, 0.2]), settings_of())
    assert found.order.tolist() == [[1, 2, 0], [0, 2, 1], [0, 2, 1]]


def test_items_without_attributes_are_their_own_sides():
    problem = problem_of("")
    tables = parameters_of(problem)
    vectors, constants = item_sides(*tables[1:3], empty_rows(problem.items), *tables[4:])
    np.testing.assert_array_equal(vectors, tables.items)
    np.testing.assert_allclose(constants, tables.item_bias, atol=1e-6)


def test_a_long_cell_is_ordered_anew_in_between():
    assert pieces(100, 50_000, 1000).tolist() == [0, 20, 40, 60, 80, 100]
    assert pieces(100, 50, 1000).tolist() == [0, 100]
    assert pieces(1, 50_000, 10).tolist() == [0, 1]


@pytest.mark.parametrize("blocks", [1, 3])
def test_what_was_shown_stands_in_the_run_of_its_user_and_block(blocks):
    problem = strata.with_unchosen(problem_of("s", events=30))
    partition = strata.partition(strata.by_user(problem, True), blocks, seed=1, number=1)
    rows = strata.impressions_by_run(partition, problem.impressions)
    found = {
        (int(partition.user_at[partition.run_user[run]]), int(partition.item_at[place]))
        for run, place in zip(rows.owner, rows.column)
    }
    block = np.repeat(np.arange(blocks**2) % blocks, np.diff(partition.cell))
    first, end = partition.item_edge[block[rows.owner]], partition.item_edge[block[rows.owner] + 1]
    assert ((first <= rows.column) & (rows.column < end)).all()
    place = np.searchsorted(partition.item_edge, strata.places(partition.item_at), side="right") - 1
    runs = set(zip(partition.user_at[partition.run_user].tolist(), block.tolist()))
    shown = zip(problem.impressions.owner.tolist(), problem.impressions.column.tolist())
    assert found and found == {(u, i) for u, i in shown if (u, int(place[i])) in runs}


SOFTMAX = {"loss": "softmax", "n_negatives": 4}


@pytest.mark.parametrize(
    ("parts", "changes", "wanted"),
    [
        ("a", SOFTMAX, True),
        ("cua", {"optimizer": "adagrad"}, True),
        ("cua", {**SOFTMAX, "item_rate": 0.0, "feature_rate": 0.0}, True),
        ("cu", SOFTMAX, False),
        ("a", {}, False),  # pairs have a kernel of their own
        ("a", {**SOFTMAX, "item_rate": 0.0}, False),  # attributes learn from how far items go
    ],
)
def test_items_are_folded_in_lists_where_they_have_attributes(parts, changes, wanted):
    assert folds(problem_of(parts), settings_of(**changes)) == wanted


def test_terms_of_order_three_are_not_folded():
    problem = with_triples(problem_of("a"))
    settings = settings_of(triples=triple_l2_of(problem), **SOFTMAX)
    assert not folds(problem, settings)


def test_between_two_folds_every_item_is_in_as_many_lists_on_average():
    assert steps_between(1000, 99, 3, 6) == 10 * TIMES
    assert steps_between(1, 99, 3, 6) == 1


def test_items_with_many_attributes_are_folded_more_rarely():
    assert lists_between(384, 384) == 192
    assert lists_between(14, 46_391) == 56
    assert lists_between(12, 40) == TIMES
