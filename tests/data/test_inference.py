"""What each column of a frame is taken for."""

import datetime as dt
import logging

import numpy as np
import polars as pl
import pytest

from fmpair.data import Columns, Dataset, as_dataset
from fmpair.data.columns.inference import decide
from fmpair.errors import DataError
from fmpair.testing import shop_log

EVENTS = 1_200
RNG = np.random.default_rng(3)
USER, ITEM = RNG.integers(0, 60, EVENTS), RNG.integers(0, 80, EVENTS)


def frame(**columns):
    return pl.DataFrame({"user": USER, "item": ITEM, **columns})


def taken(events, **options):
    return {d.column: d.role for d in decide(events, {}, **options).columns}


def role(values, name="x"):
    return taken(frame(**{name: values}))[name]


@pytest.mark.parametrize("promotions", [False, True])
def test_the_log_of_a_shop_is_read_as_a_person_would(promotions):
    assert taken(shop_log(100, 80, 2_000, promotions=promotions)) == {
        "event_time": "timestamp",
        "event_type": "event_type",
        "user_id": "user",
        "product_id": "item",
        "price": "item attribute",
        "session_id": "session",
        "device": "context",
        "daytime": "context",
        "shop": "left out",
        "logged_ms": "left out",
    }


def test_context_of_text_with_bars_is_offered_the_kind_multi():
    kinds = [("a|b", "b|c", "c")[n] for n in RNG.integers(0, 3, EVENTS)]
    [decision] = [d for d in decide(frame(kinds=kinds), {}).columns if d.column == "kinds"]
    assert decision.role == "context"
    assert decision.reason == "values between bars"


def test_a_context_that_decides_stays_context():
    assert taken(shop_log(100, 80, 2_000, decides=True))["daytime"] == "context"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("row", np.arange(EVENTS)),
        ("order_id", USER * 10 + RNG.integers(0, 9, EVENTS)),
        ("note", [f"please leave it at door {n}" for n in range(EVENTS)]),
        ("hash", [f"{n // 2:x}" for n in range(EVENTS)]),
        ("basket", [f"{u}/{n % 3}" for n, u in enumerate(USER)]),
        ("constant", ["x"] * EVENTS),
        ("born", [dt.date(1970 + u, 1, 1) for u in USER]),
        ("quantity", RNG.integers(1, 4, EVENTS)),
    ],
)
def test_ids_text_constants_and_what_comes_after_are_left_out(name, values):
    assert role(values, name) == "left out"


def test_another_name_of_the_item_is_kept_of_it():
    assert role([f"{4006381 + i}" for i in ITEM], "ean") == "display only"
    texts = [f"number {i} in our long list of things" for i in ITEM]
    assert role(texts, "headline") == "display only"


def test_titles_of_few_items_are_no_context():
    few = (
        frame()
        .with_columns(item=pl.Series(ITEM % 12))
        .with_columns(title=pl.format("The {}", pl.lit(pl.Series(ITEM % 12))))
    )
    assert taken(few)["title"] == "display only"
    assert taken(few.rename({"title": "place"}))["place"] == "context"  # too few to conclude


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("genre", [f"g{i % 7}" for i in ITEM]),
        ("price", 3.5 + 2 * ITEM),
        ("year", 1990 + ITEM % 30),
        ("tags", [[f"t{i % 7}", f"t{i % 3}"] for i in ITEM]),
    ],
)
def test_what_the_item_tells_is_an_attribute_of_the_item(name, values):
    assert role(values, name) == "item attribute"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("hour", RNG.integers(0, 24, EVENTS)),
        ("time", ["day", "night"] * (EVENTS // 2)),
        ("city", [f"c{u % 20}" for u in USER]),
        ("store_id", RNG.integers(0, 12, EVENTS)),
        ("temperature", RNG.normal(15, 5, EVENTS)),
        ("with", [["ann"], ["ann", "bob"]] * (EVENTS // 2)),
        ("new", RNG.random(EVENTS) < 0.5),
    ],
)
def test_what_is_plainly_context_stays_context(name, values):
    assert role(values, name) == "context"


def test_kinds_of_events_are_known_by_their_values_too():
    kinds = pl.Series(["pv", "fav", "cart", "buy"]).gather(RNG.integers(0, 4, EVENTS))
    assert role(kinds, "what") == "event_type"
    assert role(RNG.integers(1, 5, EVENTS), "behavior_type") == "event_type"
    assert role(pl.Series(["rain", "sun"]).gather(RNG.integers(0, 2, EVENTS)), "what") == "context"


def test_the_time_is_that_of_the_event_not_the_release_of_the_item():
    released = [dt.date(2000, 1, 1) + dt.timedelta(days=30 * int(i)) for i in ITEM]
    bought = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=n) for n in range(EVENTS)]
    found = taken(frame(released=released, bought=bought))
    assert found["bought"] == "timestamp"
    assert found["released"] == "left out"


@pytest.mark.parametrize(
    ("names", "user", "item"),
    [
        (["visitorid", "itemid"], "visitorid", "itemid"),
        (["reviewerID", "asin"], "reviewerID", "asin"),
        (["hashed_user_id", "track_id"], "hashed_user_id", "track_id"),
        (["Customer ID", "StockCode"], "Customer ID", "StockCode"),
    ],
)
def test_ids_have_many_names(names, user, item):
    found = decide(pl.DataFrame({name: ["a", "b", "b"] for name in names}), {}).roles
    assert (found["user"], found["item"]) == (user, item)


def test_a_session_is_never_taken_for_the_user():
    log = pl.DataFrame({"Besucher": ["a", "b"], "session_id": [1, 2], "item_id": ["x", "y"]})
    with pytest.raises(DataError, match=r"no user column found among .* give user='session_id'"):
        decide(log, {})
    assert decide(log, {"user": "session_id"}).roles["user"] == "session_id"


def test_a_single_name_is_a_list_of_one():
    log = frame(city=["a", "b"] * (EVENTS // 2))
    assert Dataset.from_frame(log, context="city").context == ("city",)
    assert Dataset.from_frame(log, leaks="city").context == ("city",)
    assert Dataset.from_frame(log, ignore="city").context == ()
    assert "city" in Dataset.from_frame(log, item_columns="city").item_table.columns
    with pytest.raises(DataError, match="unknown column 'cty'"):
        Dataset.from_frame(log, context="cty")


def test_the_caller_has_the_last_word():
    events = shop_log(100, 80, 2_000)
    found = taken(events, context=["event_type"], item_columns=["device"])
    assert found["event_type"] == "context"
    assert found["device"] == "item attribute"
    assert found["daytime"] == "left out"
    assert taken(events, leaks=["price", "shop"])["price"] == "context"
    data = Dataset.from_frame(events, timestamp="logged_ms", leaks=["event_time"])
    assert data.columns["timestamp"].dtype == pl.Int64
    assert "event_time" in data.context


def test_only_what_is_certain_is_refused_where_it_is_asked_for(caplog):
    genre = pl.Series([f"g{i % 7}" for i in ITEM])
    half = pl.Series(np.where(RNG.random(EVENTS) < 0.06, RNG.permutation(ITEM), ITEM) % 7)
    with pytest.raises(
        DataError, match="describes the item, not the context: the item explains 100%"
    ):
        Dataset.from_frame(frame(x=genre), context=["x"])
    with caplog.at_level(logging.WARNING, "fmpair"):
        assert Dataset.from_frame(frame(x=half), context=["x"]).context == ("x",)
    assert "context column 'x' may identify the item: the item explains" in caplog.text


def test_what_is_no_context_is_said_in_one_line_with_a_remedy_that_works(caplog):
    events = shop_log(100, 80, 2_000).drop("logged_ms")
    with caplog.at_level(logging.WARNING, "fmpair"):
        data = Dataset.from_frame(events)
    assert len(caplog.records) == 1
    assert "'price' (item attribute: " in caplog.text
    assert caplog.text.strip().endswith("give leaks=['price', 'shop']")  # no time, no event type
    assert data.context == ("device", "daytime")
    assert {"timestamp", "session", "event_type"} <= set(data.columns.columns)
    names = ["price", "shop"]
    assert set(names) < set(Dataset.from_frame(events, leaks=names).context)


def test_a_column_without_values_has_no_role_unless_asked_for():
    """A shop exports the column of ratings before anybody has rated."""
    events = shop_log(60, 40, 900).with_columns(rating=pl.lit(None, pl.String), note=pl.lit(None))
    found = {d.column: d for d in decide(events, {}).columns}
    assert [(found[n].role, found[n].reason) for n in ("rating", "note")] == 2 * [
        ("left out", "no values")
    ]
    assert "rating" not in Dataset.from_frame(events).columns.columns
    with pytest.raises(DataError, match="it must hold numbers"):
        Dataset.from_frame(events, rating="rating")


def test_numbers_in_order_that_are_named_like_a_time_are_offered_as_one(caplog):
    events = pl.DataFrame({"user": [f"u{n % 9}" for n in range(90)],
                           "item": [f"i{n % 7}" for n in range(90)],
                           "time": range(90)})  # fmt: skip
    Dataset.from_frame(events)
    assert caplog.messages[-1].endswith(
        "If 'time' is the time of the events, give timestamp='time'"
    )
    caplog.clear()
    assert "timestamp" in Dataset.from_frame(events, timestamp="time").columns.columns
    Dataset.from_frame(events.with_columns(shop=pl.lit(1)))
    assert caplog.messages[-1].endswith("To use these as context, give leaks=['shop']")


def test_the_options_of_a_decision_lead_to_the_same_data(caplog):
    events = shop_log(100, 80, 2_000)
    found = decide(events, {})
    data = Dataset.from_frame(events)
    caplog.clear()
    same = Dataset.from_frame(events, **found.options)
    assert not caplog.records
    assert same.columns.equals(data.columns)
    assert same.item_table.equals(data.item_table)
    assert same.context == data.context


def test_promotions_leave_the_usual_price_to_the_item():
    events = shop_log(100, 60, 6_000, promotions=True)
    table = Dataset.from_frame(events).frame().join(
        events.group_by("product_id").agg(pl.col("price").max()),
        left_on="item", right_on="product_id",
    )  # fmt: skip
    data = Dataset.from_frame(events)
    dearest = dict(table.select("item", "price").iter_rows())
    agree = [data.item_table["price"][n] == dearest[i] for n, i in enumerate(data.items.ids)]
    assert np.mean(agree) > 0.95


def test_a_few_further_events_are_read_as_those_before():
    data = Dataset.from_frame(shop_log(100, 80, 2_000))
    later = shop_log(100, 80, 2_000).tail(30).with_columns(device=pl.lit("phone"))
    assert Dataset.from_frame(later).context == ("daytime",)  # they have one device
    like = Columns(data.context, data.item_table.columns)
    found = as_dataset(later, like)
    assert found.context == data.context
    assert found.item_table.columns == ["price"]
