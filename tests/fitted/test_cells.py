"""Cells hold items that are alike."""

from itertools import pairwise

import numpy as np

from fmpair.fitted.large_catalogue import cells


def test_every_item_is_in_one_cell_and_groups_stay_together():
    draw = np.random.default_rng(0)
    group = draw.integers(0, 5, 1_000)
    vectors = (10 * np.eye(5)[group] + 0.1 * draw.standard_normal((1_000, 5))).astype(np.float32)
    order, start = cells(vectors, np.zeros(1_000, np.float32), 20)
    assert sorted(order) == list(range(1_000)) and (start[0], start[-1]) == (0, 1_000)
    for first, last in pairwise(start):
        assert len(set(group[order[first:last]])) <= 1


def test_constants_separate_items_of_equal_vectors():
    constants = np.repeat([0.0, 100.0], 50).astype(np.float32)
    order, start = cells(np.zeros((100, 3), np.float32), constants, 4)
    for first, last in pairwise(start):
        assert len(set(constants[order[first:last]])) <= 1


def test_equal_items_need_no_more_than_one_cell():
    order, start = cells(np.ones((50, 3), np.float32), np.zeros(50, np.float32), 7)
    assert sorted(order) == list(range(50)) and start[-1] == 50
