"""Changes of items in both kinds of store: merged, numbered, and read back as they were given."""

import pytest

from fmpair.errors import DataError
from fmpair.events.event import MAX_LENGTH, ItemChange, check_changes
from fmpair.events.store import open_store

COLUMNS = {
    "title": 'a "quoted" é 🎈\\ \n text',
    "price": 0.1 + 0.2,
    "stock": -(2**53),
    "sold": True,
    "tags": ["x", "y,}\n{"],
    "gone": None,
}


@pytest.fixture
def store(url):
    own = open_store(url)
    yield own
    own.close()


def known(store, after=0):
    return [(one.item, one.columns, one.position) for one in store.items(after, 100)]


def test_items_come_back_as_they_were_with_their_numbers(store):
    ids = ["a", 7, -(2**62), 1.5, "b'\"\\é🎈", "x" * 1024]
    assert store.put_items([ItemChange(item, COLUMNS) for item in ids]) == len(ids)
    assert known(store) == [(item, COLUMNS, number) for number, item in enumerate(ids, 1)]
    assert [type(one.item) for one in store.items(0, 9)] == [type(item) for item in ids]


def test_columns_that_a_change_does_not_name_stay(store):
    store.put_items([ItemChange("a", {"price": 1, "stock": 2}), ItemChange("b", {"price": 3})])
    store.put_items([ItemChange("a", {"price": 5}), ItemChange("b", {"price": 6})])
    assert known(store) == [("a", {"price": 5, "stock": 2}, 3), ("b", {"price": 6}, 4)]
    store.put_items([ItemChange("a", {"price": None, "stock": 4, "new": "x"})])
    assert known(store, 4) == [("a", {"price": None, "stock": 4, "new": "x"}, 5)]


def test_changes_of_one_item_in_one_push_are_one_change_at_the_place_of_the_last(store):
    pushed = [("a", {"price": 1}), ("b", {"price": 2}), ("a", {"stock": 3}), ("a", {"stock": 4})]
    assert store.put_items([ItemChange(*one) for one in pushed]) == 2
    assert known(store) == [("b", {"price": 2}, 1), ("a", {"price": 1, "stock": 4}, 2)]


def test_a_number_and_its_text_are_one_item(store):
    store.put_items([ItemChange(7, {"price": 1})])
    store.put_items([ItemChange("7", {"stock": 2})])
    assert [(columns, number) for _, columns, number in known(store)] == [
        ({"price": 1, "stock": 2}, 2)
    ]


def test_what_was_checked_before_is_stored_as_it_was_checked(store):
    changes = [ItemChange("a", {"stock": 1, "price": 2.5}), ItemChange("b", {})]
    texts = check_changes(changes)
    assert texts == ['{"price": 2.5, "stock": 1}', "{}"]
    store.put_items(changes, texts)
    assert known(store) == [("a", {"price": 2.5, "stock": 1}, 1), ("b", {}, 2)]


@pytest.mark.parametrize(
    ("item", "columns", "said"),
    [
        (None, {}, "invalid item id 'None'"),
        ("b", {"x" * 201: 1}, "of item 'b': use a name"),
        ("b", {"removed": 1}, "'removed' must be true or false, not '1'"),
        ("b", {"x": "y" * MAX_LENGTH}, "item 'b' has more than 100,000 characters"),
        ("b", {"x": float("nan")}, "cannot be stored"),
        ("b", {"x": "\ud800"}, "cannot be stored"),
    ],
)
def test_one_change_that_cannot_be_stored_keeps_the_whole_push_out(store, item, columns, said):
    with pytest.raises(DataError, match=said):
        store.put_items([ItemChange("a", {"removed": None}), ItemChange(item, columns)])
    assert known(store) == []
