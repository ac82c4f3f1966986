"""Columns chosen one by one on events held out."""

import logging

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.errors import FmpairError, OptionError
from fmpair.fitted import recipe as option
from fmpair.models import FMPair, FMPairSelected, load
from fmpair.testing import day_and_night, two_tastes

PLAIN = {"factors": 6, "epochs": 10, "regularization": 0.1}
OPTIONS = {**PLAIN, "least_gain": 0.02}


def with_noise(users=100):
    """`day_and_night` with two columns that say nothing."""
    frame = day_and_night(users=users).frame()
    rng = np.random.default_rng(1)
    noise = {
        name: pl.Series([f"{name} {n}" for n in rng.integers(0, 4, len(frame))])
        for name in ("mood", "moon")
    }
    return frame.with_columns(**noise).select("user", "item", "mood", "time", "moon")


def test_the_column_that_decides_is_chosen_and_noise_is_not():
    selection = FMPairSelected(**OPTIONS).select(with_noise())
    assert selection.columns == ("context.time",)


def test_the_fitted_model_has_the_chosen_columns_only():
    data = with_noise()
    model = FMPairSelected(**OPTIONS).fit(data)
    assert model.space.context == ["time"]
    same = FMPair(**PLAIN).fit(data.drop("mood", "moon"))
    for part, wanted in zip(model.parameters, same.parameters):
        np.testing.assert_array_equal(part, wanted)


def test_the_trace_tells_every_trial():
    trace = FMPairSelected(**OPTIONS).select(with_noise()).trace
    assert trace["step"].to_list() == [0, 1, 1, 1, 2, 2]
    first = trace.filter(pl.col("step") == 1)
    assert set(first["column"]) == {"context.mood", "context.time", "context.moon"}
    assert trace.filter("chosen")["column"].to_list() == [None, "context.time"]
    assert first["value"].max() == first.filter("chosen")["value"].item()


def test_the_same_columns_are_chosen_each_time():
    one, other = (FMPairSelected(**OPTIONS).select(with_noise()) for _ in range(2))
    assert one.columns == other.columns and one.trace.equals(other.trace)


def test_attributes_may_be_chosen_too_and_the_rest_stays():
    users = {"user": [f"u{n}" for n in range(100)], "age": [20.0 + n for n in range(100)]}
    data = Dataset.from_frame(with_noise(), users=users)
    model = FMPairSelected(**OPTIONS, among=["age", "mood"]).fit(data)
    assert model.space.context == ["time", "moon"]
    assert [e.name for e in model.space.query.encoders] == ["time", "moon"]


def test_options_of_columns_that_are_left_out_are_left_out():
    recipe = FMPairSelected(
        **{**OPTIONS, "regularization": {"moon": 0.1, "user": 0.01}},
        fields={"mood": "categorical", "time": "categorical"},
    )
    assert recipe.fit(with_noise()).space.context == ["time"]


def test_data_without_columns_are_plain_fm_pair():
    ours = FMPairSelected(factors=4, epochs=3).fit(two_tastes())
    theirs = FMPair(factors=4, epochs=3).fit(two_tastes())
    np.testing.assert_array_equal(ours.parameters.users, theirs.parameters.users)


def test_progress_is_on_the_log(caplog):
    with caplog.at_level(logging.INFO, "fmpair"):
        FMPairSelected(**OPTIONS).select(with_noise())
    assert "adding context.time" in caplog.text and "stopped before" in caplog.text


def test_a_saved_model_keeps_its_recipe_and_its_columns(tmp_path):
    model = FMPairSelected(**OPTIONS, among=("time", "moon")).fit(with_noise().drop("mood"))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.space.context == ["time"]
    assert option.plain(again.recipe) == option.plain(model.recipe)


def test_a_wrong_option_is_named():
    with pytest.raises(FmpairError, match="unknown column 'tim'"):
        FMPairSelected(**OPTIONS, among=["tim"]).fit(with_noise())
    with pytest.raises(OptionError, match="least_gain must be"):
        FMPairSelected(least_gain=-1)
    with pytest.raises(OptionError, match="share between 0 and 1"):
        FMPairSelected(held_out=1.5, epochs=1).fit(with_noise())


@pytest.mark.parametrize("verb", ["update", "fold_in"])
def test_new_events_may_have_the_columns_that_were_not_chosen(verb):
    recipe = FMPairSelected(**{**OPTIONS, "regularization": {"moon": 0.1, "user": 0.05}})
    model = recipe.fit(with_noise())
    new = pl.DataFrame(
        {"user": ["new"] * 2, "item": [2, 4], "mood": ["mood 1"] * 2, "time": ["day"] * 2}
    )
    grown = getattr(model, verb)(new, epochs=3)
    assert grown.space.context == ["time"] and grown.recipe == recipe
    same = getattr(model, verb)(new.drop("mood"), epochs=3)
    np.testing.assert_array_equal(grown.parameters.users, same.parameters.users)


def test_columns_that_could_not_be_chosen_are_not_left_out_in_silence():
    model = FMPairSelected(**OPTIONS, among=["moon"]).fit(with_noise().drop("mood"))
    new = pl.DataFrame({"user": ["u1"], "item": [2], "moon": ["moon 1"], "mood": ["mood 1"]})
    with pytest.raises(FmpairError, match="unknown context 'mood'"):
        model.update(Dataset.from_frame(new))  # of a frame, other columns play no part
    assert "moon" not in model.update(new.drop("mood"), epochs=1).space.context
