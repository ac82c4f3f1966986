"""The catalogue: what is known of each item, and how changes make a new one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fmpair import Dataset, load
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, ModelFileError
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.file_columns import columns_from, table_arrays
from fmpair.models import Popularity

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
        catalogue.cached("key", lambda: made.append(1) or "made")
    assert made == [1]
    assert catalogue.changed({"item": ["a"]}).cached("key", lambda: "anew") == "anew"


EVENTS = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "c"]})
ITEMS = {
    "item": ["a", "b", "c", "d"],
    "title": ["Ä", None, "", "A"],
    "price": [1.5, None, float("nan"), 0.0],
    "in_stock": [True, None, False, True],
    "tags": [["x", "y"], [], None, ["z"]],
    "sizes": [[1, 2], None, [], [3]],
    "kind": pl.Series(["p", "q", None, "p"], dtype=pl.Categorical),
    "since": [dt.date(2024, 1, 1), None, dt.date(2023, 5, 5), dt.date(2020, 2, 2)],
    "cost": [Decimal("1.25"), None, Decimal("2.50"), Decimal("3.00")],
    "shares": [{"rock": 0.5}, None, {"rock": 1.0}, {"rock": 0.0}],
    "nothing": [None] * 4,
}


def test_every_column_of_the_items_is_in_the_file(tmp_path):
    data = Dataset.from_frame(EVENTS, items=ITEMS, display=list(ITEMS)[1:])
    model = Popularity().fit(data)
    model.save(tmp_path / "m")
    again = load(tmp_path / "m").catalogue
    assert again.columns == list(ITEMS)[1:]
    assert_frame_equal(again.frame(), model.catalogue.frame())
    assert again.row("a")["title"] == "Ä" and again.row("c")["sizes"] == []
    assert again.row("b") == {"tags": [], "kind": "q"}


def test_a_model_without_item_columns_has_no_catalogue():
    assert Popularity().fit(EVENTS).catalogue is None


@pytest.mark.parametrize(
    ("name", "array", "reason"),
    [
        ("catalogue.0", np.arange(2.0), "it has 2 rows, not 3|no mask"),
        ("catalogue.0.known", np.ones(3), "no mask"),
        ("catalogue.1.starts", np.array([0, 2, 1, 3]), "do not rise"),
        ("catalogue.1.offsets", np.array([0, 9, 1]), "do not rise"),
        ("catalogue.7", np.arange(3), "belongs to no column"),
    ],
)
def test_a_damaged_column_is_refused(name, array, reason):
    columns, tensors = table_arrays(pl.DataFrame({"a": [1.0, None, 2.0], "b": [["x"], [], ["y"]]}))
    assert_frame_equal(
        columns_from(columns, tensors, 3),
        pl.DataFrame({"a": [1.0, None, 2.0], "b": [["x"], [], ["y"]]}),
    )
    with pytest.raises(ModelFileError, match=reason):
        columns_from(columns, {**tensors, name: array}, 3)
