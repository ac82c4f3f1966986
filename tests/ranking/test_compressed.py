"""Lists of the pass over int8 vectors are those of scoring every item, to the bit."""

import numpy as np
import pytest

from fmpair.arrays import Rows, empty_rows, group_rows
from fmpair.fitted.large_catalogue import cells
from fmpair.ranking.compressed import pack, repacked, top, top_given, with_constants
from fmpair.ranking.top import item_matrix
from fmpair.ranking.top import top as full_product

ITEMS, FACTORS, QUERIES = 3_001, 37, 5


def gaussian(draw):
    return draw.standard_normal((ITEMS, FACTORS)), draw.standard_normal(ITEMS)


def ties(draw):
    return draw.integers(-1, 2, (ITEMS, FACTORS)), np.zeros(ITEMS)


def equal(draw):
    return np.tile(draw.standard_normal(FACTORS), (ITEMS, 1)), np.zeros(ITEMS)


def zeros(draw):
    return np.zeros((ITEMS, FACTORS)), draw.integers(0, 3, ITEMS)


def huge_and_tiny(draw):
    length = 10.0 ** draw.integers(-30, 16, (ITEMS, 1))
    return length * draw.standard_normal((ITEMS, FACTORS)), draw.standard_normal(ITEMS)


def near_ties(draw):
    """Apart by less than the codes can tell."""
    one = draw.standard_normal(FACTORS)
    return one + 1e-6 * draw.standard_normal((ITEMS, FACTORS)), np.full(ITEMS, 3.0)


def subnormal(draw):
    return 1e-41 * draw.standard_normal((ITEMS, FACTORS)), np.zeros(ITEMS)


def one_outlier(draw):
    vectors = draw.standard_normal((ITEMS, FACTORS))
    vectors[:, 3] *= 1e4
    return vectors, 1e6 * draw.standard_normal(ITEMS)


def few_directions(draw):
    """Most of the spread is on a few axes around a mean, and codes leave out the others."""
    turn = np.linalg.qr(draw.standard_normal((FACTORS, FACTORS)))[0]
    spread = 10.0 ** -np.arange(FACTORS)[:, None].clip(0, 3)
    vectors = 5 * turn[3] + draw.standard_normal((ITEMS, FACTORS)) @ (spread * turn)
    return vectors, draw.standard_normal(ITEMS)


KINDS = [
    few_directions,
    gaussian,
    ties,
    equal,
    zeros,
    huge_and_tiny,
    near_ties,
    subnormal,
    one_outlier,
]


def case(kind, seed=0):
    draw = np.random.default_rng(seed)
    vectors, constants = (part.astype(np.float32) for part in kind(draw))
    queries = draw.standard_normal((QUERIES, FACTORS)).astype(np.float32)
    queries[1] = 0
    if kind is ties:
        queries = draw.integers(-2, 3, queries.shape).astype(np.float32)
    owner, item = np.repeat(np.arange(QUERIES), 40), draw.integers(0, ITEMS, QUERIES * 40)
    return queries, vectors, constants, group_rows(owner, item, QUERIES)


def eight_sums(query, vectors):
    """The products as the module adds them, in NumPy's float64."""
    products = query.astype(np.float64) * vectors.astype(np.float64)
    whole = FACTORS // 8 * 8
    sums = np.zeros((len(vectors), 8))
    for first in range(0, whole, 8):
        sums += products[:, first : first + 8]
    for rest in range(whole, FACTORS):
        sums[:, 0] += products[:, rest]
    a, b, c, d, e, f, g, h = sums.T
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


def every_score(queries, vectors, constants, hidden, mask, n):
    """The lists of scoring every item: ties go to the lower number."""
    lists = []
    for q, query in enumerate(queries):
        score = (eight_sums(query, vectors) + constants.astype(np.float64)).astype(np.float32)
        allowed = mask.copy()
        allowed[hidden.row(q)] = False
        item = np.flatnonzero(allowed)
        item = item[np.argsort(-score[item], kind="stable")][:n]
        lists.append((item.tolist(), score[item].tobytes()))
    return lists


def as_lists(best):
    item, score, size = best
    return [(i[:k].tolist(), s[:k].tobytes()) for i, s, k in zip(item, score, size)]


@pytest.mark.parametrize("kind", KINDS)
def test_lists_are_those_of_scoring_every_item(kind):
    queries, vectors, constants, hidden = case(kind)
    whole, draw = pack(vectors, constants), np.random.default_rng(7)
    for share, n in ((1.0, 10), (0.5, 60), (0.05, 10), (0.002, 10), (0.0, 3)):
        mask = draw.random(ITEMS) < share
        packed = with_constants(whole, np.where(mask, constants, -np.inf))
        wanted = every_score(queries, vectors, constants, hidden, mask, n)
        for threads in (1, 2, 3):
            found = top(queries, vectors, packed, hidden, n, threads)
            assert as_lists(found) == wanted
        alone = [top(q[None], vectors, packed, _row(hidden, r), n, 1)
                 for r, q in enumerate(queries)]  # fmt: skip
        assert [one for best in alone for one in as_lists(best)] == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_cells_at_full_reach_miss_nothing(kind):
    queries, vectors, constants, hidden = case(kind)
    cell = np.random.default_rng(3).integers(0, 20, ITEMS)
    cell[cell == 7] = 8  # an empty cell
    order, start = np.argsort(cell, kind="stable"), np.searchsorted(np.sort(cell), np.arange(21))
    whole = pack(vectors, constants, order, start)
    for share in (1.0, 0.05):
        mask = np.random.default_rng(7).random(ITEMS) < share
        packed = with_constants(whole, np.where(mask, constants, -np.inf))
        wanted = every_score(queries, vectors, constants, hidden, mask, 10)
        for threads in (1, 2):
            found = top(queries, vectors, packed, hidden, 10, threads, reach=1.0)
            assert as_lists(found) == wanted


def test_a_few_given_items_have_the_same_scores():
    queries, vectors, constants, _ = case(gaussian)
    chosen = np.arange(0, ITEMS, 100)
    places = Rows(np.arange(QUERIES + 1), np.full(QUERIES, 2, np.int32), np.ones(QUERIES))
    only = np.where(np.isin(np.arange(ITEMS), chosen), constants, -np.inf)
    hidden = places._replace(column=chosen[places.column].astype(np.int32))
    item, score, size = top_given(queries, vectors, constants, chosen, places, 5)
    found = top(queries, vectors, pack(vectors, only), hidden, 5)
    assert as_lists((chosen[item], score, size)) == as_lists(found)


def test_whole_numbers_are_ranked_as_by_the_product_of_matrices():
    queries, vectors, constants, hidden = case(ties)
    wanted = full_product(queries, item_matrix(vectors, constants), hidden, 10)
    assert as_lists(top(queries, vectors, pack(vectors, constants), hidden, 10)) == as_lists(wanted)


def test_other_constants_replace_the_first():
    queries, vectors, constants, hidden = case(gaussian)
    packed = with_constants(pack(vectors, constants * 0), constants)
    wanted = top(queries, vectors, pack(vectors, constants), hidden, 10)
    assert as_lists(top(queries, vectors, packed, hidden, 10)) == as_lists(wanted)


def test_an_item_without_a_score_is_not_listed():
    vectors, query = np.eye(4, dtype=np.float32), np.ones((1, 4), np.float32)
    constants = np.array([0, -np.inf, np.nan, 1], np.float32)
    item, _, size = top(query, vectors, pack(vectors, constants), empty_rows(1), 4)
    assert item[0, : size[0]].tolist() == [3, 0]


def test_items_far_below_the_best_are_not_scored():
    """What the pass is for: the codes alone rule out nearly all items."""
    queries, vectors, constants, _ = case(gaussian)
    order = np.argsort(-(vectors @ queries[0] + constants))
    packed, nothing = pack(vectors, constants, order, np.array([0, ITEMS])), empty_rows(1)
    wanted = top(queries[:1], vectors, packed, nothing, 10, threads=1)
    vectors[order[100:]] = 1e6 * queries[0]  # would be the best if they were looked at
    found = top(queries[:1], vectors, packed, nothing, 10, threads=1)
    assert as_lists(found) == as_lists(wanted)


def _row(rows, number):
    column = rows.row(number)
    return Rows(np.array([0, len(column)]), column, np.ones(len(column), np.float32))


def test_codes_cover_the_axes_of_the_largest_spread():
    _, vectors, constants, _ = case(few_directions)
    packed = pack(vectors, constants)
    assert packed.axes.shape == (FACTORS, 32) and packed.codes.shape == (ITEMS, 32)
    np.testing.assert_allclose(packed.axes.T @ packed.axes, np.eye(32), atol=1e-12)
    assert (packed.facts[2] < 0.01 * packed.facts[1]).all()
    assert pack(*case(gaussian)[1:3]).codes.shape == (ITEMS, 64)  # nothing to leave out


# Of many items a few are changed: only these are compressed again.

MANY, NEW, AXES, N = 3_000, 40, 48, 10


def generated(count, seed):
    """Vectors whose spread falls from axis to axis, so that codes leave some axes out."""
    draw = np.random.default_rng(seed)
    spread = np.exp(-np.arange(AXES) / 6)
    return (draw.standard_normal((count, AXES)) * spread).astype(np.float32)


@pytest.mark.parametrize("in_cells", [False, True])
@pytest.mark.parametrize("new", [0, NEW])
def test_lists_with_changed_and_new_items_are_those_of_all_scores(in_cells, new):
    vectors, constants = generated(MANY, 0), generated(MANY, 1)[:, 0]
    arranged = cells(vectors, constants, 50) if in_cells else (None, None)
    before = pack(vectors, constants, *arranged)
    kept = [array.copy() for array in before[:9]]
    moved = np.arange(0, MANY, 60)
    after = np.concatenate([vectors, 3 * generated(new, 2)])
    after[moved] = 3 * generated(len(moved), 3)  # longer, so that many are on the lists
    constants = np.concatenate([constants, np.ones(new, np.float32)])
    packed = repacked(before, after, constants, np.append(moved, np.arange(MANY, MANY + new)))
    queries = generated(30, 4)
    scores = queries.astype(np.float64) @ after.T.astype(np.float64) + constants
    wanted = np.argsort(-scores, axis=1)[:, :N]
    assert np.isin(wanted, moved).mean() > 0.2 and (not new or (wanted >= MANY).any())
    item, _, _ = top(queries, after, packed, empty_rows(30), N, reach=1.0 if in_cells else None)
    np.testing.assert_array_equal(item, wanted)
    for array, same in zip(before, kept):  # others may still be answered by them
        np.testing.assert_array_equal(array, same)
