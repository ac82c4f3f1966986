"""What a column gives away of the item."""

import numpy as np
import polars as pl
import pytest

from fmpair.data.columns.context_leakage import context_leakage

ITEMS, EVENTS = 200, 6_000
RNG = np.random.default_rng(5)
ITEM = RNG.integers(0, ITEMS, EVENTS)
USER = RNG.integers(0, 300, EVENTS)


def told(values, user=USER, item=ITEM):
    column = pl.Series("x", values)
    return context_leakage(user, item, pl.DataFrame({"x": column}), ["x"]).get("x")


def noisy(values, share):
    """The values with a share of them drawn anew."""
    return np.where(RNG.random(EVENTS) < share, RNG.permutation(values), values)


def test_a_column_that_chance_made_gives_nothing_away():
    for count in (2, 10, 1_000, EVENTS):
        found = told(RNG.integers(0, count, EVENTS).astype(str))
        assert max(found.of_item, found.of_column) < 0.05
        assert found.degree == "none"


def test_what_follows_from_the_item_is_certain():
    found = told(ITEM % 6)
    assert found.of_column == pytest.approx(1)
    assert found.degree == "certain"
    assert found.line == "the item explains 100% of it"


def test_one_changed_row_does_not_hide_a_leak():
    genre = ITEM % 6
    genre[0] = (genre[0] + 1) % 6
    assert told(genre).degree == "certain"


def test_a_price_that_names_the_item_is_certain_with_promotions_too():
    price = 1 + 0.37 * np.arange(ITEMS)[RNG.permutation(ITEMS)][ITEM]
    sold = price * RNG.choice([1, 0.9, 0.8], EVENTS, p=[0.8, 0.1, 0.1])
    assert told(price).of_item == pytest.approx(1)
    assert told(sold).degree == "certain"
    assert told(sold * RNG.uniform(0.99, 1.01, EVENTS)).degree in ("likely", "certain")


def test_the_degree_falls_with_what_is_told():
    degrees = [told(noisy(ITEM % 6, share)).degree for share in (0, 0.05, 0.15, 0.5)]
    assert degrees == ["certain", "likely", "suspect", "none"]


def test_a_context_that_decides_is_none_of_it():
    """Half of the choices follow the time of day."""
    daytime = np.where(RNG.random(EVENTS) < 0.5, ITEM % 4, RNG.integers(0, 4, EVENTS))
    assert told(daytime).degree == "none"


def test_what_follows_from_the_user_tells_no_more_than_the_user():
    taste = USER % 5
    item = taste * 40 + RNG.integers(0, 40, EVENTS)  # every user keeps to a fifth of the items
    assert told(taste, item=item).of_column == 0


def test_lists_gaps_and_numbers_are_columns_too():
    tags = [[f"t{n % 3}", f"t{n % 5}"] for n in ITEM]
    assert told(tags).degree == "certain"
    gaps = [None if n % 2 else str(n % 7) for n in ITEM]
    assert told(gaps).degree == "certain"
    assert told(ITEM + RNG.uniform(0, 0.1, EVENTS)).degree == "certain"


def test_few_repeated_items_prove_nothing():
    assert told(ITEM[:60] % 2, USER[:60], np.arange(60) // 2) is None
    assert told(["x"] * EVENTS) is None


def test_of_many_events_a_sample_tells_the_same():
    item = np.tile(ITEM, 40)
    genre = pl.DataFrame({"x": item % 6})
    found = context_leakage(np.tile(USER, 40), item, genre, ["x"])["x"]
    assert found.of_column == pytest.approx(1)
