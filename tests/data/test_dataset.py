"""Events over numbered ids, from any kind of frame."""

import datetime as dt
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from fmpair.data import Dataset, as_dataset, split_leakage
from fmpair.data.splits import by_time, leave_last_out
from fmpair.errors import DataError, Notice, OptionError

CLICKS = pl.DataFrame(
    {
        "user": ["ann", "bob", "ann", "cid"],
        "item": [7, 8, 8, 7],
        "rating": [5, 1, 3, 4],
        "time": ["day", "night", None, "day"],
    }
)


def many_events(**columns):
    """60 items, each in two events, so that a leak can be told from chance."""
    item = np.repeat(np.arange(60), 2)
    return pl.DataFrame({"user": np.arange(120) % 7, "item": item, **columns})


def test_columns_without_a_part_are_context():
    data = Dataset.from_frame(CLICKS)
    assert data.context == ("time",)
    assert data.user.tolist() == [0, 1, 0, 2]
    assert data.columns.columns == ["rating", "time"]
    assert data.frame().equals(CLICKS)


def test_named_roles_context_and_ignored_columns():
    frame = CLICKS.rename({"user": "who", "item": "what", "rating": "score"})
    frame = frame.with_columns(junk=pl.lit("x"))
    data = Dataset.from_frame(frame, user="who", item="what", rating="score", ignore=["junk"])
    assert data.context == ("time",)
    assert data.column("rating").tolist() == [5, 1, 3, 4]
    assert Dataset.from_frame(frame, user="who", item="what", context=[]).context == ()


@pytest.mark.parametrize("convert", [lambda f: pd.DataFrame(f.to_dicts()), pl.DataFrame.to_arrow])
def test_pandas_and_pyarrow_give_the_same_events(convert):
    data = Dataset.from_frame(convert(CLICKS))
    assert data.frame().equals(CLICKS)
    assert data.frame_kind in ("pandas", "pyarrow")


def test_dates_and_odd_text_are_ids_too():
    frame = pl.DataFrame({"user": [dt.date(2024, 1, 1)], "item": ["ü, 'x'\n"]})
    assert Dataset.from_frame(frame).frame().equals(frame)


def test_a_sparse_matrix_keeps_empty_rows_and_its_values():
    matrix = sparse.csr_matrix([[0, 2.0, 0], [0, 0, 0], [1.0, 0, 0]])
    data = as_dataset(matrix)
    assert (len(data), len(data.users), len(data.items)) == (2, 3, 3)
    assert data.frame().sort("user").rows() == [(0, 1, 2.0), (2, 0, 1.0)]
    named = Dataset.from_csr(matrix, users=["a", "b", "c"], items=["x", "y", "z"])
    assert named.frame().sort("user").rows() == [("a", "y", 2.0), ("c", "x", 1.0)]


def test_a_matrix_with_the_wrong_number_of_ids_is_refused():
    with pytest.raises(DataError, match="rows are users, columns are items"):
        Dataset.from_csr(sparse.csr_matrix([[1.0, 0]]), users=["a", "b"])


def test_tables_may_miss_ids_and_know_more():
    items = pl.DataFrame({"item": [9, 8], "kind": ["new", "old"]})
    users = pl.DataFrame({"user": ["cid"], "age": [40]})
    data = Dataset.from_frame(CLICKS, users=users, items=items)
    assert data.items.ids.to_list() == [7, 8, 9]
    assert data.item_table["kind"].to_list() == [None, "old", "new"]
    assert data.user_table["age"].to_list() == [None, None, 40]


def test_a_table_with_an_id_twice_is_refused():
    items = pl.DataFrame({"item": [7, 7], "kind": ["a", "b"]})
    with pytest.raises(DataError, match="more than one row for item 7"):
        Dataset.from_frame(CLICKS, items=items)


def test_a_table_without_ids_is_refused():
    with pytest.raises(DataError, match="the item table has no id column"):
        Dataset.from_frame(CLICKS, items=pl.DataFrame({"kind": ["a"]}))


def test_text_ids_of_a_table_find_the_numbers_they_spell():
    items = pl.DataFrame({"item": ["8", "7"], "kind": ["b", "a"]})
    assert Dataset.from_frame(CLICKS, items=items).item_table["kind"].to_list() == ["a", "b"]


def test_a_table_with_ids_of_another_type_is_refused():
    with pytest.raises(DataError, match="'user' of the user table holds Int64, such as 1, but the"):
        Dataset.from_frame(CLICKS, users=pl.DataFrame({"user": [1], "age": [2]}))
    with pytest.raises(
        DataError, match="holds String, such as 'x7', but the item ids of the event"
    ):
        Dataset.from_frame(CLICKS, items=pl.DataFrame({"item": ["8", "x7"], "kind": ["b", "a"]}))


@pytest.mark.parametrize("role", ["user", "item"])
def test_a_table_whose_ids_are_written_differently_is_refused_with_an_id_of_each_side(role):
    events = {"user": ["7.0", "8.0"], "item": ["7.0", "8.0"]}
    table = {role: ["007", "008"], "kind": ["a", "b"]}
    with pytest.raises(DataError, match=f"no {role} of the events is in the {role} table") as told:
        Dataset.from_frame(events, **{f"{role}s": table})
    assert "the events have '7.0', the table '007'" in str(told.value)
    assert f"leave out {role}s" in str(told.value)


def test_a_table_with_under_half_of_the_events_is_noted_with_the_share(caplog):
    events = {"user": ["a"] * 8, "item": [1, 1, 1, 2, 2, 3, 4, 5]}
    Dataset.from_frame(events, items={"item": [1, 9], "kind": ["a", "b"]})
    assert "3 of 8 events (38%) have their item in the item table" in caplog.text
    assert "which lacks 2 and has 1" in caplog.text
    caplog.clear()
    Dataset.from_frame(events, items={"item": [8, 9], "kind": ["a", "b"]})  # such as new items
    assert "none of 8 events (0%) have their item in the item table" in caplog.text
    caplog.clear()
    Dataset.from_frame(events, items={"item": [1, 5], "kind": ["a", "b"]})  # half of the events
    assert not caplog.text


def test_item_columns_move_to_the_item_table():
    frame = CLICKS.with_columns(price=pl.Series([1.0, 2.0, 2.0, None]))
    data = Dataset.from_frame(frame, item_columns=["price"])
    assert data.context == ("time",)
    assert data.item_table["price"].to_list() == [1.0, 2.0]


def test_an_item_attribute_as_context_is_refused_with_the_way_out():
    frame = many_events(cost=np.repeat(np.arange(60) % 2, 2).astype(str))
    with pytest.raises(DataError, match=r"the item explains 100% of it.*item_columns=\['cost'\]"):
        Dataset.from_frame(frame, context=["cost"])
    assert Dataset.from_frame(frame, item_columns=["cost"]).context == ()
    assert Dataset.from_frame(frame, leaks=["cost"]).context == ("cost",)


def test_tags_of_the_item_joined_onto_events_are_refused_as_context():
    tags = pl.DataFrame(
        {"item": range(60), "tags": [[f"t{n % 5}", f"t{n % 7}"] for n in range(60)]}
    )
    frame = many_events().join(tags, on="item")
    with pytest.raises(DataError, match=r"column 'tags' describes the item, not the context"):
        Dataset.from_frame(frame, context=["tags"])
    assert Dataset.from_frame(frame).item_table.columns == ["tags"]
    assert Dataset.from_frame(frame, item_columns=["tags"]).item_table["tags"][1].to_list() == [
        "t1", "t1",
    ]  # fmt: skip


def test_lists_that_change_for_one_item_are_context():
    companions = [["ann"], ["ann", "bob"]] * 60
    assert Dataset.from_frame(many_events(companions=companions)).context == ("companions",)


def test_arrays_of_one_length_are_lists():
    numbers = pl.Series("q", np.random.default_rng(0).random((120, 4)))
    assert isinstance(numbers.dtype, pl.Array)
    frame, as_lists = many_events(q=numbers), many_events(q=numbers.arr.to_list())
    for options in ({}, {"context": ["q"]}):
        data = Dataset.from_frame(frame, **options)
        assert data.context == ("q",)
        assert data.columns.equals(Dataset.from_frame(as_lists, **options).columns)


def test_lists_of_numbers_that_begin_with_whole_ones_keep_their_fractions():
    vectors = [[1, 2], [0.5, 1], [3, 0.25]]
    data = Dataset.from_frame(
        {"user": [1, 2], "item": ["a", "b"]}, items={"item": ["a", "b", "c"], "v": vectors}
    )
    assert data.item_table["v"].to_list() == vectors


def test_a_column_of_a_dictionary_that_mixes_types_is_refused():
    with pytest.raises(DataError, match="cannot read the columns"):
        Dataset.from_frame({"user": [1, "a"], "item": [1, 2]})


def test_columns_of_python_objects_are_refused_by_name_wherever_they_are_used():
    objects = pl.Series("thing", [object()] * 4, dtype=pl.Object)
    with pytest.raises(DataError, match="column 'thing' holds Python objects: convert them"):
        Dataset.from_frame(CLICKS.with_columns(objects))
    with pytest.raises(DataError, match="column 'user' holds Python objects"):
        Dataset.from_frame(CLICKS.with_columns(objects.alias("user")))
    table = pl.DataFrame({"user": [*"abcd"], "thing": objects})
    with pytest.raises(DataError, match="column 'thing' holds Python objects"):
        Dataset.from_frame(CLICKS, users=table)
    assert Dataset.from_frame(CLICKS.with_columns(objects), ignore=["thing"]).context == ("time",)


def test_a_context_that_is_in_the_item_table_is_refused():
    items = pl.DataFrame({"item": [7, 8], "time": ["day", "night"]})
    with pytest.raises(DataError, match=r"'time' describes the item.* in the item table too"):
        Dataset.from_frame(CLICKS, items=items, context=["time"], leaks=[])


def test_a_column_in_both_files_is_merged_with_the_tables_value_first(caplog):
    events = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 9], "kind": ["a", "b", "c"]})
    items = pl.DataFrame({"item": [7, 8, 5], "kind": ["A", None, "D"], "size": [1, 2, 3]})
    data = Dataset.from_frame(events, items=items)
    assert data.items.ids.to_list() == [7, 8, 9, 5] and data.context == ()
    assert data.item_table.rows() == [("A", 1), ("b", 2), ("c", None), ("D", 3)]
    assert "merged with the item table, whose values take precedence: 'kind'" in caplog.text


def test_titles_and_texts_that_differ_are_kept_but_not_learned_from(caplog):
    rng = range(30)
    events = pl.DataFrame({"user": [n % 4 for n in rng], "item": list(rng)})
    items = pl.DataFrame({"item": list(rng), "title": ["T"] * 30, "code": [f"c{n}" for n in rng],
                          "tags": [f"a|{n}" for n in rng], "colour": ["red", "blue"] * 15,
                          "price": [n / 7 for n in rng]})  # fmt: skip
    data = Dataset.from_frame(events, items=items)
    assert data.item_table.columns == ["tags", "colour", "price"]
    assert data.all_item_columns.columns == items.columns[1:]
    assert "'title' (its name); 'code' (30 different texts of 30 items)" in caplog.text
    asked = Dataset.from_frame(events, items=items, item_columns=["code"], display=["price"])
    assert asked.item_table.columns == ["code", "tags", "colour"]
    assert data.compact().take(data.user == 1).all_item_columns["code"].to_list() == [
        f"c{n}" for n in rng
    ]


def test_a_real_context_is_no_leak():
    assert Dataset.from_frame(many_events(time=["day", "night"] * 60)).context == ("time",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"user": [None] * 4},
            r"all 4 rows lack a user or item \(4 in 'user'\): name",
        ),
        ({"rating": ["good", "bad", "good", "bad"]}, "'rating' is the rating but holds String"),
        ({"rating": [1.0, None, 2.0, 3.0]}, "1 missing values"),
        ({"weight": [1.0, -1.0, 1.0, 1.0]}, "negative weights: weights must be 0 or more"),
        ({"weight": [1.0, float("inf"), 1.0, 1.0]}, "infinite or NaN values"),
        ({"timestamp": ["a", "b", "c", "d"]}, "is text, not a time"),
    ],
)
def test_bad_columns_are_named(change, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_frame(CLICKS.with_columns(**{k: pl.Series(v) for k, v in change.items()}))


@pytest.mark.parametrize(
    ("change", "left", "told"),
    [
        ({"user": ["a", None, "b", "c"]}, 3, r"\(1 in 'user'\); missing='error' refuses them"),
        ({"item": [7.0, 8.0, float("nan"), None]}, 2, r"left out 2 of 4 rows .*\(2 in 'item'\)"),
        ({"user": ["a", None, "b", "c"], "item": [None, None, 1, 2]}, 2, "'user' and 2 in 'item'"),
    ],
)
def test_rows_without_a_user_or_item_are_left_out_and_counted(change, left, told):
    frame = CLICKS.with_columns(**{k: pl.Series(v) for k, v in change.items()})
    with pytest.warns(Notice, match=told):
        assert len(Dataset.from_frame(frame)) == left
    with pytest.raises(DataError, match=r"missing (user|item) ids .* with missing='drop'$"):
        Dataset.from_frame(frame, missing="error")


def test_no_rows_is_an_error():
    with pytest.raises(DataError, match="there are no events"):
        Dataset.from_frame(CLICKS.head(0))


def test_an_ignored_column_that_is_not_there_gets_the_nearest_name():
    with pytest.raises(DataError, match=r"unknown column 'tiem'\. Did you mean 'time'\?"):
        Dataset.from_frame(CLICKS, ignore=["tiem"])


def test_what_is_no_frame_is_refused():
    with pytest.raises(DataError, match="expected a polars, pandas or pyarrow frame, got int"):
        Dataset.from_frame(3)


def test_take_keeps_the_vocabularies_and_compact_drops_the_rest():
    items = pl.DataFrame({"item": [7, 8, 9], "kind": ["a", "b", "c"]})
    data = Dataset.from_frame(CLICKS, items=items)
    part = data.take(data.item == data.items.number(8))
    assert part.frame()["user"].to_list() == ["bob", "ann"]
    assert (len(part.users), len(part.items)) == (3, 3)
    small = part.compact()
    assert small.frame().equals(part.frame())
    assert small.items.ids.to_list() == [8]
    assert small.item_table["kind"].to_list() == ["b"]


def test_seen_counts_each_pair():
    data = Dataset.from_frame({"user": [1, 1, 1, 2], "item": ["a", "b", "a", "b"]})
    seen = data.seen
    assert seen.start.tolist() == [0, 2, 3]
    assert seen.column.tolist() == [0, 1, 1]
    assert seen.value.tolist() == [2, 1, 1]


def test_weights_are_one_where_none_are_given():
    assert Dataset.from_frame(CLICKS).weight.tolist() == [1, 1, 1, 1]


def test_pandas_frames_with_text_work_without_pyarrow():
    code = """
import sys
sys.modules["pyarrow"] = None
import pandas as pd
from fmpair import Dataset
frame = pd.DataFrame({"user": ["a", "b", "a"], "item": [1, 2, 3], "when": ["x", None, "y"]})
assert Dataset.from_frame(frame).frame().rows() == [("a", 1, "x"), ("b", 2, None), ("a", 3, "y")]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_more_context_than_any_situation_has_is_refused():
    wide = {f"c{n}": ["x", "y"] for n in range(1001)}
    with pytest.raises(DataError, match=r"1,001 columns would be context, at most 1,000"):
        Dataset.from_frame({"user": [1, 2], "item": [1, 2], **wide})
    assert len(Dataset.from_frame({"user": [1, 2], "item": [1, 2], **wide}, context=["c0"])) == 2


def test_columns_of_the_item_join_a_table_of_ids_of_another_type():
    events = pl.DataFrame({"user": [1, 2], "item": [1, 2], "cost": [5, 6]})
    table = pl.DataFrame({"item": ["2", "3"], "topic": ["fun", "work"]})
    data = Dataset.from_frame(events, items=table, item_columns=["cost"])
    assert data.items.ids.to_list() == [1, 2, 3]
    assert data.item_table.rows() == [(5, None), (6, "fun"), (None, "work")]
    wrong = table.with_columns(item=pl.Series([[1], [2]]))
    with pytest.raises(DataError, match=r"'item' of the item table holds List\(Int64\)"):
        Dataset.from_frame(events, items=wrong, item_columns=["cost"])


def test_the_order_of_rows_can_be_said_to_be_that_of_time():
    events = {"user": ["a", "b", "a", "b", "a"], "item": [1, 1, 2, 2, 3]}
    data = Dataset.from_frame(events, order="rows")
    train, _, test = by_time(data, test=0.4).parts(data)
    assert test.frame().select("user", "item").rows() == [("b", 2), ("a", 3)]
    mixed = data.take(np.array([4, 0, 3, 1, 2]))  # rows keep their place in time
    *_, last = leave_last_out(mixed).parts(mixed)
    assert sorted(last.frame().select("user", "item").rows()) == [("a", 3), ("b", 2)]
    assert split_leakage.report(train, test).comparisons[0].counts["older"] == 0
    assert split_leakage.report(test, train).comparisons[0].counts["older"] == 3


def test_an_order_beside_times_and_an_unknown_one_are_refused():
    events = {"user": ["a", "b"], "item": [1, 1], "timestamp": [5, 6]}
    with pytest.raises(
        DataError, match=r"order='rows' is for data without times, but column 'timestamp'"
    ):
        Dataset.from_frame(events, order="rows")
    with pytest.raises(OptionError, match="order must be one of rows, per-user, not 'time'"):
        Dataset.from_frame(events, order="time", ignore=["timestamp"])
    data = Dataset.from_frame(events, order="rows", ignore=["timestamp"])
    with pytest.raises(OptionError, match="give shares, not '2020-01-01'"):
        by_time(data, after="2020-01-01")
