"""Damping: what popularity adds to the scores taken off, and nothing else touched."""

from functools import cache
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmpair import Dataset, FMPair, Popularity, load
from fmpair.errors import OptionError
from fmpair.fitted.factor_model import popularity_part
from fmpair.models import EASE, FactorisedNeighbours, ListwiseFM, PureSVD
from fmpair.testing import cold_items, two_tastes

DAMPINGS = (-0.5, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5)


def worn_paths(users=60, items=30, seed=0):
    """Item n is chosen about as often as 1 / (n + 1), by users of its own parity three times as
    often as by others; four more items have no event."""
    rng = np.random.default_rng(seed)
    user, item = np.divmod(np.arange(users * items), items)
    chosen = rng.random(users * items) < np.where(user % 2 == item % 2, 4.5, 1.5) / (item + 1)
    events = {"user": user[chosen], "item": item[chosen]}
    return Dataset.from_frame(events, items={"item": np.arange(items + 4)})


DATA = worn_paths()
TIMES = np.bincount(DATA.item, minlength=len(DATA.items))
RECIPES = {
    "products": FMPair(factors=4, epochs=20),
    "no bias": FMPair(factors=4, epochs=20, item_bias=False),
    "cosines": ListwiseFM(factors=4, epochs=20),
    "users by their items": FactorisedNeighbours(factors=4, epochs=20),
}


@cache
def learned(kind):
    return RECIPES[kind].fit(DATA)


@pytest.fixture(params=RECIPES)
def model(request):
    return learned(request.param)


def listed_log_times(model):
    """[users]: the mean of ln(events) of each user's list, among items that have events."""
    warm = model.item_ids[TIMES > 0].tolist()
    out = model.recommend(n=5, candidates=warm)
    times = pl.DataFrame({"item": model.item_ids, "log": np.log(np.maximum(TIMES, 1))})
    return out.join(times, on="item").group_by("user").agg(pl.col("log").mean()).sort("user")["log"]


def usual_scores(model):
    known = np.diff(model.seen.start) > 0
    users = pl.DataFrame({"user": model.user_ids[known]})
    return (model.query_vectors(users) @ model.item_vectors.T).mean(axis=0) + model.item_constants


def test_no_damping_leaves_every_bit(model):
    np.testing.assert_array_equal(model.item_constants, model.learned_constants)
    back = model.damped(0.7).damped(0)
    np.testing.assert_array_equal(back.item_constants, model.item_constants)
    assert back.recommend(n=5).equals(model.recommend(n=5))


def test_no_list_gets_more_popular_by_more_damping(model):
    """A list maximises its scores less damping * ln(events): an exchange argument proves it."""
    found = [listed_log_times(model.damped(damping)) for damping in DAMPINGS]
    for less, more in pairwise(found):
        assert (more - less).max() < 1e-6
    assert found[0].mean() > found[-1].mean() + 0.3


def test_full_damping_leaves_usual_scores_that_popularity_does_not_foretell(model):
    warm = TIMES > 0
    before, after = (
        np.corrcoef(np.log(TIMES[warm]), usual_scores(m)[warm])[0, 1]
        for m in (model, model.damped(1))
    )
    assert before > 0.5 and abs(after) < 1e-3


def test_damping_is_linear_and_never_adds_up_over_calls(model):
    half, whole = model.damped(0.5), model.damped(0.2).damped(1.0)
    np.testing.assert_allclose(2 * half.popularity_penalty, whole.popularity_penalty, atol=1e-6)
    np.testing.assert_array_equal(whole.popularity_penalty, model.damped(1.0).popularity_penalty)


def test_a_damped_model_shares_what_was_learned_and_finds_the_same_items_similar():
    model, damped = learned("products"), learned("products").damped(1)
    assert damped.parameters is model.parameters and damped.recipe is model.recipe
    assert damped.similar_items(3).equals(model.similar_items(3))
    assert damped.similar_users(3).equals(model.similar_users(3))
    assert damped.recommend_users(3, 60)["user"].equals(model.recommend_users(3, 60)["user"])
    assert not damped.recommend(n=5).equals(model.recommend(n=5))


@pytest.mark.parametrize("damping", [-0.5, 0.3, 1])
def test_a_damped_explanation_adds_up_and_names_the_damping(model, damping):
    damped = model.damped(damping)
    for item in (0, 7, 31):  # the last has no event
        terms = damped.explain(5, item)
        score = damped.score(pl.DataFrame({"user": [5], "item": [item]}))["score"][0]
        assert terms["value"].sum() == pytest.approx(score, abs=1e-5)
        assert terms.filter(item="damping")["query"].to_list() == [""]
    assert "damping" not in model.explain(5, 7)["item"]


def test_items_without_events_do_not_rise_above_what_users_chose(model):
    cold = model.item_ids[TIMES == 0].tolist()
    for damping in DAMPINGS:
        first = model.damped(damping).recommend(n=1, exclude_seen=False)["item"]
        assert not first.is_in(cold).any()


def test_attributes_still_decide_among_items_without_events():
    model = FMPair(factors=4, epochs=30).fit(cold_items()).damped(1)
    best = model.recommend(["u0", "u1"], 3, candidates=list(range(14, 20)))
    assert (best["item"] % 2).to_list() == [0, 0, 0, 1, 1, 1]


def test_the_option_of_a_recipe_damps_what_it_fits_and_nothing_before():
    plain = learned("products")
    fitted = FMPair(factors=4, epochs=20, damping=0.5).fit(DATA)
    np.testing.assert_array_equal(fitted.parameters.items, plain.parameters.items)
    np.testing.assert_array_equal(fitted.item_constants, plain.damped(0.5).item_constants)
    again = FactorisedNeighbours(factors=4, epochs=20, damping=0.5).fit(DATA)
    wanted = learned("users by their items").damped(0.5)
    np.testing.assert_array_equal(again.item_constants, wanted.item_constants)


def test_a_saved_model_stays_damped(tmp_path):
    damped = learned("products").damped(0.4)
    damped.save(tmp_path / "m.fmpair")
    again = load(tmp_path / "m.fmpair")
    assert again.damping == 0.4 and again.recommend(n=5).equals(damped.recommend(n=5))
    back = again.damped(0).recommend(n=5)
    assert back.equals(learned("products").recommend(n=5))


@pytest.mark.parametrize("go_on", ["update", "fold_in"])
def test_going_on_learns_from_undamped_scores_and_stays_damped(go_on):
    more = pl.DataFrame({"user": [900, 900, 900], "item": [20, 21, 22]})
    plain, damped = (
        getattr(learned("products").damped(d), go_on)(more, epochs=3) for d in (0, 0.5)
    )
    assert damped.damping == 0.5 and plain.damping == 0
    for ours, theirs in zip(damped.parameters, plain.parameters):
        np.testing.assert_array_equal(ours, theirs)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_the_popularity_part_is_a_rising_line_over_the_logarithm_of_events(times, seed):
    times = np.array(times)
    usual = np.random.default_rng(seed).normal(size=len(times)).astype(np.float32)
    part, warm = popularity_part(usual, times), times > 0
    assert part.shape == times.shape and np.isfinite(part).all()
    if not part.any():
        return
    order = np.argsort(times[warm])
    assert (np.diff(part[warm][order]) >= 0).all()
    assert part[warm].mean() == pytest.approx(0, abs=1e-5)
    rest = (usual - part)[warm]
    assert (rest - rest.mean()) @ np.log(times[warm]) == pytest.approx(0, abs=1e-3)
    np.testing.assert_allclose(part[~warm], usual[~warm] - usual[warm].mean(), atol=1e-6)


def test_where_nothing_is_popular_or_popular_items_score_low_nothing_is_damped():
    usual = np.float32([3, 1, 2])
    for times in ([4, 4, 4], [0, 4, 0], [0, 0, 0], [1, 9, 5]):
        assert not popularity_part(usual, np.array(times)).any()
    even = FMPair(factors=4, epochs=5).fit(two_tastes())
    assert even.damped(1).recommend(n=3).equals(even.recommend(n=3))


def test_every_fitted_model_of_vectors_can_be_damped_and_others_say_why_not():
    for recipe in (Popularity(), PureSVD(factors=4)):
        model = recipe.fit(DATA)
        assert listed_log_times(model.damped(2)).mean() < listed_log_times(model).mean() - 0.1
    with pytest.raises(OptionError, match="EASE cannot be damped: its scores are not products"):
        EASE().fit(DATA).damped(0.5)


@pytest.mark.parametrize("wrong", ["much", float("nan"), float("inf"), None])
def test_a_damping_that_is_no_number_is_refused(wrong):
    with pytest.raises(OptionError, match="damping must be a number, not"):
        learned("products").damped(wrong)
    with pytest.raises(OptionError, match="damping must be a number, not"):
        FMPair(damping=wrong)
