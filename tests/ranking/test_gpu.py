"""Ranking by PyTorch gives what the kernels give."""

import numpy as np
import pytest

pytest.importorskip("torch")

from engine.problems import random_rows

from fmpair.ranking import gpu
from fmpair.ranking.plain import RankingTask
from fmpair.ranking.ranks import judge
from fmpair.ranking.top import ranks, top


def tied(seed=0, queries=70, items=40):
    """Whole numbers, so that scores are exact and many are level; each query's hidden items."""
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, (queries, 3)).astype(np.float32)
    matrix = rng.integers(-2, 3, (4, items)).astype(np.float32)
    return vectors, matrix, random_rows(rng, queries, items, 15), rng


@pytest.mark.parametrize("n", [1, 7, 40, 60])
@pytest.mark.parametrize(("at_once", "items"), [(1, 40), (1 << 20, 40), (1 << 20, 703)])
def test_the_best_items_are_those_of_the_kernels(n, at_once, items, monkeypatch):
    monkeypatch.setattr(gpu, "SCORES_AT_ONCE", at_once)
    vectors, matrix, hidden, _ = tied(items=items)
    for wanted, got in zip(
        top(vectors, matrix, hidden, n), top(vectors, matrix, hidden, n, device="cpu")
    ):
        np.testing.assert_array_equal(got, wanted)


def test_ranks_are_those_of_the_kernels():
    vectors, matrix, hidden, rng = tied()
    target = rng.integers(0, 40, len(vectors)).astype(np.int32)
    wanted = ranks(vectors, matrix, hidden, target)
    for one, other in zip(wanted, ranks(vectors, matrix, hidden, target, device="cpu")):
        np.testing.assert_array_equal(other, one)


@pytest.mark.parametrize("best", [0, 5])
def test_lists_are_judged_as_the_kernels_judge_them(best):
    vectors, matrix, hidden, rng = tied()
    matrix[-1, 3] = -np.inf  # an item that the model does not know
    query = np.sort(rng.integers(0, len(vectors), 90))
    relevant = random_rows(rng, 90, 40, 6)
    relevant.column[:4] = -1
    task = RankingTask(query, rng.integers(0, len(vectors), 90), hidden, relevant)
    allowed = rng.random(40) < 0.8
    whole = np.column_stack([vectors, np.ones(len(vectors))]).astype(np.float32)
    wanted = judge(lambda asked: whole[asked] @ matrix, task, allowed, top=best, batch=8)
    got = gpu.judge(vectors, matrix, task, allowed, best, "cpu")
    for name, one, other in zip(wanted._fields, wanted, got):
        np.testing.assert_array_equal(other, one, err_msg=name)
