"""Evaluation against results worked out by hand and a plain second implementation."""

import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, Popularity
from fmpair.data.formats.research_sets import read_negatives
from fmpair.data.parts import split_of
from fmpair.data.public_sets import load_parts
from fmpair.data.splits import by_time, holdout, leave_last_out
from fmpair.errors import DataError, Notice, OptionError
from fmpair.evaluation import Protocol, evaluate, warm_and_cold
from fmpair.evaluation.protocol import preset
from fmpair.testing import day_and_night

NAMES = ("hit@3", "precision@3", "recall@3", "mrr@3", "ndcg@3", "map@3", "auc")


def events(pairs, **columns):
    user, item = zip(*pairs)
    return Dataset.from_frame({"user": list(user), "item": list(item), **columns}, context=[])


def fixed(scores):
    """A scorer that gives every query the same scores."""
    return lambda rows: np.tile(np.asarray(scores, np.float32), (len(rows), 1))


TRAIN = events([("a", 1), ("a", 2), ("b", 2), ("b", 3), ("b", 4), ("c", 5)])


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    data = Dataset.from_frame(
        {
            "user": rng.integers(0, 30, 900),
            "item": (40 * rng.random(900) ** 2).astype(int),
            "time": pl.Series(["day", "night"]).gather(rng.integers(0, 2, 900)),
        }
    )
    train, _, test = holdout(data, test=0.3).parts(data)
    model = FMPair(factors=4, epochs=3, threads=1).fit(train)
    return model, train, test


# Items 1 to 5 have events, 6 to 9 have none; 9 has no test event either.
CATALOGUE = TRAIN.with_items({"item": list(range(1, 10))})
BOTH = events([("a", 3), ("a", 6), ("b", 1), ("b", 7), ("c", 8), ("c", 7)])
BY_NUMBER = fixed([9, 8, 7, 6, 5, 4, 3, 2, 1])


def test_cold_items_are_ranked_among_themselves():
    found = evaluate(BY_NUMBER, CATALOGUE, BOTH, "cold", ["recall@1", "mrr@9"])
    assert found.units["user"].to_list() == ["a", "b", "c"]
    # 6, 7 and 8 are ranked: of a's the first, of b's the second, of c's the second and third.
    assert found.units["mrr@9[cold]"].to_list() == [1, 1 / 2, 1 / 2]
    assert found.means["recall@1[cold]"] == pytest.approx(1 / 3)
    warm = evaluate(BY_NUMBER, CATALOGUE, BOTH, "warm", ["mrr@9"])
    assert warm.units["mrr@9"].to_list() == [1, 1]  # 3 without 1 and 2, which a has; 1


def test_warm_cold_and_both_stand_in_one_table():
    table = warm_and_cold(BY_NUMBER, CATALOGUE, BOTH, ["recall@3"])
    assert table["items"].to_list() == ["warm", "cold", "both"]
    assert table["units"].to_list() == [2, 3, 3]
    # among all: a has 3, then 4, 5, 6; b has 1, then 5, 6, 7; c has 1, 2, 3 before 7 and 8
    assert table["recall@3"].to_list() == pytest.approx([1, 1, (1 / 2 + 1 / 2 + 0) / 3])
    assert warm_and_cold(BY_NUMBER, CATALOGUE, TRAIN)["items"].to_list() == ["warm", "both"]
    with pytest.raises(DataError, match="every item of the test events has training events"):
        evaluate(BY_NUMBER, CATALOGUE, TRAIN, "cold")


def test_an_interaction_is_ranked_without_what_the_user_has_seen():
    test = events([("a", 4), ("b", 5), ("c", 1)])
    found = evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, metrics=["mrr@10"])
    assert found.units["mrr@10"].to_list() == [1 / 2, 1 / 2, 1]
    assert found.units["item"].to_list() == [4, 5, 1]
    assert found.means == {"mrr@10": pytest.approx(2 / 3)}
    assert found.protocol == "interaction/all/seen=train"


def test_a_single_metric_may_be_given_without_a_list():
    test = events([("a", 4), ("b", 5), ("c", 1)])
    found = evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, metrics="mrr@10")
    assert found.means == {"mrr@10": pytest.approx(2 / 3)}


def test_a_user_may_have_several_items_to_find():
    test = events([("a", 4), ("a", 3), ("b", 1), ("a", 4)])
    found = evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, Protocol(unit="user"), ["recall@1"])
    assert found.units["user"].to_list() == ["a", "b"]
    assert found.units["recall@1"].to_list() == [1 / 2, 1]
    assert found.units["item"].to_list() == [None, 1]


def test_what_leaves_the_list_is_the_protocols_choice():
    test = events([("a", 5), ("a", 3)])
    scores = fixed([5, 4, 3, 2, 1])
    ranks = {
        seen: (1 / evaluate(scores, TRAIN, test, Protocol(seen=seen), ["mrr@9"]).units["mrr@9"])
        .round().to_list()
        for seen in ("none", "train", "train+test")
    }  # fmt: skip
    assert ranks == {"none": [5, 3], "train": [3, 1], "train+test": [2, 1]}


def test_candidates_are_the_protocols_choice():
    test = events([("a", 3), ("a", 9)])
    train = TRAIN.with_items(pl.DataFrame({"item": [9, 1, 2, 3, 4, 5]}))
    assert train.items.ids.to_list() == [1, 2, 3, 4, 5, 9]
    scores = fixed([6, 5, 1, 3, 2, 4])

    def ranks(**options):
        found = evaluate(scores, train, test, Protocol(**options), ["mrr@9"])
        return [0 if value == 0 else round(1 / value) for value in found.units[:, -1]]

    assert ranks() == [4, 1]
    assert ranks(candidates="train") == [3, 0]  # 9 has no training event: it is not ranked
    assert ranks(candidates="file", items=[3, 4]) == [2, 0]
    mine = pl.DataFrame({"user": ["a", "b"], "item": [5, 4]})
    assert ranks(candidates="file", items=mine) == [2, 1]


def test_a_list_of_nothing_but_the_relevant_item_is_refused():
    # The positives given in place of the negatives: every model would have a hit rate of 1.
    positives = pl.DataFrame({"user": ["a", "b"], "item": [3, 3]})
    test = events([("a", 3), ("b", 3)])
    alone = Protocol(candidates="file", items=positives, seen="none")
    with pytest.raises(DataError, match="only relevant items, so any model would be"):
        evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, alone)
    with pytest.raises(DataError, match="only relevant items"):
        evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, Protocol(candidates="file", items=[3]))


def test_users_without_an_item_to_rank_are_named():
    mine = pl.DataFrame({"user": ["a"], "item": [5]})
    test = events([("a", 3), ("b", 3)])
    with pytest.raises(DataError, match="1 of 2 users of test events have no candidates, such"):
        evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, Protocol(candidates="file", items=mine))


def test_negatives_of_a_file_are_what_the_positive_is_ranked_among(tmp_path):
    path = tmp_path / "a.test.negative"
    path.write_text("(a,3)\t4\t5\n(b,1)\t4\t5\n")
    protocol = Protocol(candidates="file", items=read_negatives(path), seen="none")
    test = events([("a", 3), ("b", 1)])
    found = evaluate(fixed([1, 2, 4, 3, 5]), TRAIN, test, protocol, ["mrr@9"])
    assert found.units[:, -1].to_list() == [1 / 2, 1 / 3]


def test_first_n_takes_items_in_the_order_training_brings_them_up():
    train = events([("b", 7), ("b", 3), ("a", 1), ("b", 5)])
    test = events([("a", 9), ("b", 9)])
    train = train.with_items(pl.DataFrame({"item": [9]}))
    assert train.items.ids.to_list() == [7, 3, 1, 5, 9]
    protocol = Protocol(candidates="first", n=2)
    # a: of 7 and 3 one is better than 9. b has all but 1.
    found = evaluate(fixed([5, 1, 4, 3, 2]), train, test, protocol, ["mrr@5"])
    assert found.units["mrr@5[first2]"].to_list() == [1 / 2, 1 / 2]
    assert found.corrected == {}


def test_repeated_pairs_and_old_pairs_can_be_left_out():
    test = events([("a", 1), ("a", 3), ("a", 3)])
    for relevant, units in (("all", 3), ("distinct", 2), ("new", 1)):
        assert len(evaluate(fixed(range(5)), TRAIN, test, Protocol(relevant=relevant)).units) == (
            units
        )
    with pytest.raises(DataError, match="no test event is relevant"):
        evaluate(fixed(range(5)), TRAIN, test.take(np.array([0])), Protocol(relevant="new"))


def test_a_missing_list_or_item_counts_nothing_and_coverage_tells():
    test = events([("a", 4), ("b", 5), ("b", 77), ("z", 1)])

    def scorer(rows):
        out = np.tile(np.arange(5, 0, -1, dtype=np.float32), (len(rows), 1))
        out[rows.frame()["user"].to_numpy() == "a"] = np.nan
        return out

    found = evaluate(scorer, TRAIN, test, metrics=["hit@5", "auc"])
    values = dict(zip(found.units["row"], found.units["hit@5"]))
    assert values == {0: 0, 1: 1, 2: 0, 3: 1}
    assert found.units["auc"].null_count() == 0
    assert found.coverage == 3 / 4


def test_equal_scores_count_by_chance():
    test = events([("c", 1)])
    found = evaluate(fixed([1, 1, 1, 1, 1]), TRAIN, test, metrics=["hit@1", "auc"])
    assert found.means == {"hit@1": pytest.approx(1 / 4), "auc": 1 / 2}


def test_gains_grade_the_items():
    test = events([("a", 3), ("a", 4), ("a", 5)], rating=[1.0, 3.0, 0.0])
    protocol = Protocol(unit="user", gain="rating")
    found = evaluate(fixed([5, 4, 3, 2, 1]), TRAIN, test, protocol, ["ndcg@2", "ndcg_exp@2"])
    second = 1 / np.log2(3)
    assert found.means["ndcg@2"] == pytest.approx((1 + 3 * second) / (3 + second))
    assert found.means["ndcg_exp@2"] == pytest.approx((1 + 7 * second) / (7 + second))
    with pytest.raises(OptionError, match="unknown column for gain 'stars'"):
        evaluate(fixed(range(5)), TRAIN, test, Protocol(gain="stars"))


def test_errors_of_ratings():
    test = events([("a", 3), ("a", 4), ("a", 99)], rating=[5.0, 2.0, 1.0])
    found = evaluate(fixed([1, 2, 3, 4, 5]), TRAIN, test, metrics=["rmse", "mae"])
    assert found.means == {"rmse": pytest.approx(2), "mae": 2}
    assert found.units["mae"].to_list() == [2, 2, None]
    with pytest.raises(OptionError, match="rating"):
        evaluate(fixed(range(5)), TRAIN, TRAIN, metrics=["rmse"])


def test_every_context_gets_its_own_list():
    data = day_and_night()
    train, _, test = holdout(data, test=0.2).parts(data)
    model = FMPair(factors=8, epochs=60, threads=1).fit(train)
    protocol = Protocol(unit="user-context", seen="train")
    inside = evaluate(model, train, test, protocol, ["auc"])
    assert len(inside.units) == test.frame().select("user", "time").n_unique()
    blind = evaluate(model, train, test, Protocol(unit="user"), ["auc"])
    assert len(blind.units) == test.frame()["user"].n_unique()
    # The context rules out the other half of the items; within the half all is chance.
    assert inside.means["auc"] > 0.7 > blind.means["auc"]


def test_only_that_very_contexts_items_leave_with_seen_context():
    train = Dataset.from_frame({"user": ["a", "a"], "item": [1, 2], "time": ["day", "night"]})
    test = Dataset.from_frame({"user": ["a", "a"], "item": [3, 3], "time": ["day", "dusk"]})
    train = train.with_items(pl.DataFrame({"item": [3]}))
    found = evaluate(fixed([3, 2, 1]), train, test, Protocol(seen="context"), ["mrr@5"])
    assert found.units["mrr@5"].to_list() == [1 / 2, 1 / 3]


def judged_plainly(model, train, test, protocol):
    """Rank (tie: middle) of every test event, one at a time, whole lists."""
    at = {item: n for n, item in enumerate(model.item_ids.tolist())}
    frame = test.frame()
    scores = model.query_vectors(frame.select("user", *test.context)) @ model.item_vectors.T
    scores += model.item_constants
    key = ["user", *test.context] if protocol.seen == "context" else ["user"]
    had = {}
    parts = [train.frame()] if protocol.seen != "train+test" else [train.frame(), frame]
    for part in parts if protocol.seen != "none" else []:
        for *owner, item in part.select(*key, "item").iter_rows():
            had.setdefault(tuple(owner), set()).add(at[item])
    ranks = []
    for row, (*owner, item) in zip(scores, frame.select(*key, "item").iter_rows()):
        own = row[at[item]]
        left = [n for n in range(len(row)) if n not in had.get(tuple(owner), ()) or n == at[item]]
        ranks.append(((row[left] > own).sum(), (row[left] == own).sum()))
    return np.array(ranks)


@pytest.mark.parametrize("seen", ["none", "train", "train+test", "context"])
def test_whole_lists_agree_with_a_plain_loop(world, seen):
    model, train, test = world
    protocol = Protocol(seen=seen)
    above, level = judged_plainly(model, train, test, protocol).T
    assert (level == 1).all()
    found = evaluate(model, train, test, protocol, ["mrr@100"])
    values = found.units.sort("row")["mrr@100"].to_numpy()
    np.testing.assert_allclose(values, 1 / (above + 1), rtol=1e-6)


@pytest.mark.parametrize("candidates", ["uniform", "popularity", "first"])
def test_a_sample_of_everything_is_the_whole_list(world, candidates):
    model, train, test = world
    whole = evaluate(model, train, test, Protocol(candidates="train", seen="train"), NAMES)
    part = evaluate(model, train, test, Protocol(candidates=candidates, seen="train"), NAMES)
    known = whole.units["item"].is_in(train.frame()["item"].unique().to_list())
    for name, column in zip(whole.metrics, part.metrics):
        assert column == f"{name}[{candidates[:3] if candidates != 'first' else 'first'}1000]"
        left, right = (u.filter(known)[c].to_numpy() for u, c in
                       ((whole.units, name), (part.units, column)))  # fmt: skip
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_results_do_not_depend_on_threads_or_batches(world, monkeypatch):
    model, train, test = world
    protocol = Protocol(candidates="uniform", n=5, seen="train+test")
    one = evaluate(model, train, test, protocol, NAMES, threads=1)
    monkeypatch.setattr(sys.modules[evaluate.__module__], "rows_at_once", lambda *_: 7)
    two = evaluate(model, train, test, protocol, NAMES, threads=2)
    assert one.units.equals(two.units)


def test_a_model_with_its_own_numbering_is_matched_by_ids(world):
    model, train, test = world
    own = Dataset.from_frame(train.frame().sample(fraction=1, shuffle=True, seed=1))
    found = evaluate(model, own, Dataset.from_frame(test.frame()), metrics=["mrr@9"])
    expected = evaluate(model, train.compact(), test, metrics=["mrr@9"])
    assert found.means == pytest.approx(expected.means, rel=1e-6)


def test_models_are_judged_among_the_same_draws_and_seeds_change_them(world):
    _, train, test = world
    model = Popularity().fit(train)
    uniform = [evaluate(model, train, test, Protocol(candidates="uniform", n=5, seed=s)).means
               for s in (0, 0, 1)]  # fmt: skip
    assert uniform[0] == uniform[1] != uniform[2]
    popular = evaluate(model, train, test, Protocol(candidates="popularity", n=5)).means
    assert popular["recall@10[pop5]"] == 1
    harder = evaluate(model, train, test, Protocol(candidates="popularity", n=5), ["auc"]).means
    easier = evaluate(model, train, test, Protocol(candidates="uniform", n=5), ["auc"]).means
    assert harder["auc[pop5]"] < easier["auc[uni5]"]


def test_what_cannot_be_judged_is_said():
    with pytest.raises(DataError, match=r"shape \(1, 5\), one score per item"):
        evaluate(fixed([1, 2]), TRAIN, events([("a", 3)]))
    with pytest.raises(OptionError, match="Recommender or a function"):
        evaluate(3, TRAIN, TRAIN)
    with pytest.raises(OptionError, match="candidates='all' or train"):
        evaluate(fixed(range(5)), TRAIN, TRAIN, Protocol(candidates="uniform"), ["gini@3"])


def one_plus_random(model, train, test, n, k, seed):
    """Recall and reciprocal rank at k of every test event among n random unseen items."""
    at = {item: number for number, item in enumerate(model.item_ids.tolist())}
    vectors = model.query_vectors(test.frame().select("user", *test.context))
    seen = {}
    for part in (train, test):
        for user, item in part.frame().select("user", "item").iter_rows():
            seen.setdefault(user, set()).add(at[item])
    pool = np.array([at[item] for item in train.frame()["item"].unique()])
    rng = np.random.default_rng(seed)
    recall = mrr = 0.0
    for vector, (user, item) in zip(vectors, test.frame().select("user", "item").iter_rows()):
        drawn = rng.permutation(pool)
        drawn = drawn[~np.isin(drawn, list(seen[user]))][:n]
        scores = model.item_vectors @ vector + model.item_constants
        rank = 1 + (scores[drawn] > scores[at[item]]).sum()
        recall += rank <= k
        mrr += (rank <= k) / rank
    return recall / len(test), mrr / len(test)


def test_one_plus_random_agrees_with_a_plain_loop(world):
    model, train, test = world
    plain = [one_plus_random(model, train, test, 10, 3, seed) for seed in range(15)]
    ours = []
    for seed in range(15):
        protocol = Protocol(candidates="uniform", n=10, seen="train+test", seed=seed)
        found = evaluate(model, train, test, protocol, ["recall@3", "mrr@3"])
        ours.append(list(found.means.values()))
    error = np.std(plain, axis=0) / np.sqrt(15) + np.std(ours, axis=0) / np.sqrt(15)
    assert (np.abs(np.mean(plain, axis=0) - np.mean(ours, axis=0)) < 3 * error + 1e-9).all()


@pytest.mark.realdata
def test_popularity_on_given_negatives_is_as_published():
    """MovieLens 1M with the negatives of the NCF paper: HR .4531, NDCG .2542."""
    train, test = load_parts("ml-1m-ncf")
    path = Path(os.environ["FMPAIR_DATA"]) / "ml-1m-ncf" / "ml-1m.test.negative.gz"
    protocol = Protocol(candidates="file", items=read_negatives(path), seen="none")
    found = evaluate(Popularity().fit(train), train, test, protocol, ["hit@10", "ndcg@10"])
    assert list(found.means.values()) == pytest.approx([0.4531, 0.2542], abs=0.001)


# Four events of either user, the times of b's all after a's second.
EVENTS = {
    "user": ["a", "a", "a", "a", "b", "b", "b", "b"],
    "item": [0, 1, 2, 3, 1, 2, 3, 4],
    "timestamp": [1, 2, 30, 40, 11, 21, 31, 41],
}
DATA = Dataset.from_frame(EVENTS)


def ranks(scores, train, test, protocol):
    """(user, item, rank) of every unit, for a scorer that gives everybody the same scores."""
    found = evaluate(
        lambda rows: np.tile(np.asarray(scores, np.float32), (len(rows), 1)),
        train, test, protocol, ["mrr@9"],
    )  # fmt: skip
    rows = found.units.select("user", "item", "mrr@9").rows()
    return [(user, item, round(1 / value)) for user, item, value in rows]


def test_the_last_event_tests_and_all_that_the_user_had_before_leaves_the_list():
    split = leave_last_out(DATA, validation=1)
    train, validation, test = split.parts(DATA)
    assert validation.frame()["item"].to_list() == [2, 3]
    assert test.frame()["item"].to_list() == [3, 4]
    worst = [5, 4, 3, 1, 2]  # of the items 0 to 4, all that a had stand above 3
    found = ranks(worst, split.before_test(DATA), test, preset("next-item"))
    assert found == [("a", 3, 2), ("b", 4, 2)]  # behind 4, behind 0: all others they had
    without_validation = ranks(worst, train, test, preset("next-item"))
    assert without_validation == [("a", 3, 3), ("b", 4, 2)]  # a's 2 was not known to be had


def test_of_a_users_test_events_the_next_new_item_is_relevant():
    split = by_time(DATA, after=30)
    train, _, test = split.parts(DATA)
    assert test.frame()["item"].to_list() == [2, 3, 3, 4]
    found = ranks([1, 2, 3, 4, 5], train, test, preset("next-item-in-time"))
    assert [(user, item) for user, item, _ in found] == [("a", 2), ("b", 3)]
    again = Dataset.from_frame({**EVENTS, "item": [0, 1, 1, 3, 1, 2, 3, 4]})
    train, _, test = split.parts(again)
    found = ranks([1, 2, 3, 4, 5], train, test, preset("next-item-in-time"))
    assert [(user, item) for user, item, _ in found] == [("a", 3), ("b", 3)]  # 1 is not new to a


def test_of_test_events_at_one_time_the_first_row_is_next():
    data = Dataset.from_frame({"user": ["a"] * 3, "item": [0, 2, 1], "timestamp": [1, 5, 5]})
    train, test = data.take(np.array([0])), data.take(np.array([1, 2]))
    assert ranks([0, 0, 0], train, test, Protocol(relevant="next"))[0][:2] == ("a", 2)


def judged(train, test, protocol):
    return evaluate(lambda rows: np.zeros((len(rows), 5)), train, test, protocol)


def test_training_on_later_events_is_refused_by_name():
    train, _, test = leave_last_out(DATA).parts(DATA)
    judged(train, test, "next-item-in-time")
    moved = Dataset.from_frame({**EVENTS, "timestamp": [1, 2, 3, 20, 11, 21, 31, 41]})
    train, _, test = leave_last_out(moved).parts(moved)
    judged(train, test, "next-item")
    with pytest.raises(DataError, match="1 of 2 test events are older than the latest training "
                       "event of all users, so the model is trained on later events"):  # fmt: skip
        judged(train, test, "next-item-in-time")
    first, rest = DATA.take(np.array([0, 4])), DATA.take(np.array([1, 2, 3, 5, 6, 7]))
    with pytest.raises(DataError, match=r"2 of 2 test .* training event of their user"):
        judged(rest, first, "next-item")


def test_events_without_times_or_an_order_have_no_next_item():
    bare = Dataset.from_frame({"user": EVENTS["user"], "item": EVENTS["item"]})
    train, test = bare.take(np.arange(6)), bare.take(np.arange(6, 8))
    with pytest.raises(DataError, match="after='user' needs timestamps, and the training events"):
        judged(train, test, "next-item")
    with pytest.raises(DataError, match="the data have no times"):
        evaluate(lambda rows: np.zeros((len(rows), 5)), train, test, Protocol(relevant="next"))


def test_an_order_of_each_users_rows_is_enough_for_next_but_not_for_all():
    data = Dataset.from_frame(
        {"user": EVENTS["user"], "item": EVENTS["item"]}, order="per-user"
    )  # fmt: skip
    split = leave_last_out(data, validation=1)
    known, test = split.before_test(data), split.parts(data)[2]
    found = ranks([5, 4, 3, 1, 2], known, test, preset("next-item"))
    assert found == [("a", 3, 2), ("b", 4, 2)]
    with pytest.raises(DataError, match="different users is unknown; use after='user'"):
        ranks([5, 4, 3, 1, 2], known, test, preset("next-item-in-time"))


def test_a_model_that_goes_by_what_came_last_is_not_judged_unsaid_by_what_came_earlier():
    rng = np.random.default_rng(0)
    events = pl.DataFrame(
        {
            "user": rng.integers(0, 30, 600),
            "item": rng.integers(0, 20, 600),
            "timestamp": np.arange(600),
        }
    )
    data = Dataset.from_frame(events)
    train, _, test = holdout(data, test=0.3).parts(data)
    model = FMPair(history=3, factors=4, epochs=1).fit(train)
    with pytest.warns(Notice, match=r"test events are older: .*history=0"):
        evaluate(model, train, test)


def test_training_events_of_a_random_split_have_gaps_and_those_of_a_split_in_time_none():
    frame = pl.DataFrame({"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3] * 2, "timestamp": range(6)})
    data = Dataset.from_frame(frame)
    assert not leave_last_out(data).parts(data)[0].gaps
    assert split_of(np.array([1, 2, 4, 5]), np.zeros(0), np.array([0, 3])).parts(data)[0].gaps


def test_users_who_have_interacted_with_all_other_items_have_nothing_left_to_rank():
    train = Dataset.from_frame(
        pl.DataFrame({"user": ["ann"] * 3 + ["bob"], "item": ["x", "y", "z", "x"]})
    )
    model = Popularity().fit(train)
    test = Dataset.from_frame(pl.DataFrame({"user": ["ann"], "item": ["z"]}))
    with pytest.raises(DataError, match=r"^nothing is left to rank: every user of the test events"):
        evaluate(model, train, test, Protocol(seen="train"))
    assert evaluate(model, train, test, Protocol(seen="none")).means
