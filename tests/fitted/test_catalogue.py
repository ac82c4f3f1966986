"""The catalogue: what is known of each item, and how changes make a new one."""

from __future__ import annotations

import polars as pl
import pytest

from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError
from fmpair.fitted.catalogue import Catalogue

TABLE = {"price": [1, 2, None], "in_stock": [True, None, False], "tags": [["x"], None, ["y"]]}


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(Vocabulary(pl.Series(["a", "b", "c"])), pl.DataFrame(TABLE))


def test_a_change_keeps_the_columns_that_are_not_given(catalogue):
    changed = catalogue.changed({"item": ["b"], "price": [5.5]})
    assert changed.table["price"].to_list() == [1.0, 5.5, None]
    assert changed.table["in_stock"].to_list() == TABLE["in_stock"]
    assert catalogue.table["price"].to_list() == TABLE["price"]


def test_unknown_items_and_columns_are_added_at_the_end(catalogue):
    changed = catalogue.changed({"item": ["d", "a"], "colour": ["red", "blue"]})
    assert changed.items.ids.to_list() == ["a", "b", "c", "d"]
    assert changed.columns == ["price", "in_stock", "tags", "colour"]
    assert changed.row("d") == {"colour": "red"}
    assert changed.row("a") == {"price": 1, "in_stock": True, "tags": ["x"], "colour": "blue"}


def test_of_several_rows_of_an_item_the_last_counts(catalogue):
    changed = catalogue.changed({"item": ["a", "a"], "price": [7, 8]})
    assert changed.row("a")["price"] == 8


def test_a_null_leaves_a_value_unless_it_is_to_clear_it(catalogue):
    nothing = pl.DataFrame({"item": ["a"], "price": [None]})
    assert catalogue.changed(nothing).row("a")["price"] == 1
    assert "price" not in catalogue.changed(nothing, clear=True).row("a")
    assert catalogue.changed(nothing, clear=True).row("b")["price"] == 2


def test_a_value_of_another_type_is_refused_in_one_line(catalogue):
    with pytest.raises(DataError, match="column 'price' holds Int64, but 'cheap' was given"):
        catalogue.changed({"item": ["a"], "price": ["cheap"]})


def test_text_is_read_as_the_type_of_the_column(catalogue):
    changed = catalogue.changed({"item": ["a"], "in_stock": ["false"], "price": ["3"]})
    assert changed.row("a") == {"price": 3, "in_stock": False, "tags": ["x"]}


def test_a_catalogue_without_columns_takes_changes():
    empty = Catalogue(Vocabulary(pl.Series([1, 2])), pl.DataFrame(), "sku")
    assert empty.row(1) == {}
    assert empty.changed({"sku": [2], "price": [3]}).frame().rows() == [(1, None), (2, 3)]


def test_what_was_made_for_a_catalogue_is_made_once(catalogue):
    made = []
    for _ in range(2):
        catalogue.kept("key", lambda: made.append(1) or "made")
    assert made == [1]
    assert catalogue.changed({"item": ["a"]}).kept("key", lambda: "anew") == "anew"
