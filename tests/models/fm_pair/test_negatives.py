"""Negatives of the batch and among what was shown: known answers, and what may be asked for."""

import numpy as np
import pytest

from fmpair import Dataset, FMPair, Popularity
from fmpair.errors import OptionError
from fmpair.models import EASE, FMPairTarget
from fmpair.testing import two_tastes
from fmpair.testing.known_answers import left_out

USERS, ITEMS = 40, 24
SMALL = {"factors": 8, "epochs": 100, "seed": 1}


def offers():
    """(events, shown): users chose six of the twelve items of their taste, and passed over three.

    Right answer: of the six left the three that were not passed over.
    """
    rng = np.random.default_rng(0)
    tastes = np.stack([rng.permutation(np.arange(n % 2, ITEMS, 2)) for n in range(USERS)])
    ids = np.array([f"u{n}" for n in range(USERS)])
    return [
        {"user": np.repeat(ids, part.shape[1]), "item": part.ravel()}
        for part in (tastes[:, :6], tastes[:, 6:9])
    ]


def share_passed_over(model, shown):
    """Of three recommendations for everyone, how many were shown to that user before."""
    known = set(zip(shown["user"], shown["item"]))
    listed = model.recommend(n=3)
    return np.mean([pair in known for pair in zip(listed["user"], listed["item"])])


@pytest.mark.parametrize("loss", [{"loss": "bpr"}, {"loss": "softmax", "n_negatives": 4}])
def test_items_that_were_shown_and_not_chosen_fall(loss):
    events, shown = offers()
    data = Dataset.from_frame(events, impressions=shown)
    without, some, most = (
        share_passed_over(FMPair(**SMALL, **loss, impression_share=share).fit(data), shown)
        for share in (0.0, 0.3, 0.6)
    )
    assert most < some < without - 0.1
    assert without > 0.4 and most < 0.1


def test_no_other_model_takes_notice_of_what_was_shown():
    events, shown = offers()
    plain, known = Dataset.from_frame(events), Dataset.from_frame(events, impressions=shown)
    for recipe in (FMPair(**SMALL), Popularity(), EASE()):
        lists = [recipe.fit(data).recommend(n=5) for data in (plain, known)]
        assert lists[0].equals(lists[1])


def test_a_pair_that_was_chosen_is_no_negative_though_it_was_shown():
    events, shown = offers()
    both = {name: np.concatenate([events[name], shown[name]]) for name in events}
    fits = [
        FMPair(**SMALL, impression_share=0.3).fit(Dataset.from_frame(events, impressions=pairs))
        for pairs in (shown, both)
    ]
    np.testing.assert_array_equal(fits[0].item_vectors, fits[1].item_vectors)


def test_a_model_goes_on_learning_with_and_without_what_was_shown():
    events, shown = offers()
    model = FMPair(**SMALL, loss="bpr", impression_share=0.3).fit(
        Dataset.from_frame(events, impressions=shown)
    )
    new = {"user": ["new"] * 3, "item": [1, 3, 5]}
    passed = {"user": ["new"] * 3, "item": [7, 9, 11]}
    plain = model.fold_in(new, epochs=50)
    told = model.fold_in(Dataset.from_frame(new, impressions=passed), epochs=50)
    assert plain.recipe == told.recipe == model.recipe
    places = [
        np.flatnonzero(grown.recommend("new", ITEMS)["item"].is_in(passed["item"]).to_numpy())
        for grown in (plain, told)
    ]
    assert places[1].mean() > places[0].mean() + 1


def test_numbers_follow_the_ids_where_only_one_domain_is_learned():
    events, shown = offers()
    other = {"user": ["u0", "u1"], "item": [100, 101]}
    both = {name: np.concatenate([other[name], events[name]]) for name in events}
    domain = ["book"] * 2 + ["film"] * len(events["user"])
    data = Dataset.from_frame({**both, "domain": domain}, impressions=shown)
    model = FMPairTarget(**SMALL, target="film", impression_share=0.6).fit(data)
    assert share_passed_over(model, shown) < 0.1


@pytest.mark.parametrize("negatives", ["batch", "popularity", "uniform"])
def test_a_corrected_softmax_finds_the_one_item_a_user_lacks(negatives):
    recipe = FMPair(factors=4, epochs=60, seed=1, loss="softmax", n_negatives=5,
                    negative_sampler=negatives, logq_correction=True)  # fmt: skip
    first = recipe.fit(two_tastes()).recommend(n=1)
    number = first["user"].str.slice(1).cast(int).to_numpy()
    assert (first["item"].to_numpy() == left_out(number)).mean() >= 0.95


def test_a_correction_lifts_popular_items():
    rng = np.random.default_rng(0)
    item = (rng.random(1500) ** 5 * 40).astype(int)
    data = Dataset.from_frame({"user": rng.integers(0, 100, 1500), "item": item})
    times = np.bincount(data.item)
    means = []
    for correction in (False, True):
        recipe = FMPair(
            factors=4, epochs=20, loss="softmax", negative_sampler="batch", n_negatives=8,
            logq_correction=correction, regularization={"bias": 0.0},
        )  # fmt: skip
        listed = recipe.fit(data).recommend(n=3)["item"]
        means.append(times[data.items.numbers(listed)].mean())
    assert means[1] > 1.5 * means[0]


def test_a_share_of_what_was_shown_needs_data_that_say_what_was():
    with pytest.raises(OptionError, match="the data has no impressions"):
        FMPair(impression_share=0.2).fit(two_tastes())


@pytest.mark.parametrize("wrong", [
    {"impression_share": 1.5}, {"impression_share": -0.1},
    {"impression_share": 0.6, "own_share": 0.6},
    {"impression_share": 0.1, "loss": "warp"}, {"logq_correction": True, "loss": "warp"},
    {"logq_correction": True, "negative_sampler": "adaptive"},
    {"logq_correction": True, "loss": "bpr", "negative_sampler": "batch"},
    {"logq_correction": True, "loss": "softmax", "negative_sampler": "batch",
     "impression_share": 0.1},
])  # fmt: skip
def test_shares_and_corrections_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        FMPair(**wrong)
