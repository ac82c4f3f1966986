"""What a recipe leaves open, settled by its loss and by the data."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.arrays import distinct_pairs
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace
from fmpair.training import defaults as usual
from fmpair.training.defaults import (
    FACTORS_OF_MANY,
    L2_BY_LOSS,
    RepeatStats,
    Setting,
    dropout_of,
    factors_of,
    factors_of_ids,
    l2_of,
    n_negatives_of,
    own_share_of,
    repeat_stats,
)
from fmpair.training.loop import learning_rate
from fmpair.training.problem import problem_of, settings_of


def problem(events):
    """The problem of events given as (user, item)."""
    data = Dataset.from_frame(dict(zip(("user", "item"), map(list, zip(*events)))))
    return problem_of(FMPair(), FeatureSpace.fit(data, {}, False), data)


@pytest.mark.parametrize(
    ("items", "candidates"), [(20, 8), (100, 10), (1700, 32), (6400, 100), (10**6, 256)]
)
def test_softmax_looks_at_more_candidates_where_there_are_more_items(items, candidates):
    assert n_negatives_of(FMPair(), items) == candidates


def test_warp_always_looks_at_as_many_and_what_is_given_is_taken():
    assert n_negatives_of(FMPair(loss="warp"), 10**6) == 32
    assert n_negatives_of(FMPair(n_negatives=5), 10**6) == 5


def test_users_who_never_choose_an_item_twice_are_even():
    repeats = repeat_stats(problem([("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "c")]), None)
    assert repeats == RepeatStats(evenness=1.0, spread=1.0, breadth=2.0)


def test_users_who_choose_each_item_as_often_are_even_too():
    twice = [("ann", "a"), ("ann", "b"), ("bob", "a"), ("bob", "c")] * 2
    assert repeat_stats(problem(twice), None) == RepeatStats(evenness=1.0, spread=1.0, breadth=2.0)


def test_evenness_falls_with_favourites_and_counts_users_by_their_events():
    # ann: 9 times a and once b, as even as 100 / 82 items of 2; bob: two items, once each
    events = [("ann", "a")] * 9 + [("ann", "b"), ("bob", "a"), ("bob", "c")]
    repeats = repeat_stats(problem(events), None)
    assert repeats.evenness == pytest.approx((10 * 100 / 82 / 2 + 2 * 1.0) / 12)
    # of ann's 90 ordered pairs of events 72 are of one item: as many as if she had 90 / 72 items
    assert repeats.spread == pytest.approx((10 * 90 / 72 / 2 + 2 * 1.0) / 12)


def test_repeats_by_chance_are_no_favourites():
    drawn = np.random.default_rng(0).integers(0, 5, (50, 20))  # five items, each as likely
    repeats = repeat_stats(problem([(u, i) for u, row in enumerate(drawn) for i in row]), None)
    assert repeats.evenness < 0.9 < repeats.spread


def test_what_was_seen_before_tells_of_users_when_learning_goes_on():
    new = problem([("ann", "a"), ("bob", "b")])
    user, item = np.array([0] * 9 + [0, 1, 1]), np.array([0] * 9 + [1, 0, 1])
    assert repeat_stats(new, distinct_pairs(user, item, 2)).evenness < 0.8


def test_of_many_events_whole_users_are_looked_at(monkeypatch):
    events = [(u, i) for u in range(40) for i in range(5) for _ in range(2)]
    whole = repeat_stats(problem(events), None)
    monkeypatch.setattr(usual, "SAMPLE", 50)
    assert repeat_stats(problem(events), None) == whole


def test_negatives_come_from_own_items_where_users_have_favourites_only():
    favourites, even = RepeatStats(0.4, 0.4, 20.0), RepeatStats(0.9, 0.9, 20.0)
    assert own_share_of(FMPair(), favourites) == pytest.approx(0.08)
    assert own_share_of(FMPair(), RepeatStats(0.8, 0.8, 20.0)) == pytest.approx(0.04)
    assert own_share_of(FMPair(), even) == 0
    assert own_share_of(FMPair(loss="bpr"), favourites) == 0
    assert own_share_of(FMPair(own_share=0.3), even) == 0.3
    assert own_share_of(FMPair(impression_share=1.0), favourites) == 0, "nothing is left to share"


PLAIN = Setting(exact=False, in_blocks=False, history=False, events_per_item=30.0, factors=256)


def test_softmax_holds_users_of_many_items_and_of_favourites_less():
    few = l2_of(FMPair(), RepeatStats(1.0, 1.0, 5.0), PLAIN)
    assert few == L2_BY_LOSS["softmax"]
    assert l2_of(FMPair(), RepeatStats(1.0, 1.0, 200.0), PLAIN).user == pytest.approx(few.user / 2)
    assert l2_of(FMPair(), RepeatStats(0.3, 0.8, 5.0), PLAIN) == few, "repeats by chance"
    even = l2_of(FMPair(), RepeatStats(0.375, 0.375, 5.0), PLAIN)
    assert even.item == pytest.approx(few.item / 2**5)


def test_softmax_over_all_items_holds_users_of_few_items_up_to_twice_as_much():
    usual_l2, exact = L2_BY_LOSS["softmax"], PLAIN._replace(exact=True)
    assert l2_of(FMPair(), RepeatStats(1.0, 1.0, 40.0), exact).user == pytest.approx(
        1.25 * usual_l2.user
    )
    assert l2_of(FMPair(), RepeatStats(1.0, 1.0, 5.0), exact).item == pytest.approx(
        2 * usual_l2.item
    )
    assert l2_of(FMPair(), RepeatStats(1.0, 1.0, 200.0), exact).user == pytest.approx(
        usual_l2.user / 2
    )


def test_a_history_takes_over_from_users_of_few_items_and_not_from_items():
    usual_l2, history = L2_BY_LOSS["softmax"], PLAIN._replace(history=True)
    few = l2_of(FMPair(), RepeatStats(1.0, 1.0, 5.0), history)
    assert (few.user, few.item) == pytest.approx((10 * usual_l2.user, usual_l2.item))


def test_histories_drop_more_factors_the_fewer_events_an_item_has():
    def dropped(events, exact=True, factors=256, **options):
        return dropout_of(FMPair(**options), Setting(exact, False, True, events, factors))

    assert [dropped(n) for n in (5, 250, 1000, 5000)] == pytest.approx([0.8, 0.5, 0, 0])
    assert [dropped(n, exact=False) for n in (5, 90, 250)] == pytest.approx([0.6, 0.4, 0])
    assert [dropped(5, factors=k) for k in (16, 50, 100)] == pytest.approx([0, 0, 0.5])
    assert dropped(5, dropout=0.3) == 0.3
    assert dropped(5, loss="bpr") == dropped(5, temperature=0.1) == 0
    assert dropout_of(FMPair(), PLAIN) == 0


def test_there_are_more_factors_for_many_events():
    assert [factors_of(FMPair(), n) for n in (99_999, 100_000)] == [128, 256]
    assert factors_of(FMPair(factors=7), 10**6) == 7


def test_ids_alone_have_more_factors_on_a_gpu():
    def factors(events=10**6, **options):
        return factors_of_ids(FMPair(device="torch", **options), FACTORS_OF_MANY, events)

    assert factors() == 2 * FACTORS_OF_MANY
    assert factors(10**7) == factors(loss="bpr") == FACTORS_OF_MANY
    assert factors_of_ids(FMPair(), 192, 10**6) == 192


def test_histories_and_contexts_have_fewer_factors_on_a_gpu_than_ids_alone():
    pytest.importorskip("torch")
    rows = [(f"u{n % 5}", f"i{n % 4}", n, "am" if n % 2 else "pm") for n in range(12)]
    events = pl.DataFrame(rows, ["user", "item", "timestamp", "daytime"], orient="row")

    def factors(*columns):
        recipe = FMPair(device="torch", epochs=1, history=2 * ("timestamp" in columns), times=False)
        return recipe.fit(events.select("user", "item", *columns)).parameters.users.shape[1]

    assert factors() == 2 * FACTORS_OF_MANY
    assert factors("timestamp") == factors("daytime") == FACTORS_OF_MANY


def test_other_losses_hold_all_data_alike():
    for loss in ("bpr", "hinge", "logistic", "warp"):
        assert l2_of(FMPair(loss=loss), RepeatStats(0.3, 0.3, 500.0), PLAIN) == L2_BY_LOSS[loss]


def held_fields(**options):
    """The thresholds of a context and of an attribute of users, and the upper bound."""
    user, item = [f"u{n % 6}" for n in range(24)], [f"i{(n * n) % 7}" for n in range(24)]
    time = [("day", "night")[(n // 6) % 2] for n in range(24)]
    users = {"user": sorted(set(user)), "age": [f"{n % 2}0s" for n in range(6)]}
    data = Dataset.from_frame({"user": user, "item": item, "time": time}, users=users)
    recipe, space = FMPair(**options), FeatureSpace.fit(data, {}, False)
    own = settings_of(recipe, space, problem_of(recipe, space, data))
    names = [e.name for e in space.query.encoders for _ in range(e.size)]
    by_name = dict(zip(names, own.query_threshold))
    return by_name["time"], by_name["age"], own.strongest


def test_pairs_ask_as_much_of_every_field():
    few = [np.sqrt(25 / owners) for owners in (6, 3)]
    assert held_fields(loss="bpr") == pytest.approx((0.015 * few[0], 0.015 * few[1], 0.5))


def test_softmax_asks_more_of_a_field_that_stands_for_users():
    time, age, strongest = held_fields(n_negatives=32)
    assert age > 3 * time, "an age repeats what the users' own vectors say"
    assert strongest == pytest.approx(7.5)
    assert held_fields(n_negatives=8)[1] == pytest.approx(age / 2)


def test_the_last_rate_is_the_share_that_is_left():
    recipe = FMPair(epochs=5, learning_rate=0.2, final_rate_share=0.5)
    assert learning_rate(recipe, 1, recipe.final_rate_share) == 0.2
    assert learning_rate(recipe, 5, recipe.final_rate_share) == pytest.approx(0.1)
    assert learning_rate(recipe, 5, 1.0) == learning_rate(recipe, 1, 1.0)
    with pytest.raises(OptionError, match="final_rate_share must be a number of at least 0"):
        FMPair(final_rate_share=-1)
