"""Kept events as tables, for files and for models."""

from datetime import datetime

import polars as pl
import pytest

from fmpair.data.dataset import as_dataset
from fmpair.errors import Notice
from fmpair.events.event import Event
from fmpair.events.frame import column, events_for, frame_of
from fmpair.events.store import open_store
from fmpair.features import FeatureSpace
from fmpair.fitted.history import new_events
from fmpair.models import FMPair, FMPairLevels

T = 1_700_000_000_000_000


@pytest.fixture
def store(tmp_path):
    own = open_store(tmp_path / "events.db")
    yield own
    own.close()


def test_events_are_a_table_with_a_column_for_each_of_the_context(store):
    store.append(
        [
            Event("ann", "maps", T, {"daytime": "evening", "age": 3}, "current", "m1"),
            Event("bob", 7, T + 1, {"age": 4}, "candidate", "m2"),
        ]
    )
    frame = frame_of(store)
    assert frame.rows(named=True) == [
        {"user": "ann", "item": "maps", "timestamp": datetime(2023, 11, 14, 22, 13, 20), "age": 3,
         "daytime": "evening", "arm": "current", "model": "m1", "position": 1},
        {"user": "bob", "item": "7", "timestamp": datetime(2023, 11, 14, 22, 13, 20, 1), "age": 4,
         "daytime": None, "arm": "candidate", "model": "m2", "position": 2},
    ]  # fmt: skip
    assert frame_of(store, after=1)["user"].to_list() == ["bob"]
    assert frame_of(store, after=2).columns[:3] == ["user", "item", "timestamp"]


def test_a_context_may_be_called_like_our_own_columns(store):
    store.append([Event("ann", "a", T, {"model": "X5", "user": "x"}, "current", "m1")])
    (row,) = frame_of(store).rows(named=True)
    assert (row["model"], row["fmpair_model"]) == ("X5", "m1")
    assert (row["user"], row["context.user"]) == ("ann", "x")


@pytest.mark.parametrize(
    "values, dtype, found",
    [
        ([1, None, 2], pl.Int64, [1, None, 2]),
        ([1, 2.5], pl.Float64, [1.0, 2.5]),
        ([True, None], pl.Boolean, [True, None]),
        (["a", 1, True], pl.String, ["a", "1", "True"]),
        ([["a", 1], None], pl.List(pl.String), [["a", "1"], None]),
        ([{"a": 1.0}], pl.String, ['{"a": 1.0}']),
        ([], pl.Int64, []),
    ],
)
def test_values_of_several_types_become_text(values, dtype, found):
    own = column("x", values)
    assert (own.dtype, own.to_list()) == (dtype, found)


def test_a_model_gets_its_own_columns_and_types():
    log = pl.DataFrame(
        {"user_id": [1, 2], "product_id": ["a", "b"], "timestamp": [T // 10**6] * 2,
         "device": ["phone", "tablet"], "place": ["x", "y"]}
    )  # fmt: skip
    space = FeatureSpace.fit(as_dataset(log, context=["device", "place"]))
    kept = [
        Event("7", "a", T, {"device": "phone", "mood": "good"}, "current", "m"),
        Event(8, "new", T + 1, None),
        Event("ann", "a", T),
    ]
    with pytest.warns(Notice, match="dropped 1 of 3 events"):
        frame = events_for(space, kept)
    assert frame.columns == ["user_id", "product_id", "timestamp", "device"]
    assert frame.drop("timestamp").rows() == [(7, "a", "phone"), (8, "new", None)]


def typed(*types):
    return [Event(f"u{n}", f"i{n % 3}", T + n, event=kind) for n, kind in enumerate(types)]


def test_event_types_and_values_are_columns_where_there_are_any(store):
    store.append([*typed("view", None), Event("ann", "a", T, {"value": "x"}, value=3, event="buy")])
    frame = frame_of(store)
    assert frame["event_type"].to_list() == ["view", None, "buy"]
    assert frame["fmpair_value"].to_list() == [None, None, 3.0]
    assert frame["value"].to_list() == [None, None, "x"]


def test_a_model_with_event_weights_learns_from_stored_types():
    log = pl.DataFrame(
        {"user": ["u1", "u2", "u3"], "item": ["i0", "i1", "i2"], "action": ["view", "buy", "view"]}
    )
    weights = {"view": 1.0, "buy": 5.0}
    data = as_dataset(log, event_type="action", event_weights=weights)
    space = FeatureSpace.fit(data)
    with pytest.warns(Notice, match=r"2 of 4 events have no type, .* count as 'view'"):
        frame = events_for(space, typed("buy", "view", None, "wish"))
    assert frame["action"].to_list() == ["buy", "view", "view", "view"]
    assert new_events(space, None, frame).columns["weight"].to_list() == [5.0, 1.0, 1.0, 1.0]
    assert "action" not in events_for(space, typed(None)).columns


def test_an_event_of_a_type_without_weight_does_not_count_as_the_weakest():
    log = pl.DataFrame(
        {"user": ["u1", "u2", "u3"], "item": ["i0", "i1", "i2"], "action": ["view", "buy", "tap"]}
    )
    weights = {"tap": 0.0, "view": 1.0, "buy": 5.0}
    space = FeatureSpace.fit(as_dataset(log, event_type="action", event_weights=weights))
    with pytest.warns(Notice, match=r"1 of 3 events have no type, .* count as 'view'"):
        frame = events_for(space, typed("buy", "tap", "wish"))
    assert frame["action"].to_list() == ["buy", "tap", "view"]
    assert new_events(space, None, frame).columns["weight"].to_list() == [5.0, 0.0, 1.0]


def test_a_model_with_levels_learns_from_stored_types():
    space = FeatureSpace.fit(as_dataset(pl.DataFrame({"user": ["u1"], "item": ["i0"]})))
    for recipe in (FMPair(levels=["view", "buy"]), FMPairLevels(levels=["view", "buy"])):
        frame = events_for(space, typed("buy", "view", "buy"), recipe)
        data = new_events(space, recipe, frame)
        assert data.columns["event_type"].to_list() == ["buy", "view", "buy"]
