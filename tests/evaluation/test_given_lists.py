"""Lists from files are judged like models, and compared with each other."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.data.splits import holdout
from fmpair.errors import DataError, Notice, OptionError
from fmpair.evaluation import Protocol, evaluate
from fmpair.evaluation.given_lists import judge, overlap, read_lists, scorer
from fmpair.testing import day_and_night

TRAIN = Dataset.from_frame({"user": ["a", "a", "b", "c"], "item": [1, 2, 3, 4]})
TEST = Dataset.from_frame({"user": ["a", "b", "c"], "item": [3, 1, 1]})


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def test_tables_with_scores_or_ranks_are_read(tmp_path):
    scores = write(tmp_path, "a.csv", "user_id,item_id,score,title\na,3,0.5,x\na,4,0.7,y\n")
    frame = read_lists(scores)
    assert frame.columns == ["user", "item", "score", "title"]
    assert frame["score"].to_list() == [0.5, 0.7]
    ranks = write(tmp_path, "b.tsv", "user\titem\trank\na\t3\t1\na\t4\t2\n")
    assert read_lists(ranks)["score"].to_list() == [-1, -2]
    lines = write(tmp_path, "c.jsonl", '{"user": 7, "item": "x", "rank": 3}\n')
    assert read_lists(lines).row(0) == (7, "x", -3)
    frame.write_parquet(tmp_path / "d.parquet")
    assert read_lists(tmp_path / "d.parquet").equals(frame)


def test_a_trec_run_is_known_by_its_name_or_its_first_line(tmp_path):
    text = "007 Q0 12 1 9.5 ours\n007\tQ0\t13  2 8.25 ours\n\n8 q0 12 1 -1e3 ours\n"
    for name in ("x.run", "x.txt"):
        frame = read_lists(write(tmp_path, name, text))
        assert frame.rows() == [("007", 12, 9.5), ("007", 13, 8.25), ("8", 12, -1000)]
    frame = read_lists(write(tmp_path, "y.csv", text), format="trec")
    assert len(frame) == 3


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "user,item\na,1\n", "needs a numeric column 'score' or 'rank'"),
        ("b.csv", "user,score\na,1\n", "has no item column"),
        ("c.csv", "user,item,score\na,1,high\n", "needs a numeric column"),
        ("d.run", "a Q0 1 1 0.5 x\na Q0 1 1\n", r"line 2 of .* six fields"),
        ("e.run", "a Q0 1 1 best x\n", "score in .* is not a number"),
    ],
)
def test_a_file_that_holds_no_lists_is_refused(tmp_path, name, text, words):
    with pytest.raises(DataError, match=words):
        read_lists(write(tmp_path, name, text))


def test_lists_are_judged_by_place_and_a_missing_one_counts_nothing():
    lists = pl.DataFrame(
        {"user": ["a", "a", "b", "b"], "item": [4, 3, 4, 2], "score": [2, 1, 2, 1]}
    )
    found = judge(lists, TRAIN, TEST, metrics=["mrr@5"])
    assert dict(zip(found.units["user"], found.units["mrr@5"])) == {"a": 1 / 2, "b": 0, "c": 0}
    assert found.coverage == 2 / 3
    assert found.protocol == Protocol().id


def test_what_was_seen_leaves_a_list_and_what_training_lacks_keeps_its_place():
    lists = pl.DataFrame({"user": ["a"] * 4, "item": [1, 99, 2, 3], "score": [4, 3, 2, 1]})
    test = TEST.take(np.array([0]))
    assert judge(lists, TRAIN, test, metrics=["mrr@5"]).means["mrr@5"] == 1 / 2
    late = Dataset.from_frame({"user": ["a"], "item": [99]})
    assert judge(lists, TRAIN, late, metrics=["mrr@5"]).means["mrr@5"] == 1


def test_lists_without_seen_items_are_warned_about_where_test_events_repeat():
    test = Dataset.from_frame({"user": ["a", "b", "c"], "item": [1, 3, 1]})  # b chose 3 before
    unseen = pl.DataFrame({"user": ["a", "b"], "item": [4, 2], "score": [1, 1]})
    with pytest.warns(Notice, match=r"2 of 3 test events \(67%\) repeat one"):
        judge(unseen, TRAIN, test)
    judge(unseen, TRAIN, test, Protocol(relevant="new"))  # only c's event counts
    judge(unseen.extend(pl.DataFrame({"user": ["a"], "item": [2], "score": [0]})), TRAIN, test)


def test_equal_scores_count_by_chance_and_errors_of_ratings_are_those_of_the_scores():
    lists = pl.DataFrame({"user": ["a", "a"], "item": [3, 4], "score": [2.5, 2.5]})
    test = Dataset.from_frame({"user": ["a"], "item": [3], "rating": [4.0]})
    found = judge(lists, TRAIN, test, metrics=["hit@1", "rmse"])
    assert found.means == {"hit@1": 1 / 2, "rmse": 1.5}


@pytest.mark.parametrize(
    "protocol",
    [Protocol(), Protocol(unit="user-context"), Protocol(candidates="uniform", n=5, seed=1)],
    ids=lambda protocol: protocol.id,
)
def test_a_models_own_lists_are_worth_what_the_model_is(protocol):
    data = day_and_night()
    train, _, test = holdout(data, test=0.2).parts(data)
    model = FMPair(factors=4, epochs=5, threads=1).fit(train)
    asked = test.frame().select("user", "time").unique(maintain_order=True)
    lists = model.recommend(asked, n=20, exclude_seen=False).drop("rank")
    names = ["ndcg@5", "recall@3", "auc"]
    ours, theirs = evaluate(model, train, test, protocol, names), judge(
        lists.sample(fraction=1, shuffle=True, seed=0), train, test, protocol, names
    )  # fmt: skip
    assert theirs.means == pytest.approx(ours.means)
    assert theirs.coverage == 1


def test_lists_in_context_need_a_unit_that_has_one():
    data = day_and_night()
    lists = data.frame().unique(maintain_order=True).with_columns(score=1.0)
    with pytest.raises(OptionError, match=r"depend on context \(time\): evaluate with unit"):
        judge(lists, data, data, Protocol(unit="user"))
    assert judge(lists, data, data, Protocol(unit="user-context")).coverage == 1


def test_a_list_may_be_made_where_the_context_is_missing():
    train = Dataset.from_frame({"user": ["a", "b"], "item": [1, 2], "time": ["day", None]})
    test = Dataset.from_frame({"user": ["a", "a"], "item": [2, 3], "time": [None, "day"]})
    lists = pl.DataFrame({"user": "a", "item": [2, 3], "time": [None, "day"], "score": 1})
    assert judge(lists, train, test, metrics=["hit@1"]).units["hit@1"].to_list() == [1, 1]


def test_lists_that_cannot_be_used_are_refused():
    twice = pl.DataFrame({"user": ["a", "a"], "item": [3, 3], "score": [2, 1]})
    with pytest.raises(DataError, match="a list has an item twice"):
        judge(twice, TRAIN, TEST)
    scores_unknown_users = pl.DataFrame({"user": ["x"], "item": [3], "score": [2]})
    with pytest.raises(DataError, match="no user of the lists is in the test events"):
        judge(scores_unknown_users, TRAIN, TEST)


def test_a_batch_is_all_the_memory_it_takes():
    lists = pl.DataFrame({"user": ["a"], "item": [3], "score": [1.0]})
    scores = scorer(lists, TRAIN, TEST)(TEST.take(np.array([2, 0])))
    assert scores.shape == (2, 4) and scores.dtype == np.float32
    assert (scores > -np.inf).sum() == 1 and scores[1, 2] == 1


def test_the_overlap_of_two_files_is_counted_by_hand():
    one = pl.DataFrame({"user": [1, 1, 1, 2, 3], "item": list("abcaz"), "score": [3, 2, 1, 1, 1]})
    two = pl.DataFrame({"user": [1, 1, 1, 2], "item": list("bacq"), "score": [3, 2, 1, 1]})
    found = overlap(one, two, cutoffs=(1, 2, 3))
    assert found["lists"].to_list() == [3, 3, 3]
    assert found["in both"].to_list() == [2, 2, 2]
    assert found["jaccard"].to_list() == pytest.approx([0, 1 / 3, 1 / 3])
    assert overlap(one, one, cutoffs=(2,))["jaccard"].item() == 1


def test_a_users_lists_in_several_contexts_are_compared_each_by_itself():
    one = pl.DataFrame({"user": [1, 1], "time": ["day", None], "item": ["a", "b"], "score": 1})
    two = one.with_columns(item=pl.Series(["a", "c"]))
    assert overlap(one, two, (1,), context=["time"])["jaccard"].item() == 1 / 2


@pytest.mark.parametrize(
    ("text", "column"),
    [("a,,1\n", "item"), ("a,x,\nb,x,2\n", "score"), ("a,x,nan\nb,x,2.5\n", "score")],
)
def test_lists_with_gaps_are_refused(tmp_path, text, column):
    (tmp_path / "a.csv").write_text(f"user,item,score\n{text}")
    with pytest.raises(DataError, match=rf"has 1 rows without a value in '{column}'"):
        read_lists(tmp_path / "a.csv")


def test_a_run_whose_score_is_no_number_is_refused(tmp_path):
    for score in ("x", "nan"):
        (tmp_path / "a.trec").write_text(f"u Q0 i 1 {score} tag\n")
        with pytest.raises(DataError, match=rf"a score in .* is not a number: '{score}'"):
            read_lists(tmp_path / "a.trec")
