"""Ranking kernels against a brute-force sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.arrays import empty_rows, group_rows
from fmpair.ranking import top as ranking
from fmpair.ranking.top import item_matrix as matrix


@st.composite
def questions(draw):
    """(queries, items, constants, hidden pairs): small whole numbers, so that ties abound."""
    count, items, factors = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 9)),
        draw(st.integers(0, 3)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    small = [rng.integers(-2, 3, shape).astype(np.float32)
             for shape in ((count, factors), (items, factors), items)]  # fmt: skip
    hidden = rng.random((count, items)) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    return *small, hidden


def as_rows(hidden):
    owner, column = np.nonzero(hidden)
    return group_rows(owner, column, len(hidden))


@given(questions(), st.integers(1, 12), st.integers(1, 2))
@settings(max_examples=150, deadline=None)
def test_the_top_is_a_stable_sort_cut_off(question, n, threads):
    queries, items, constants, hidden = question
    best, score, filled = ranking.top(
        queries, matrix(items, constants), as_rows(hidden), n, threads
    )
    scores = queries @ items.T + constants
    for q in range(len(queries)):
        order = [i for i in np.argsort(-scores[q], kind="stable") if not hidden[q, i]][:n]
        assert best[q, : filled[q]].tolist() == order
        np.testing.assert_array_equal(score[q, : filled[q]], scores[q, order])


@given(questions(), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_ranks_count_what_stands_above_and_level(question, seed):
    queries, items, constants, hidden = question
    target = np.random.default_rng(seed).integers(0, len(items), len(queries))
    above, level = ranking.ranks(queries, matrix(items, constants), as_rows(hidden), target)
    scores = queries @ items.T + constants
    for q, own in enumerate(target):
        others = [scores[q, i] for i in range(len(items)) if i != own and not hidden[q, i]]
        assert above[q] == sum(s > scores[q, own] for s in others)
        assert level[q] == sum(s == scores[q, own] for s in others)


@given(questions())
@settings(max_examples=50, deadline=None)
def test_a_rank_is_the_place_in_the_top_where_there_are_no_ties(question):
    queries, items, constants, _ = question
    apart = constants + np.arange(len(constants), dtype=np.float32) / 64
    everything = empty_rows(len(queries))
    best, _, _ = ranking.top(queries, matrix(items, apart), everything, len(items))
    for place in range(len(items)):
        above, level = ranking.ranks(queries, matrix(items, apart), everything, best[:, place])
        assert (above == place).all() and not level.any()


def test_ties_go_to_the_lower_item_number():
    best, _, _ = ranking.top(
        np.zeros((1, 2), np.float32), matrix(np.ones((5, 2)), np.zeros(5)), empty_rows(1), 3
    )
    assert best.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("threads", [1, 2])
def test_many_batches_give_what_one_gives(threads, monkeypatch):
    rng = np.random.default_rng(0)
    queries, items = (rng.normal(size=(n, 4)).astype(np.float32) for n in (500, 40))
    constants, hidden = rng.normal(size=40).astype(np.float32), as_rows(rng.random((500, 40)) < 0.2)
    whole = ranking.top(queries, matrix(items, constants), hidden, 5, 1)
    monkeypatch.setattr(ranking, "SCORES_AT_ONCE", 40 * 7)
    parts = ranking.top(queries, matrix(items, constants), hidden, 5, threads)
    np.testing.assert_array_equal(whole[0], parts[0])
    np.testing.assert_allclose(whole[1], parts[1], rtol=1e-5)


def test_no_items_give_no_places():
    none = matrix(np.zeros((0, 2)), np.zeros(0))
    best, _, filled = ranking.top(np.ones((3, 2), np.float32), none, empty_rows(3), 4)
    assert best.shape == (3, 0) and not filled.any()


def test_a_score_that_is_no_number_is_never_listed():
    constants = np.array([0, np.nan, 1], np.float32)
    best, _, filled = ranking.top(
        np.zeros((1, 1), np.float32), matrix(np.zeros((3, 1)), constants), empty_rows(1), 3
    )
    assert best[0, : filled[0]].tolist() == [2, 0]
