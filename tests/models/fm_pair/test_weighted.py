"""One learned weight per field."""

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace
from fmpair.models import FMPair, FMPairWeighted, load
from fmpair.models.fm_pair.weighted import (
    better,
    by_feature,
    draw_pairs,
    field_names,
    loss,
    margins,
    parts_of,
    scaled_problem,
    with_weights,
    without_weights,
)
from fmpair.testing import two_tastes
from fmpair.training.problem import problem_of
from fmpair.training.start import initial

OPTIONS = {"factors": 6, "epochs": 20}


def noisy_days(events=5000, seed=0):
    """Even items are chosen by day, odd ones by night; `noise` says nothing, nor does an item's."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 2, events)
    frame = pl.DataFrame(
        {
            "user": rng.integers(0, 100, events),
            "item": rng.integers(0, 20, events) * 2 + day,
            "time": pl.Series(["day", "night"]).gather(day),
            "noise": pl.Series([f"noise {n}" for n in rng.integers(0, 6, events)]),
        }
    ).unique(["user", "item"], maintain_order=True)
    items = {"item": np.arange(40), "kind": pl.Series(["a", "b", "c"]).gather(np.arange(40) // 14)}
    ages = {"user": np.arange(100), "age": rng.integers(20, 60, 100) * 1.0}
    return Dataset.from_frame(frame, items=items, users=ages)


def problem_and_parameters(data, seed=0):
    recipe = FMPairWeighted(factors=4, seed=seed)
    space = FeatureSpace.fit(data)
    rng = np.random.default_rng(seed)
    first = initial(recipe, space)
    random = type(first)(*(rng.normal(0, 0.5, t.shape).astype(np.float32) for t in first))
    return problem_of(recipe, space, data), random


def test_the_field_that_decides_outweighs_a_noisy_one():
    loud = {"start": 0.3, "regularization": 0.001}  # so that noise does not fall silent by itself
    recipe = FMPairWeighted(factors=6, epochs=40, fields={"time": loud, "noise": loud})
    weights = recipe.fit(noisy_days()).recipe.field_weights
    assert set(weights) == {"time", "noise", "kind", "age"}
    assert weights["time"] > 1 > 0.5 > weights["noise"]


def test_gradients_of_the_weights_are_those_of_finite_differences():
    data = noisy_days(500)
    problem, random = problem_and_parameters(data)
    pairs = draw_pairs(problem, np.arange(300), np.random.default_rng(1))
    parts = parts_of(random, problem, pairs)
    point, step = np.array([0.7, 1.3, 0.2, 1.1, 1.6]), 1e-5  # last the sharpness
    _, gradient, _ = loss(point, parts)
    for n in range(5):
        aside = np.eye(5)[n] * step
        central = (loss(point + aside, parts)[0] - loss(point - aside, parts)[0]) / (2 * step)
        assert gradient[n] == pytest.approx(central, rel=1e-5, abs=1e-8)
    weights, (_, slopes) = point[:4], margins(point[:4], parts)
    for n in range(4):
        aside = np.eye(4)[n] * step
        moved = margins(weights + aside, parts)[0] - margins(weights - aside, parts)[0]
        np.testing.assert_allclose(slopes[n], moved / (2 * step), atol=1e-6)


def test_margins_are_differences_of_the_scores_of_the_folded_model():
    data = noisy_days(500)
    problem, random = problem_and_parameters(data)
    events = np.arange(200)
    pairs = draw_pairs(problem, events, np.random.default_rng(1))
    weights = np.array([0.7, 1.3, 0.2, 1.1])
    model = FMPair(factors=4, epochs=1).fit(data)
    model = model.replaced(parameters=with_weights(random, by_feature(model.space, weights)))
    asked = data.take(events).frame()
    kept = np.isin(problem.user[events], pairs.user)  # nobody has all items: no pair was dropped
    assert kept.all() and len(pairs.user) == 200
    other = asked.with_columns(item=data.items.take(pairs.negative))
    positive, negative = (model.score(frame)["score"].to_numpy() for frame in (asked, other))
    got = margins(weights, parts_of(random, problem, pairs))[0]
    np.testing.assert_allclose(got, positive - negative, atol=1e-4)


def test_plain_values_with_folded_vectors_are_weighted_values():
    data = noisy_days(500)
    problem, random = problem_and_parameters(data)
    weights = by_feature(FeatureSpace.fit(data), np.array([0.7, 1.3, 0.2, 1.1]))
    scaled, inside = scaled_problem(problem, weights), with_weights(random, weights)
    for name, table in (("contexts", "query"), ("user_rows", "query"), ("item_rows", "features")):
        np.testing.assert_allclose(
            getattr(scaled, name).dot(getattr(random, table)),
            getattr(problem, name).dot(getattr(inside, table)), atol=1e-5,
        )  # fmt: skip


def test_vectors_are_what_they_were_after_folding_and_unfolding():
    data = noisy_days(500)
    _, random = problem_and_parameters(data)
    weights = by_feature(FeatureSpace.fit(data), np.array([0.7, 1.3, 0.0, 1.1]))
    inside = with_weights(random, weights)
    for part, wanted in zip(with_weights(without_weights(inside, weights), weights), inside):
        np.testing.assert_allclose(part, wanted, rtol=1e-6)
    silent = weights.query == 0
    assert silent.any() and not without_weights(inside, weights).query[silent].any()


def test_better_weights_have_a_smaller_loss():
    problem, random = problem_and_parameters(noisy_days(500))
    parts = parts_of(random, problem, draw_pairs(problem, np.arange(300), np.random.default_rng(1)))
    found = better(np.ones(4), parts)
    sharp = np.linspace(0.05, 3, 60)
    before, after = (
        min(loss(np.append(weights, s), parts)[0] for s in sharp) for weights in (np.ones(4), found)
    )
    assert after < before and (found >= 0).all()


def test_an_unchosen_item_is_never_one_of_the_users():
    problem, _ = problem_and_parameters(noisy_days())
    pairs = draw_pairs(problem, np.arange(len(problem.user)), np.random.default_rng(0))
    chosen = set(zip(problem.user.tolist(), problem.item.tolist()))
    assert not chosen & set(zip(pairs.user.tolist(), pairs.negative.tolist()))
    assert set(zip(pairs.user.tolist(), pairs.positive.tolist())) <= chosen


def test_weights_are_kept_with_the_model(tmp_path):
    model = FMPairWeighted(**OPTIONS).fit(noisy_days(800))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.recipe.field_weights == model.recipe.field_weights
    assert again.recommend(3).equals(model.recommend(3))


def test_a_weight_of_zero_silences_a_field_until_data_speak_for_it():
    recipe = FMPairWeighted(factors=4, epochs=1, field_weights={"time": 0.0})
    model = recipe.fit(noisy_days(800))
    by_day, by_night = (model.query_vectors({"user": [1], "time": [t]}) for t in ("day", "night"))
    np.testing.assert_array_equal(by_day, by_night)


def test_without_fields_it_is_plain_fm_pair():
    own = {"loss": "bpr", **OPTIONS}
    ours, theirs = (kind(**own).fit(two_tastes()) for kind in (FMPairWeighted, FMPair))
    np.testing.assert_array_equal(ours.parameters.users, theirs.parameters.users)


def test_equal_names_are_told_apart_by_their_side():
    frame = pl.DataFrame({"user": [1, 2, 1], "item": [1, 2, 3], "city": ["a", "b", "a"]})
    data = Dataset.from_frame(frame, users={"user": [1, 2], "city": ["a", "b"]})
    assert field_names(FeatureSpace.fit(data)) == ["user.city", "context.city"]


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"time": -1}, "weight of field 'time' must be"), ({"tine": 1}, "unknown field 'tine'")],
)
def test_a_wrong_weight_is_named(weights, message):
    with pytest.raises(OptionError, match=message):
        FMPairWeighted(**OPTIONS, field_weights=weights).fit(noisy_days(300))


def scores_of(model, events):
    return model.score(events.frame().select("user", "item", "time", "noise"))["score"].to_numpy()


def test_further_events_are_learned_with_the_weights_as_they_are():
    data = noisy_days(800)
    model = FMPairWeighted(**OPTIONS).fit(data)
    news = {"user": [3, 500], "item": [4, 6], "time": ["day", "dusk"], "noise": ["noise 1"] * 2}
    grown = model.update(pl.DataFrame(news), epochs=1)
    assert grown.recipe == model.recipe and 500 in grown.user_ids
    # a step from two events: everything is nearly what it was, weights and all
    before, after = scores_of(model, data), scores_of(grown, data)
    assert 0.95 < np.corrcoef(before, after)[0, 1] < 1


def test_an_update_is_that_of_fm_pair_on_weighted_values():
    """Of one numeric field, whose weight could as well be a part of its values."""
    frame = noisy_days(600).frame().select("user", "item")
    heat = np.random.default_rng(0).normal(size=len(frame))
    frame = frame.with_columns(heat=pl.Series(heat))
    news = frame.head(40).with_columns(user=pl.col("user") + 50)
    field = {"heat": {"kind": "numeric", "standardize": False, "start": 0.3}}
    weighted = FMPairWeighted(factors=4, epochs=1, fields=field, field_weights={"heat": 0.5})
    plain = FMPair(factors=4, epochs=1, loss="bpr", fields=field)
    ours = weighted.fit(frame).update(news, epochs=2)
    halved = [part.with_columns(heat=pl.col("heat") / 2) for part in (frame, news)]
    theirs = plain.fit(halved[0]).update(halved[1], epochs=2)
    np.testing.assert_allclose(ours.parameters.users, theirs.parameters.users, atol=1e-5)
    np.testing.assert_allclose(ours.parameters.query, theirs.parameters.query / 2, atol=1e-5)


def test_a_user_is_folded_in_against_weighted_fields():
    data = noisy_days(800)
    model = FMPairWeighted(**OPTIONS).fit(data)
    few = pl.DataFrame({"user": [500] * 3, "item": [2, 4, 6], "time": ["day"] * 3})
    grown = model.fold_in(few)
    np.testing.assert_array_equal(scores_of(grown, data), scores_of(model, data))
    plain = model.replaced(recipe=FMPair(loss="bpr", **OPTIONS)).fold_in(few)
    np.testing.assert_array_equal(grown.parameters.users, plain.parameters.users)
