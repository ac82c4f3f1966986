"""FM and FM-Map: point-wise factorization machines."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, Field, load, with_sources
from fmpair.errors import DataError, OptionError, TrainingError
from fmpair.evaluation import Protocol, evaluate
from fmpair.fitted import recipe as option
from fmpair.models import FM, FMMap
from fmpair.models.fm_training import unobserved
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.contract import RULES, ModelContract

LEARNERS = ("mcmc", "als", "sgd")
QUICK = {"factors": 4, "epochs": 30, "samples": 20, "learning_rate": 0.05, "threads": 1}
HELD = {"mcmc": None, "als": 0.5, "sgd": 0.01}  # regularisation that suits a few hundred ratings


def recipe(learner, **options):
    return FM(learner=learner, **{**QUICK, "regularization": HELD[learner], **options})


def ratings(users=60, items=40, noise=0.1, seed=0):
    """Ratings 3 + one for the user + one for the item + a shared taste, most pairs rated."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.normal(size=(users, 1)), rng.normal(size=(items, 1))
    truth = 3 + rng.normal(size=(users, 1)) / 2 + rng.normal(size=items) / 2 + taste @ kind.T
    user, item = np.nonzero(rng.random((users, items)) < 0.6)
    rating = truth[user, item] + noise * rng.normal(size=len(user))
    return pl.DataFrame({"user": user, "item": item, "rating": rating}), truth


def rmse(model, frame, truth):
    predicted = model.score(frame.select("user", "item"))["score"].to_numpy()
    return float(np.sqrt(np.mean((predicted - truth[frame["user"], frame["item"]]) ** 2)))


def unrated(frame, truth):
    every = pl.DataFrame({"user": np.arange(len(truth))}).join(
        pl.DataFrame({"item": np.arange(truth.shape[1])}), how="cross"
    )
    return every.join(frame, on=["user", "item"], how="anti")


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("rule", RULES)
def test_it_keeps_what_every_model_must(rule, learner):
    # held tight: some of the items left out are drawn as unobserved pairs, to be told from taste
    held = {"mcmc": None, "als": 3.0, "sgd": 0.03}[learner]
    options = {"regularization": held, "init_std": 0.3, "learning_rate": 0.1}
    ModelContract(lambda: recipe(learner, **options)).check(rule)


@pytest.mark.parametrize("learner", LEARNERS)
def test_ratings_never_seen_are_predicted_nearly_to_the_noise(learner):
    frame, truth = ratings()
    model = recipe(learner, epochs=150).fit(frame)
    spread = float(np.std(truth))
    assert spread > 1
    assert rmse(model, unrated(frame, truth), truth) < 0.15 * spread


def test_mcmc_needs_no_regularisation_and_no_scale():
    """The same ratings ten times as large: predictions ten times as large."""
    frame, truth = ratings()
    tenfold = frame.with_columns(pl.col("rating") * 10)
    model = recipe("mcmc", epochs=150).fit(tenfold)
    assert rmse(model, unrated(frame, truth), 10 * truth) < 1.5 * float(np.std(truth))


@pytest.mark.parametrize(("learner", "order"), [("mcmc", 2), ("als", 2), ("sgd", 3)])
def test_the_mean_of_several_starts_is_nearer_to_the_truth_than_one(learner, order):
    frame, truth = ratings(noise=1.0)
    rest = unrated(frame, truth)
    options = {"regularization": None if learner == "mcmc" else 0.02, "order": order, "samples": 1}
    one, six = (
        rmse(recipe(learner, starts=n, init_std=0.3, **options).fit(frame), rest, truth)
        for n in (1, 6)
    )
    assert six < 0.95 * one


def test_an_evaluation_sees_the_predictions_themselves():
    frame, _ = ratings()
    data = Dataset.from_frame(frame)
    test = data.take(np.arange(50))
    model = recipe("als").fit(data)
    found = evaluate(model, data, test, Protocol(unit="interaction", seen="none"), ["rmse", "mae"])
    error = model.score(test.frame())["score"].to_numpy() - test.column("rating")
    assert found.means["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-4)
    assert found.means["mae"] == pytest.approx(np.mean(np.abs(error)), rel=1e-4)


@pytest.mark.parametrize("learner", LEARNERS)
def test_terms_of_user_and_context_alone_count_in_a_prediction(learner):
    """The rating is decided by the user's mood in that place: no item plays a part."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 30, 1500), rng.integers(0, 20, 1500)
    place = rng.integers(0, 2, 1500)
    rating = 3.0 + np.where((user % 2) == place, 1.0, -1.0)
    named = pl.Series(["home", "work"]).gather(place)
    frame = pl.DataFrame({"user": user, "item": item, "place": named, "rating": rating})
    model = recipe(learner, init_std=0.3).fit(frame)
    asked = {"user": [0, 0, 1, 1], "item": [3, 3, 3, 3], "place": ["home", "work"] * 2}
    found = model.score(pl.DataFrame(asked))["score"].to_numpy()
    np.testing.assert_allclose(found, [4, 2, 2, 4], atol=0.4)


def test_attributes_of_users_and_items_tell_of_those_never_met():
    """The rating is 5 where the user's group likes the item's kind, else 1."""
    rng = np.random.default_rng(0)
    group, kind = np.arange(60) % 2, np.arange(40) % 2
    user, item = rng.integers(0, 50, 1200), rng.integers(0, 30, 1200)
    rating = np.where(group[user] == kind[item], 5.0, 1.0)
    data = Dataset.from_frame(
        {"user": user, "item": item, "rating": rating},
        users={"user": np.arange(60), "group": pl.Series(["a", "b"]).gather(group)},
        items={"item": np.arange(40), "kind": pl.Series(["x", "y"]).gather(kind)},
    )
    model = recipe("mcmc", epochs=60).fit(data)
    cold = pl.DataFrame({"user": [58, 58, 59, 59], "item": [38, 39, 38, 39]})
    np.testing.assert_allclose(model.score(cold)["score"], [5, 1, 1, 5], atol=0.8)


def test_items_of_other_domains_tell_what_a_user_will_rate_high():
    """Readers of even books like even films; the last users rate one film, and neither way."""
    rng = np.random.default_rng(0)
    rows = []
    for user in range(80):
        books = rng.permutation(np.arange(user % 2, 20, 2))[:5]
        rows += [(user, f"book{n}", "book", 4.0) for n in books]
        for n in rng.permutation(20)[: 1 if user >= 70 else 8]:
            liked = 5.0 if n % 2 == user % 2 else 1.0
            rows.append((user, f"film{n}", "film", 3.0 if user >= 70 else liked))
    frame = pl.DataFrame(rows, schema=["user", "item", "domain", "rating"], orient="row")
    data = with_sources(Dataset.from_frame(frame), "film")
    model = recipe("mcmc", epochs=80, samples=50).fit(data)
    asked = pl.DataFrame({"user": np.repeat(np.arange(70, 80), 20),
                          "item": [f"film{n}" for n in range(20)] * 10})  # fmt: skip
    score = model.score(asked)["score"].to_numpy().reshape(10, 20)
    own = np.arange(20) % 2 == np.arange(70, 80)[:, None] % 2
    without = recipe("mcmc", epochs=80, samples=50).fit(data.frame().drop("domain"))
    blind = without.score(asked)["score"].to_numpy().reshape(10, 20)
    gap, blind_gap = (s[own].mean() - s[~own].mean() for s in (score, blind))
    assert gap > 1.5 and abs(blind_gap) < 0.5, (gap, blind_gap)


@pytest.mark.parametrize("learner", LEARNERS)
def test_two_values_of_a_rating_are_told_apart(learner):
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 40, 1200), rng.integers(0, 20, 1200)
    liked = (user % 2) == (item % 2)
    frame = pl.DataFrame({"user": user, "item": item, "rating": np.where(liked, 1, 0)})
    held = {"mcmc": None, "als": 1.0, "sgd": 0.001}[learner]
    model = recipe(learner, task="classification", regularization=held, init_std=0.3).fit(frame)
    score = model.score(frame.select("user", "item"))["score"].to_numpy()
    assert ((score > 0) == liked).mean() > 0.97


def test_the_context_decides_what_ranks_first():
    model = recipe("als", init_std=0.3).fit(day_and_night())
    for time, remainder in (("day", 0), ("night", 1)):
        best = model.recommend(context={"time": time}, n=1, exclude_seen=False)
        assert (best["item"].to_numpy() % 2 == remainder).mean() > 0.9


def test_triples_learn_what_pairs_cannot():
    """The rating is the product of three signs: user's, item's and place's."""
    rng = np.random.default_rng(0)
    user, item, place = (rng.integers(0, n, 4000) for n in (20, 20, 2))
    rating = np.where((user + item + place) % 2 == 0, 1.0, -1.0)
    frame = pl.DataFrame({"user": user, "item": item, "rating": rating,
                          "place": pl.Series(["home", "work"]).gather(place)})  # fmt: skip
    options = {"init_std": 0.5, "epochs": 60, "regularization": 0.0}
    errors = {}
    for order in (2, 3):
        model = recipe("sgd", order=order, **options).fit(frame)
        score = model.score(frame.drop("rating"))["score"].to_numpy()
        errors[order] = float(np.mean((score - rating) ** 2))
    assert errors[2] > 0.8 and errors[3] < 0.2, errors


def test_a_saved_model_of_order_three_with_attributes_predicts_the_same(tmp_path):
    data = Dataset.from_frame(ratings()[0], items={"item": np.arange(40), "kind": [*"abcd"] * 10})
    model = recipe("sgd", order=3, fields={"kind": Field(scale=0.5)}).fit(data)
    model.save(tmp_path / "fm.fmpair")
    asked = data.frame().select("user", "item")
    assert load(tmp_path / "fm.fmpair").score(asked).equals(model.score(asked))


def test_a_user_never_met_gets_the_predictions_of_a_usual_one():
    frame, truth = ratings()
    model = recipe("als").fit(frame)
    score = model.score(pl.DataFrame({"user": [999] * 40, "item": np.arange(40)}))["score"]
    assert np.corrcoef(score, truth.mean(axis=0))[0, 1] > 0.95
    assert float(score.mean()) == pytest.approx(float(truth.mean()), abs=0.3)


def test_similar_items_are_those_rated_alike():
    model = recipe("als", init_std=0.3).fit(two_tastes())
    assert (model.similar_items(0, 5)["item"].to_numpy() % 2 == 0).all()


def test_another_seed_gives_another_model_and_the_same_seed_the_same():
    frame, _ = ratings()
    asked = frame.select("user", "item")
    first, again, other = (recipe("mcmc").fit(frame, seed=s).score(asked) for s in (1, 1, 2))
    assert first.equals(again) and not first.equals(other)


def test_progress_tells_of_every_pass():
    epochs = []
    recipe("als", epochs=3).fit(ratings()[0], progress=epochs.append)
    assert [epoch.number for epoch in epochs] == [1, 2, 3]
    assert epochs[-1].loss < epochs[0].loss
    with pytest.raises(TrainingError, match="epoch 1 is over"):
        epochs[0].recommender()


def test_regularisation_by_group_reaches_the_group():
    frame, _ = ratings()
    free = recipe("als").fit(frame)
    held = recipe("als", regularization={"item": 1e6}).fit(frame)
    assert np.abs(held.scorer.machine.pairs[61:]).max() < 1e-3  # 60 users and the stranger
    assert np.abs(free.scorer.machine.pairs[61:]).max() > 0.1


def test_what_is_wrong_is_said_in_one_line():
    frame, _ = ratings()
    implicit, five = frame.drop("rating"), frame.with_columns(pl.col("rating").round())
    with pytest.raises(DataError, match="needs a column 'rating'"):
        FM(task="regression").fit(implicit)
    with pytest.raises(DataError, match="needs ratings of two values, not"):
        FM(task="classification").fit(five)
    with pytest.raises(OptionError, match="order=3 requires learner="):
        FM(order=3, learner="als")
    with pytest.raises(OptionError, match="order must be 2 or 3"):
        FM(order=4)
    with pytest.raises(OptionError, match="learner must be one of"):
        FM(learner="adam")
    with pytest.raises(OptionError, match="Did you mean 'item'"):
        FM(learner="als", regularization={"itme": 1}).fit(frame)
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+: lower learning_rate"):
        FM(learner="sgd", learning_rate=5).fit(frame)
    with pytest.raises(OptionError, match="Did you mean 'factors'"):
        option.recipe(FM, {"factor": 3})


def test_ids_without_linear_terms_are_plain_matrix_factorization():
    frame, _ = ratings(users=8, items=6)
    options = {"factors": 3, "epochs": 4, "learning_rate": 0.05, "regularization": 0.02}
    model = FM(learner="sgd", linear=False, **options).fit(frame)
    rating = frame["rating"].to_numpy()
    # the same steps in plain NumPy, in the same order
    users = np.array([model.user_number(user) for user in frame["user"]])
    items = 9 + np.array([model.item_number(item) for item in frame["item"]])  # 8 is for nobody
    rng = np.random.default_rng([0, 0, 0])
    table = rng.standard_normal((9 + 6, 3)) * 0.1
    bias = rating.mean()
    for epoch in range(4):
        rate = 0.05 * (1 - 0.9 * epoch / 3)
        for event in rng.permutation(len(rating)):
            u, i = users[event], items[event]
            error = rating[event] - bias - table[u] @ table[i]
            bias += rate * error
            up = rate * (error * table[i] - 0.02 * table[u])
            table[i] += rate * (error * table[u] - 0.02 * table[i])
            table[u] += up
    expected = bias + (table[users] * table[items]).sum(1)
    np.testing.assert_allclose(model.score(frame)["score"], expected, rtol=1e-4)


def test_a_machine_without_linear_terms_is_learned_by_sgd_only():
    with pytest.raises(OptionError, match="linear=False requires learner='sgd'"):
        FM(learner="als", linear=False)


# Tight: some of the items left out of the toys are drawn as unobserved pairs.
MAP_HELD = {"als": 3.0, "sgd": 0.1}


def map_recipe(learner="als", **options):
    usual = {"factors": 4, "epochs": 30, "learning_rate": 0.05, "init_std": 0.3, "threads": 1}
    return FMMap(learner=learner, **{**usual, "regularization": MAP_HELD[learner], **options})


@pytest.mark.parametrize("learner", ["als", "sgd"])
@pytest.mark.parametrize("rule", RULES)
def test_fm_map_keeps_the_contract_of_models(rule, learner):
    ModelContract(lambda: map_recipe(learner)).check(rule)


def test_unobserved_pairs_are_as_many_as_events_and_none_is_an_event():
    data = day_and_night()
    drawn = unobserved(data, 0)
    assert len(drawn) == len(data)
    both = drawn.frame().join(data.frame(), on=["user", "item"], how="semi")
    assert not len(both)
    assert drawn.columns.columns == data.columns.columns


def test_unobserved_pairs_are_spread_evenly_and_follow_the_seed():
    data = two_tastes(users=20, items=10)
    free = 20 * 10 - len(data)
    drawn = [unobserved(data, seed) for seed in range(100)]
    times = np.zeros((20, 10))
    for part in drawn:
        np.add.at(times, (part.user, part.item), 1)
    expected = 100 * len(data) / free
    seen = np.zeros((20, 10), bool)
    seen[data.user, data.item] = True
    assert not times[seen].any()
    assert np.abs(times[~seen] - expected).max() < 5.5 * np.sqrt(expected)
    assert np.array_equal(drawn[0].item, unobserved(data, 0).item)
    assert not np.array_equal(drawn[0].item, drawn[1].item)


def test_an_event_scores_near_one_and_an_unchosen_item_near_minus_one():
    data = two_tastes()
    model = map_recipe(epochs=50).fit(data)
    chosen = model.score(data.frame())["score"].to_numpy()
    user, item = np.divmod(np.arange(800), 20)
    other = (user % 2) != (item % 2)
    frame = pl.DataFrame({"user": [f"u{n}" for n in user[other]], "item": item[other]})
    assert chosen.mean() > 0.7
    assert model.score(frame)["score"].mean() < -0.7


def test_ratings_play_no_part():
    frame = two_tastes().frame()
    rated = frame.with_columns(rating=pl.lit(1.0))
    ours, theirs = (map_recipe().fit(f).score(frame) for f in (frame, rated))
    assert ours.equals(theirs)


def test_attributes_rank_items_that_nobody_chose():
    model = map_recipe().fit(cold_items())
    cold = list(range(14, 20))
    best = model.recommend(n=1, candidates=cold, exclude_seen=False)
    number = best["user"].str.strip_prefix("u").cast(pl.Int64).to_numpy()
    assert (best["item"].to_numpy() % 2 == number % 2).mean() > 0.9


def test_wrong_options_of_fm_map_raise():
    with pytest.raises(OptionError, match="learner must be one of"):
        FMMap(learner="mcmc")
    every = pl.DataFrame({"user": [*"aabb"], "item": [*"xyxy"]})
    with pytest.raises(DataError, match="so there are no negatives"):
        FMMap().fit(every)
