"""Plain NumPy makes the same lists as the kernels, to the last tie."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.arrays import group_rows
from fmpair.ranking import plain, ranks, top
from fmpair.ranking.plain import IN_ORDER, UNIFORM, WEIGHTED, Pool, RankingTask

# Few different values, so that ties abound, and those that are never listed.
VALUES = np.array([-np.inf, np.nan, np.inf, -1, -0.0, 0.0, 0.5, 0.5, 2], np.float32)


@st.composite
def tables(draw):
    """(a random generator, scores [queries, items], hidden items of each query)."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 30))
    if draw(st.booleans()):
        scores = rng.choice(VALUES[draw(st.sampled_from([0, 3])) :], shape)
    else:
        scores = rng.normal(size=shape).astype(np.float32)
    hidden = rng.random(shape) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    return rng, scores, group_rows(*np.nonzero(hidden), len(scores))


def same(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


@given(tables(), st.integers(1, 40), st.integers(0, 3))
@settings(max_examples=200)
def test_the_best_are_the_same(table, n, first):
    _, scores, hidden = table
    n, queries = min(n, scores.shape[1]), first + len(scores)
    start = np.concatenate([np.zeros(first, np.int64), hidden.start])

    def best(select):
        best = np.full((queries, n), -1, np.int32)
        score, filled = np.full((queries, n), -np.inf, np.float32), np.zeros(queries, np.int64)
        select(scores.copy(), first, start, hidden.column, n, best, score, filled)
        return best, score, filled

    same(best(plain.select), best(top.select))


@given(tables())
@settings(max_examples=200)
def test_the_ranks_are_the_same(table):
    rng, scores, hidden = table
    target = rng.integers(0, scores.shape[1], len(scores))

    def ranked(rank):
        above, level = np.zeros((2, len(scores)), np.int64)
        rank(scores.copy(), 0, hidden.start, hidden.column, target, above, level)
        return above, level

    same(ranked(plain.rank), ranked(top._rank))


def task_of(rng, scores, hidden, units):
    """Units that ask the rows of scores in order, each with some relevant items or unknown ones."""
    owner = rng.integers(0, hidden.size, units)
    relevant = rng.random((units, scores.shape[1] + 1)) < 0.2
    unit, item = np.nonzero(relevant)
    rows = group_rows(unit, item, units)
    rows = rows._replace(column=(rows.column - 1).astype(np.int32))  # -1 has no score
    return RankingTask(np.sort(rng.integers(0, len(scores), units)), owner, hidden, rows)


def counted(values, start, score, count):
    above, level = np.zeros((2, len(score)), np.int64)
    listed = np.zeros(len(values), np.int64)
    count(values, 0, start, score, above, level, listed)
    return values, score, above, level, listed


@given(tables(), st.integers(1, 6))
@settings(max_examples=100)
def test_whole_lists_are_judged_the_same(table, units):
    rng, scores, hidden = table
    task, allowed = task_of(rng, scores, hidden, units), rng.random(scores.shape[1]) < 0.8

    def judged(mask, count):
        values = np.empty((units, scores.shape[1]), np.float32)
        score = np.zeros(len(task.relevant.column), np.float32)
        mask(scores, task.query, 0, task, allowed, values, score)
        return counted(values, task.relevant.start, score, count)

    same(judged(plain.mask, plain.count), judged(ranks._mask, ranks._count))


@given(tables(), st.integers(1, 6), st.sampled_from([IN_ORDER, UNIFORM, WEIGHTED]))
@settings(max_examples=150)
def test_samples_are_drawn_and_judged_the_same(table, units, kind):
    rng, scores, hidden = table
    items = scores.shape[1]
    task = task_of(rng, scores, hidden, units)
    candidates = group_rows(*np.nonzero(rng.random((2, items)) < 0.8), 2)
    pool = Pool(
        rng.integers(0, 2, units), candidates, rng.random(items) + 0.1, kind,
        int(rng.integers(1, items + 1)), np.uint64(rng.integers(0, 2**63)),
    )  # fmt: skip

    def judged(draw, count):
        longest = int(np.diff(task.relevant.start).max())
        values = np.full((units, pool.most + longest), -np.inf, np.float32)
        score = np.zeros(len(task.relevant.column), np.float32)
        eligible = np.zeros(units, np.int64)
        draw(scores, task.query, 0, task, pool, values, score, eligible)
        return eligible, *counted(values, task.relevant.start, score, count)

    same(judged(plain.draw, plain.count), judged(ranks._draw, ranks._count))


@given(tables())
@settings(max_examples=100)
def test_what_rows_share_is_the_same(table):
    rng, _, rows = table
    left, right = rng.integers(0, rows.size, (2, 4))
    ours = plain.shared(rows.start, rows.column, left, right)
    np.testing.assert_array_equal(ours, ranks.shared(rows.start, rows.column, left, right))
