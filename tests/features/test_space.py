"""The two sides together: numbering, options by name, situations, growth."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from decode import decode
from hypothesis import given
from hypothesis import strategies as st

from fmpair.data import Dataset
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace, Field, Side, situations

CELL = st.sampled_from(["x", "y", None])
ITEM_TABLE = {"item": ["i", "j"], "genre": ["x", "y"]}


def events(**columns):
    """Events of two users and two items in turn, with context columns of equal length."""
    count = max(map(len, columns.values()), default=2)
    users, items = ["u", "v"] * count, ["i", "i", "j", "j"] * count
    return pl.DataFrame({"user": users[:count], "item": items[:count], **columns})


def data_with(users=None, items=None, **columns):
    return Dataset.from_frame(events(**columns), users=users, items=items)


def both_sides():
    users = {"user": ["u", "v"], "city": ["x", "y"]}
    return data_with(users, ITEM_TABLE, place=["x", "y", None, "x"], city=["y", "x", "x", "y"])


def test_each_role_goes_to_its_side():
    space = FeatureSpace.fit(both_sides())
    assert [(e.role, e.name) for e in space.query.encoders] == [
        ("user", "city"), ("context", "place"), ("context", "city"),
    ]  # fmt: skip
    assert [(e.role, e.name) for e in space.item.encoders] == [("item", "genre")]
    assert space.context == ["place", "city"]
    assert space.encoder("item", "genre").name == "genre"


def test_two_columns_with_equal_values_never_collide():
    data = both_sides()
    space = FeatureSpace.fit(data)
    assert space.query.labels() == ["city=x", "city=y", "place=x", "place=y", "city=y", "city=x"]
    assert space.query.field_numbers().tolist() == [0, 0, 1, 1, 2, 2]
    assert space.query.offsets.tolist() == [0, 2, 4, 6]
    users, (contexts, _) = space.user_rows(data.user_table, 2), space.context_rows(data.columns)
    assert users.column.tolist() == [0, 1]
    assert contexts.column.tolist() == [2, 4, 3, 5, 5, 2, 4]
    assert space.item_rows(data.item_table, 2).column.tolist() == [0, 1]


def test_one_feature_has_the_label_that_it_has_among_all():
    nothing = pl.Series([None] * 4, dtype=pl.String)  # a field without features
    columns = {"none": nothing, "age": [1.0, 2.0, 3.0, 4.0], "year": [1, 2, 3, 4], "last": nothing}
    frame = events(place=["x", "y", None, "x"], **columns)
    data = Dataset.from_frame(frame, items=ITEM_TABLE, context=["place", *columns])
    kinds = {"age": {"kind": "binned", "bins": 3}, "year": {"kind": "numeric"}}
    space = FeatureSpace.fit(data, kinds)
    assert [e.size for e in space.query.encoders] == [2, 0, 3, 1, 0]
    for side in (space.query, space.item):
        assert [side.label(feature) for feature in range(side.size)] == side.labels()


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=12))
def test_labels_of_encoded_contexts_name_column_and_value(cells):
    one, two = zip(*cells)
    frame = pl.DataFrame({"one": one, "two": two}, schema={"one": pl.String, "two": pl.String})
    space = FeatureSpace.fit(Dataset.from_frame(events(one=one, two=two)))
    rows, unseen = space.context_rows(frame)
    expected = [
        {f"{name}={value}": 1.0 for name, value in zip(("one", "two"), cell) if value is not None}
        for cell in cells
    ]
    assert decode(rows, space.query.labels()) == expected and not unseen


def test_odd_names_and_values_are_kept_as_they_are():
    data = data_with(**{"tag|=": ["a=b", "", "ü|ö", "a=b"], "__event": ["1", "2", "1", " "]})
    space = FeatureSpace.fit(data)
    rows, number = situations(space, data)
    assert decode(rows.take(number), space.query.labels())[1:3] == [
        {"tag|==": 1, "__event=2": 1}, {"tag|==ü|ö": 1, "__event=1": 1},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ids", [[-5, 2**62], ["", "ü"], [dt.date(2024, 1, 1), dt.date(1, 1, 1)], [1.5, -0.5]]
)
def test_ids_of_any_type_have_attributes(ids):
    frame = pl.DataFrame({"user": ids, "item": ids[::-1]})
    table = pl.DataFrame({"user": ids[::-1], "tags": [["a"], []]})
    data = Dataset.from_frame(frame, users=table)
    space = FeatureSpace.fit(data)
    rows = space.user_rows(data.user_table, 2)
    assert decode(rows, space.query.labels()) == [{}, {"tags=a": 1}]
    assert space.users.ids.to_list() == ids


def test_data_without_attributes_have_empty_sides():
    data = data_with()
    space = FeatureSpace.fit(data)
    assert space.query.size == space.item.size == 0 and Side().labels() == []
    assert space.user_rows(data.user_table, 2).size == 2
    rows, number = situations(space, data)
    assert rows.size == 1 and not len(rows.column) and number.tolist() == [0, 0]


def test_columns_that_are_absent_at_encoding_are_absent_features():
    space = FeatureSpace.fit(both_sides())
    rows, _ = space.context_rows(pl.DataFrame({"city": ["x"]}))
    assert decode(rows, space.query.labels()) == [{"city=x": 1}]
    assert space.context_rows(pl.DataFrame({"other": [1, 2]}))[0].size == 2


def test_unseen_values_are_counted_by_field():
    space = FeatureSpace.fit(both_sides())
    frame = pl.DataFrame({"place": ["new", "x", "newer"], "city": ["x", None, "y"]})
    assert space.context_rows(frame)[1] == {"place": 2}


def test_a_column_of_times_becomes_a_few_of_their_parts():
    days = [dt.datetime(2024, 1, day) for day in (1, 2, 6, 8)]
    space = FeatureSpace.fit(Dataset.from_frame(events(when=days), context=["when"]))
    assert space.context == ["when"]
    assert space.query.labels() == [
        "when.weekday=Monday", "when.weekday=Tuesday", "when.weekday=Saturday",
        "when.month=January",
    ]  # fmt: skip
    hours = [day.replace(hour=20) for day in days]
    data = Dataset.from_frame(events(when=hours), context=["when"])
    labels = FeatureSpace.fit(data).query.labels()
    assert labels[0] == "when.hour=20" and "when.weekday=Saturday" in labels


# Options


def test_options_find_their_column_by_name_or_by_role():
    options = {"place": "multi", "user.city": {"scale": 2.0}, "item.genre": Field(start=0.1)}
    space = FeatureSpace.fit(both_sides(), options)
    assert space.encoder("context", "place").field.kind == "multi"
    assert space.encoder("user", "city").field.scale == 2
    assert space.encoder("context", "city").field.scale == 1
    assert space.encoder("item", "genre").field.start == 0.1


def test_a_name_on_two_sides_is_ambiguous():
    with pytest.raises(OptionError, match=r"'city' is ambiguous: write user\.city or context"):
        FeatureSpace.fit(both_sides(), {"city": "multi"})


def test_an_unknown_field_gets_the_nearest_name():
    with pytest.raises(OptionError, match=r"unknown field 'gnre'\. Did you mean 'genre'\?"):
        FeatureSpace.fit(both_sides(), {"gnre": "multi"})


def test_values_may_sum_to_one_per_field_or_over_the_whole_row():
    users = {"user": ["u", "v"], "tags": [["a", "b"], []], "city": ["x", None]}
    data = data_with(users)
    per_field, whole = FeatureSpace.fit(data), FeatureSpace.fit(data, whole=True)
    labels = per_field.query.labels()
    assert decode(per_field.user_rows(data.user_table, 2), labels) == [
        {"tags=a": 0.5, "tags=b": 0.5, "city=x": 1}, {},
    ]  # fmt: skip
    assert decode(whole.user_rows(data.user_table, 2), labels) == [
        {"tags=a": 0.25, "tags=b": 0.25, "city=x": 0.5}, {},
    ]  # fmt: skip


# Situations


def test_equal_contexts_are_one_situation():
    data = data_with(place=["x", None, "x", "y", None], hot=[True, False, True, True, False])
    rows, number = situations(FeatureSpace.fit(data), data)
    assert number.tolist() == [0, 1, 0, 2, 1] and number.dtype == np.int32
    assert rows.size == 3


CONTEXTS = st.fixed_dictionaries(
    {
        "place": CELL,
        "heat": st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
        "tags": st.none() | st.lists(st.sampled_from("ab")),
        "hot": st.booleans(),
    }
)


@given(st.lists(CONTEXTS, min_size=1, max_size=12))
def test_situations_agree_with_encoding_every_event(cells):
    schema = {"place": pl.Categorical, "heat": pl.Float64, "tags": pl.List(pl.String), "hot": bool}
    frame = pl.DataFrame(cells, schema=schema)
    data = Dataset.from_frame(events(item=["i"] * len(cells)).hstack(frame))
    space = FeatureSpace.fit(data)
    rows, number = situations(space, data)
    assert rows.size == len(frame.unique()) == number.max() + 1
    each, _ = space.context_rows(data.columns)
    for known, taken in zip(each, rows.take(number)):
        assert np.array_equal(known, taken)


def test_context_the_space_does_not_know_makes_no_situations():
    space = FeatureSpace.fit(data_with(place=["x", "y"]))
    data = data_with(place=["x", "x", "z"], noise=["1", "2", "3"])
    rows, number = situations(space, data)
    assert number.tolist() == [0, 0, 1]
    assert np.diff(rows.start).tolist() == [1, 0]


# Growth


def test_extending_keeps_numbers_within_each_field_and_of_ids():
    old = both_sides()
    space = FeatureSpace.fit(old)
    new = Dataset.from_frame(
        {"user": ["w", "u"], "item": ["k", "i"], "place": ["z", "y"]},
        items={"item": ["k", "i"], "genre": ["new", "x"]},
    )
    grown = space.extend(new)
    assert grown.users.ids.to_list() == ["u", "v", "w"]
    assert grown.items.ids.to_list() == ["i", "j", "k"]
    assert grown.encoder("context", "place").labels() == ["place=x", "place=y", "place=z"]
    assert grown.encoder("user", "city") == space.encoder("user", "city")
    assert grown.item.labels() == ["genre=x", "genre=y", "genre=new"]
    assert space.item.labels() == ["genre=x", "genre=y"]
    for frame in (old.columns, new.columns):
        assert not grown.context_rows(frame)[1]


def test_events_encode_the_same_before_and_after_growth():
    old = both_sides()
    space = FeatureSpace.fit(old)
    grown = space.extend(data_with(place=["q", "r"]))
    before = decode(space.context_rows(old.columns)[0], space.query.labels())
    assert decode(grown.context_rows(old.columns)[0], grown.query.labels()) == before
