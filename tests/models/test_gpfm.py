"""GPFM: what it draws, what it learns on data with a known answer, and what it refuses."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from fmpair import load
from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError, TrainingError
from fmpair.models import GPFM
from fmpair.models.gaussian_process_scorer import drawn_pairs
from fmpair.testing import day_and_night, two_tastes

QUICK = GPFM(factors=4, epochs=15)


def test_pairs_are_an_event_of_the_user_and_an_item_they_have_not():
    data = two_tastes()
    situation = np.arange(len(data), dtype=np.int32)
    pairs = drawn_pairs(data, situation, 5, np.random.default_rng(0))
    assert (np.diff(pairs.start) == 5).all()
    user = np.repeat(np.arange(len(data.users)), 5)
    had = set(zip(data.user.tolist(), data.item.tolist()))
    np.testing.assert_array_equal(data.item[pairs.situation], pairs.item)
    np.testing.assert_array_equal(data.user[pairs.situation], user)
    assert len(set(pairs.situation.tolist())) == len(user), "no event twice"
    assert not had & set(zip(user.tolist(), pairs.other.tolist()))


def test_every_item_that_a_user_lacks_is_drawn_equally_often():
    events = {"user": [0, 0, 0, 1, 1], "item": [5, 6, 2, 7, 9]}
    data = Dataset.from_frame(events, items={"item": [0, 5, 6, 2, 7, 9]})  # 0 has no event
    rng, nowhere = np.random.default_rng(1), np.zeros(5, np.int32)
    drawn = [drawn_pairs(data, nowhere, 9, rng).other for _ in range(3000)]
    number = dict(zip(data.items.ids.to_list(), range(6)))
    for own, lacking in ((slice(0, 3), [7, 9]), (slice(3, 5), [2, 5, 6])):
        others = np.concatenate([other[own] for other in drawn])
        share = np.bincount(others, minlength=6) / len(others)
        wanted = np.zeros(6)
        wanted[[number[item] for item in lacking]] = 1 / len(lacking)
        np.testing.assert_allclose(share, wanted, atol=0.02)


def test_who_has_every_item_has_no_pair_but_gets_scores():
    frame = two_tastes().frame().vstack(pl.DataFrame({"user": "all", "item": np.arange(20)}))
    model = QUICK.fit(frame)
    assert model.recommend("all", 20, exclude_seen=False)["score"].is_finite().all()


def test_the_loss_falls_from_epoch_to_epoch():
    losses = [epoch.loss for epoch in QUICK.train(two_tastes())]
    assert losses[-1] < 0.5 * losses[0]
    assert all(later < before + 1 for before, later in pairwise(losses))


def test_context_decides_what_is_best():
    data = day_and_night()
    model = GPFM(factors=4, epochs=60).fit(data)
    for time, parity in (("day", 0), ("night", 1)):
        out = model.recommend(n=5, context={"time": time}, exclude_seen=False)
        assert (out["item"].to_numpy() % 2 == parity).mean() > 0.95


def test_a_truth_value_is_context_as_two_words_are():
    data = day_and_night()
    said = data.frame().with_columns(pl.col("time") == "day")
    asked = data.frame().select("user", "item").unique(maintain_order=True).head(50)
    words = QUICK.fit(data).score(asked.with_columns(time=pl.lit("night")))["score"]
    truth = QUICK.fit(said).score(asked.with_columns(time=pl.lit(False)))["score"]
    np.testing.assert_allclose(words.to_numpy(), truth.to_numpy(), atol=1e-5)


def test_a_context_left_open_missing_or_unknown_is_the_mean_of_the_known_ones():
    model = GPFM(factors=4, epochs=30).fit(day_and_night())
    asked = pl.DataFrame({"user": ["u1"] * 20, "item": np.arange(20)})

    def scores(**context):
        return model.score(asked.with_columns(**context))["score"].to_numpy()

    left_open = scores()
    nothing, unknown = pl.lit(None, pl.String), pl.lit("dusk")
    np.testing.assert_array_equal(left_open, scores(time=nothing))
    np.testing.assert_array_equal(left_open, scores(time=unknown))
    assert np.abs(scores(time=pl.lit("day")) - scores(time=pl.lit("night"))).max() > 0.1
    *_, day, night, gap = model.scorer.latent.vectors
    share = (day_and_night().frame()["time"] == "day").mean()
    np.testing.assert_allclose(gap, share * day + (1 - share) * night)


def test_missing_values_in_training_have_a_vector_of_their_own():
    frame = day_and_night().frame()
    frame = frame.with_columns(pl.col("time").replace({"night": None}))
    model = GPFM(factors=4, epochs=30).fit(frame)
    out = model.recommend(n=5, exclude_seen=False)
    assert (out["item"].to_numpy() % 2 == 1).mean() > 0.95, "no time is what the night was"


def test_items_without_events_stand_among_the_rarest():
    once = pl.DataFrame({"user": ["u0", "u1", "u2"], "item": [50, 51, 52]})
    data = Dataset.from_frame(
        two_tastes().frame().vstack(once), items={"item": [*range(20), 50, 51, 52, 77]}
    )
    model = QUICK.fit(data)
    *rare, cold = (model.item_number(item) for item in (50, 51, 52, 77))
    vectors = model.scorer.latent.vectors
    np.testing.assert_allclose(vectors[cold], vectors[rare].mean(axis=0))


def test_context_survives_a_file(tmp_path):
    model = QUICK.fit(day_and_night())
    model.save(tmp_path / "model.fmpair")
    again = load(tmp_path / "model.fmpair")
    asked = day_and_night().frame().head(30)
    np.testing.assert_array_equal(model.score(asked)["score"], again.score(asked)["score"])


def test_items_of_one_taste_are_similar():
    model = GPFM(factors=4, epochs=30).fit(two_tastes())
    assert (model.similar_items(4, 9)["item"].to_numpy() % 2 == 0).all()


def test_an_epoch_that_is_past_gives_no_model():
    epochs = QUICK.train(two_tastes())
    first = next(epochs)
    next(epochs)
    with pytest.raises(TrainingError, match="epoch 1 is over"):
        first.recommender()


def test_what_does_not_fit_into_memory_is_refused_before_it_begins():
    recipe = GPFM(pairs=10_000, max_gb=1e-6, threads=1)
    with pytest.raises(OptionError, match=r"with 9 pairs, but max_gb is 1e-06: lower pairs"):
        recipe.train(two_tastes())
    GPFM(pairs=2, max_gb=1e-6, threads=1).train(two_tastes())


def test_a_run_that_blows_up_says_what_to_lower():
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+: lower learning_rate \(1000\)"):
        GPFM(learning_rate=1000.0, epochs=50).fit(two_tastes())


def test_data_without_anything_unchosen_are_refused():
    with pytest.raises(DataError, match="so there are no negatives"):
        QUICK.train({"user": [0, 0, 1, 1], "item": [0, 1, 0, 1]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": 0}, "pairs must be a whole number of at least 1"),
        ({"momentum": 1.0}, "momentum must be a number below 1"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0"),
        ({"initial_noise": -1}, "initial_noise must be a number above 0"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        GPFM(**options)
