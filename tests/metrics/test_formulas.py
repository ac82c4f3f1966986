"""Every formula against enumeration where scores tie, and against plain code where they do not."""

from itertools import pairwise, permutations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair.metrics import Metric, Placement

NAMES = ("hit", "precision", "recall", "mrr", "ndcg", "ndcg_exp", "map", "map_all")


def placed(lists):
    """The Placement of (scores of the list, gain by place in the list, gains missing from it)."""
    start, above, level, gain, listed = [0], [], [], [], []
    for scores, gains, missing in lists:
        scores = np.asarray(scores)
        for place, value in gains.items():
            above.append((scores > scores[place]).sum())
            level.append((scores == scores[place]).sum())
            gain.append(value)
        above += [0] * len(missing)
        level += [0] * len(missing)
        gain += missing
        start.append(len(above))
        listed.append(len(scores))
    return Placement(
        *(np.array(x, np.int64) for x in (start, above, level)),
        np.array(gain, float),
        np.array(listed, np.int64),
    )


def plain(name, k, order, gains, missing):
    """The textbook value of one order of a list, item by item."""
    ranks = {place: rank for rank, place in enumerate(order, 1) if place in gains}
    found = sorted(rank for rank in ranks.values() if rank <= k)
    relevant = len(gains) + len(missing)
    if name == "hit":
        return float(bool(found))
    if name == "precision":
        return len(found) / k
    if name == "recall":
        return len(found) / relevant
    if name == "mrr":
        return 1 / found[0] if found else 0.0
    if name.startswith("map"):
        total = sum(n / rank for n, rank in enumerate(found, 1))
        return total / (min(k, relevant) if name == "map" else relevant)
    if name == "auc":
        others = len(order) - len(gains)
        if not others:
            return len(gains) / relevant
        won = sum(sum(other not in gains for other in order[ranks[place] :]) for place in gains)
        return won / (others * relevant)

    def worth(gain):
        return gain if name == "ndcg" else 2**gain - 1

    dcg = sum(worth(gains[place]) / log2(rank + 1) for place, rank in ranks.items() if rank <= k)
    best = sorted([*map(worth, gains.values()), *map(worth, missing)], reverse=True)[:k]
    return dcg / sum(value / log2(rank + 1) for rank, value in enumerate(best, 1))


def enumerated(name, k, scores, gains, missing):
    """The mean over all orders that agree with the scores."""
    values = [
        plain(name, k, order, gains, missing)
        for order in permutations(range(len(scores)))
        if all(scores[a] >= scores[b] for a, b in pairwise(order))
    ]
    return np.mean(values)


@st.composite
def tied_lists(draw):
    scores = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    places = draw(st.sets(st.integers(0, len(scores) - 1)))
    gains = {place: draw(st.integers(1, 3)) for place in sorted(places)}
    missing = draw(st.lists(st.integers(1, 3), min_size=0 if gains else 1, max_size=2))
    return scores, gains, missing


@settings(max_examples=150, deadline=None)
@given(st.lists(tied_lists(), min_size=1, max_size=3), st.integers(1, 7))
def test_ties_count_what_all_their_orders_give_on_the_mean(lists, k):
    placement = placed(lists)
    for name in (*NAMES, "auc"):
        metric = Metric(name, 0 if name == "auc" else k)
        expected = [enumerated(name, k, *one) for one in lists]
        np.testing.assert_allclose(metric.of(placement), expected, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("name", [*NAMES, "auc"])
def test_thousands_of_lists_without_ties_agree_with_plain_code(name):
    rng = np.random.default_rng(1)
    lists = []
    for _ in range(3000):
        length = rng.integers(1, 40)
        places = rng.permutation(length)[: rng.integers(1, 8)]
        gains = {int(place): int(rng.integers(1, 5)) for place in places}
        lists.append((rng.permutation(length), gains, [1] * int(rng.integers(0, 2))))
    orders = [np.argsort(-scores).tolist() for scores, _, _ in lists]
    k = 10
    expected = [plain(name, k, o, gains, lost) for o, (_, gains, lost) in zip(orders, lists)]
    values = Metric(name, 0 if name == "auc" else k).of(placed(lists))
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_one_relevant_item_gives_the_same_by_rank_and_by_placement(name):
    rank = np.arange(1, 30)
    lists = [(-np.arange(30), {r - 1: 1}, []) for r in rank]
    metric = Metric.parse(f"{name}@10")
    np.testing.assert_allclose(metric.of(placed(lists)), metric.values(rank))


def test_a_huge_tie_counts_its_share():
    scores = np.zeros(1000)
    placement = placed([(scores, {0: 1}, []), (scores, dict.fromkeys(range(500), 1), [])])
    np.testing.assert_allclose(Metric.parse("hit@10").of(placement)[0], 0.01)
    none = np.prod([(500 - j) / (1000 - j) for j in range(10)])
    np.testing.assert_allclose(Metric.parse("hit@10").of(placement)[1], 1 - none)
    np.testing.assert_allclose(Metric.parse("precision@10").of(placement), [0.001, 0.5])


def test_ir_measures_agrees():
    ir = pytest.importorskip("ir_measures")
    rng = np.random.default_rng(2)
    measures = {"precision@5": ir.P @ 5, "recall@5": ir.R @ 5, "ndcg@5": ir.nDCG @ 5,
                "mrr@5": ir.RR @ 5, "map_all@5": ir.AP @ 5}  # fmt: skip
    lists, truth, run = [], [], []
    for q in range(1000):
        length = int(rng.integers(5, 30))
        scores = rng.permutation(length).astype(float)
        places = rng.permutation(length)[: rng.integers(1, 6)].tolist()
        lists.append((scores, dict.fromkeys(places, 1), []))
        truth += [ir.Qrel(str(q), str(place), 1) for place in places]
        run += [ir.ScoredDoc(str(q), str(p), s) for p, s in enumerate(scores)]
    placement = placed(lists)
    theirs = ir.calc_aggregate(list(measures.values()), truth, run)
    for name, measure in measures.items():
        assert Metric.parse(name).of(placement).mean() == pytest.approx(theirs[measure])
