"""The figures of the paper's Table 1 and more."""

import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.data.describe import describe, figures

EVENTS = pl.DataFrame(
    {
        "user": [1, 1, 1, 2],
        "item": ["a", "a", "b", "b"],
        "rating": [1, 2, 3, 4],
        "timestamp": [10, 30, 20, 5],
        "domain": ["x", "x", "y", "y"],
        "place": ["home", None, "home", "work"],
    }
)
ITEMS = pl.DataFrame({"item": ["a", "c"], "genres": [["War", "Drama"], ["War"]]})
FIGURES = figures(Dataset.from_frame(EVENTS, items=ITEMS))


def test_sizes_and_sparsity():
    assert FIGURES["users"] == 2
    assert FIGURES["items"] == 3
    assert FIGURES["events"] == 4
    assert FIGURES["distinct pairs"] == 3
    assert FIGURES["duplicate events"] == 1
    assert FIGURES["sparsity %"] == 50


def test_activity_of_users_and_items():
    assert FIGURES["events per user, min"] == 1
    assert FIGURES["events per user, mean"] == 2
    assert FIGURES["events per user, max"] == 3
    assert FIGURES["items without events"] == 1


def test_context_attributes_domains_and_times():
    assert FIGURES["context place, distinct values"] == 2
    assert FIGURES["context place, missing %"] == 25
    assert FIGURES["item attribute genres, distinct values"] == 2
    assert FIGURES["domain x, events"] == 2
    assert FIGURES["domain y, items"] == 1
    assert (FIGURES["first timestamp"], FIGURES["last timestamp"]) == ("5", "30")


def test_the_table_is_long_and_readable():
    table = describe(Dataset.from_frame(EVENTS))
    assert table.columns == ["name", "value"]
    assert table.row(0) == ("users", "2")
    assert dict(table.rows())["sparsity %"] == "25.00"


@pytest.mark.parametrize("scale", [1, 1000, 1_000_000])
def test_numbers_that_are_times_are_told_as_dates(scale):
    times = [1_600_000_402 * scale, 1_700_000_000 * scale]
    data = Dataset.from_frame({"user": ["a", "b"], "item": [1, 2], "timestamp": times})
    found = figures(data)
    assert found["first timestamp"] == "2020-09-13 12:33:22 UTC"
    assert found["last timestamp"] == "2023-11-14 22:13:20 UTC"
