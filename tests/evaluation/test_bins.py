"""Views of columns with many values stay readable."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.evaluation import evaluate
from fmpair.evaluation.views import MOST, OTHERS, binned, groups, in_order, view


def test_few_values_stay_as_they_are():
    values = pl.Series("hour", [3, 1, 2] * 9)
    assert binned(values, values).equals(values)


def test_numbers_are_cut_into_ranges_of_as_many_events_each():
    price = pl.Series("price", np.arange(1, 101) / 2)
    made = binned(price, price)
    counts = made.value_counts()
    assert set(counts["count"]) == {20}
    assert in_order(made.unique()) == [
        "up to 10", "10 to 20", "20 to 30", "30 to 40", "above 40",
    ]  # fmt: skip
    assert made[0] == "up to 10" and made[19] == "up to 10" and made[20] == "10 to 20"


def test_ranges_go_by_all_events_and_gaps_stay_gaps():
    known = pl.Series("price", np.arange(1000.0))
    made = binned(pl.Series("price", [5.0, None, float("nan"), 998.5]), known)
    assert made.to_list() == ["up to 199", None, None, "above 799"]


def test_a_value_that_most_events_have_makes_no_empty_range():
    price = pl.Series("price", [0.0] * 900 + list(np.arange(1.0, 101)))
    made = binned(price, price)
    assert in_order(made.unique()) == ["up to 0", "above 0"]


def test_times_are_cut_by_days():
    days = [datetime(2024, 1, 1) + timedelta(days=n) for n in range(50)]
    made = binned(pl.Series("at", days), pl.Series("at", days))
    assert in_order(made.unique())[:2] == ["up to 2024-01-10", "2024-01-10 to 2024-01-20"]


def test_of_many_names_the_commonest_stay():
    city = pl.Series("city", [f"c{n:02}" for n in range(40) for _ in range(40 - n)] + [None])
    made = binned(city, city)
    assert made.drop_nulls().n_unique() == MOST and made.null_count() == 1
    assert in_order(made.drop_nulls().unique())[-1] == OTHERS
    assert "c00" in made and "c39" not in made


@pytest.mark.parametrize(
    ("groups", "ordered"),
    [
        (["10", "9", "(none)", "1"], ["1", "9", "10", "(none)"]),
        (["night", "day", "2nd"], ["2nd", "day", "night"]),
        (["above 9", "-1 to 2.5", "2.5 to 9", "up to -1"],
         ["up to -1", "-1 to 2.5", "2.5 to 9", "above 9"]),
    ],
)  # fmt: skip
def test_groups_stand_in_the_order_a_reader_expects(groups, ordered):
    assert in_order(groups) == ordered


def test_a_view_on_a_measured_number_has_five_groups():
    rng = np.random.default_rng(0)
    data = Dataset.from_frame({
        "user": rng.integers(0, 9, 400), "item": rng.integers(0, 20, 400),
        "temperature": rng.random(400),
    })  # fmt: skip
    found = evaluate(lambda rows: np.tile(np.arange(20, dtype=np.float32), (len(rows), 1)),
                     data, data, metrics=["recall@5"])  # fmt: skip
    assert len(view(found, groups("context:temperature", found, data, data))) == 5
    half = data.take(np.arange(200))
    assert groups("context:temperature", found, half, data, data).n_unique() == 5
