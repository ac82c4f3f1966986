"""The recipe and what it learns: known answers, laws, and clear refusals."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, Field, FMPair
from fmpair.engine import engine
from fmpair.engine.reference.draws import choices
from fmpair.engine.strata import partition as plan
from fmpair.errors import DataError, Notice, OptionError, TrainingError
from fmpair.features import FeatureSpace
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.known_answers import left_out
from fmpair.training.options import event_weights
from fmpair.training.problem import PARTITION_PAIRS_EVERY, problem_of, settings_of
from fmpair.training.start import initial

SMALL = {"factors": 4, "order": 2, "times": False}  # no trials: what they decide is not asked here


def first_items(model, context):
    """The first unseen item of every user."""
    return model.recommend(n=1, context=context)["item"].to_numpy()


def test_context_decides_what_ranks_first():
    model = FMPair(factors=4, epochs=100, seed=1).fit(day_and_night())
    assert (first_items(model, {"time": "day"}) % 2 == 0).all()
    assert (first_items(model, {"time": "night"}) % 2 == 1).all()


@pytest.mark.parametrize(("loss", "hold"), [("bpr", 0.1), ("softmax", 0.5)])
def test_by_day_every_even_item_stands_above_every_odd_one(loss, hold):
    # A user's own taste, held down here, might else lift an item seen at another time.
    held_down = {"time": 0.005, "user": hold}
    recipe = FMPair(loss=loss, factors=4, epochs=100, seed=1, regularization=held_down)
    model = recipe.fit(day_and_night())
    listed = model.recommend(n=10, context={"time": "day"}, exclude_seen=False)
    assert (listed["item"] % 2 == 0).all()


def test_the_one_item_a_user_lacks_of_its_own_taste_is_recommended_first():
    model = FMPair(factors=4, epochs=60, seed=1).fit(two_tastes())
    first = model.recommend(n=1)
    number = first["user"].str.slice(1).cast(int).to_numpy()
    assert (first["item"].to_numpy() == left_out(number)).mean() >= 0.95


def test_own_item_attributes_help_a_cold_item():
    data = cold_items()
    cold = list(range(14, 20))

    def own_kind_first(model):
        listed = model.recommend(n=3, candidates=cold)
        odd_user = listed["user"].str.slice(1).cast(int) % 2
        return (odd_user == listed["item"] % 2).mean()

    with_kind = FMPair(factors=4, epochs=60, seed=1).fit(data)
    without = FMPair(factors=4, epochs=60, seed=1).fit(data.frame())
    assert own_kind_first(with_kind) == 1.0
    assert set(without.item_ids).isdisjoint(cold)
    nothing = FMPair(factors=4, epochs=60, seed=1).fit(data.with_items({"item": np.arange(20)}))
    assert own_kind_first(nothing) == pytest.approx(0.5, abs=0.1)


def hand_written_bpr_mf(recipe, data):
    """Matrix factorisation by BPR, written out; only the order of events and draws is shared."""
    space = FeatureSpace.fit(data)
    problem = problem_of(recipe, space, data)
    start = initial(recipe, space)
    users, items = start.users.astype(float), start.items.astype(float)
    state = engine("reference").begin(problem, start, settings_of(recipe, space, problem))
    for number in range(1, recipe.epochs + 1):
        if (number - 1) % PARTITION_PAIRS_EVERY == 0:
            state.partition = plan.partition(state.events, 1, recipe.seed, number)
        rate = recipe.learning_rate * (1 - 0.9 * (number - 1) / max(recipe.epochs - 1, 1))
        for pair in choices(state.cell(0, 0), number, state.tables):
            u, (i, j) = pair.u, pair.items
            w, hi, hj = users[u].copy(), items[i].copy(), items[j].copy()
            slope = 1 / (1 + np.exp(w @ hi - w @ hj))
            users[u] += rate * (slope * (hi - hj) - recipe.regularization * w)
            items[i] += rate * (slope * w - recipe.regularization * hi)
            items[j] += rate * (slope * -w - recipe.regularization * hj)
    return users, items


def test_without_features_and_bias_it_is_bpr_matrix_factorization():
    recipe = FMPair(
        loss="bpr", factors=6, epochs=7, item_bias=False, regularization=0.02, seed=5, blocks=1
    )
    data = two_tastes()
    users, items = hand_written_bpr_mf(recipe, data)
    model = recipe.fit(data)
    np.testing.assert_allclose(model.parameters.users, users, atol=1e-4)
    np.testing.assert_allclose(model.parameters.items, items, atol=1e-4)
    assert not model.item_constants.any()


def test_there_is_no_user_bias_and_constants_stay_small():
    model = FMPair(factors=4, epochs=100).fit(two_tastes())
    assert model.parameters._fields == (
        "users", "items", "item_bias", "query", "features", "feature_bias",
    )  # fmt: skip
    assert np.abs(model.parameters.item_bias).max() < 10


@pytest.mark.parametrize(("loss", "faces"), [("bpr", 2), ("softmax", 9)])
def test_the_loss_falls_and_begins_near_that_of_a_coin_or_die(loss, faces):
    recipe = FMPair(loss=loss, n_negatives=8, factors=4, epochs=30)
    losses = [epoch.loss for epoch in recipe.train(two_tastes())]
    assert losses[0] == pytest.approx(np.log(faces), abs=0.1)
    assert losses[-1] < losses[0] / 2


def test_the_caller_may_stop_the_loop_and_keep_that_model():
    for epoch in FMPair(factors=4, epochs=50, seed=2).train(two_tastes()):
        if epoch.number == 3:
            break
    assert len(epoch.recommender().recommend("u1", n=2)) == 2
    assert epoch.seconds >= 0


def test_an_epoch_that_is_past_does_not_pretend_to_have_its_model():
    first, *_, last = FMPair(factors=4, epochs=3).train(two_tastes())
    assert len(last.recommender().item_ids) == 20
    with pytest.raises(TrainingError, match="epoch 1 is over"):
        first.recommender()


def test_the_same_seed_gives_the_same_model_and_another_seed_another():
    data = day_and_night()
    one, same, other = (FMPair(factors=4, epochs=3, seed=s).fit(data) for s in (1, 1, 2))
    for a, b in zip(one.parameters, same.parameters):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.item_vectors, other.item_vectors)
    given = FMPair(factors=4, epochs=3).fit(data, seed=2)
    np.testing.assert_array_equal(given.item_vectors, other.item_vectors)


def rich_data():
    """Context, user attributes and item attributes of several kinds, with gaps."""
    events = day_and_night(users=60).frame()
    rng = np.random.default_rng(0)
    events = events.with_columns(
        mood=pl.Series([["calm", "wild", None][n] for n in rng.integers(0, 3, len(events))]),
        weight=pl.Series(rng.uniform(0.5, 4, len(events))),
    )
    users = {"user": [f"u{n}" for n in range(60)], "age": rng.uniform(10, 80, 60)}
    items = {"item": range(20), "tags": [["x", "y"], ["y"], None, ["z"]] * 5}
    return Dataset.from_frame(events, users=users, items=items)


@pytest.mark.parametrize("positives", ["permutation", "bootstrap", "user"])
def test_the_model_does_not_depend_on_the_number_of_threads(positives):
    data = rich_data()
    models = [
        FMPair(factors=5, epochs=6, blocks=4, threads=t, positives=positives, seed=3).fit(data)
        for t in (1, 2, 4)
    ]
    for model in models[1:]:
        for a, b in zip(models[0].parameters, model.parameters):
            np.testing.assert_array_equal(a, b)


def test_weights_count_as_the_recipe_says_relative_to_their_mean():
    frame = pl.DataFrame({"user": list("aabb"), "item": [1, 2, 2, 3], "weight": [0.5, 1, np.e, 0]})
    data = Dataset.from_frame(frame)
    for kind, wanted in (
        ("none", [1, 1, 1, 1]), ("linear", [0.5, 1, np.e, 0]), ("log", [0.5, 1, 2, 0])
    ):  # fmt: skip
        found = event_weights(kind, data)
        np.testing.assert_allclose(found, np.array(wanted) / np.mean(wanted), rtol=1e-6)


def test_no_event_counts_more_than_ten_times_the_mean():
    frame = pl.DataFrame(
        {"user": list("ab") * 50, "item": range(100), "weight": [1e6] + [1.0] * 99}
    )
    found = event_weights("linear", Dataset.from_frame(frame))
    assert found.max() == 10


def test_weights_that_are_all_zero_are_refused():
    frame = pl.DataFrame({"user": list("aab"), "item": [1, 2, 3], "weight": [0, 0, 0]})
    with pytest.raises(DataError, match="all event weights are 0"):
        FMPair().fit(frame)


def test_a_heavier_event_pulls_its_item_up():
    rows = [(f"u{n}", item) for n in range(30) for item in (0, 1) if (n + item) % 2]
    rows += [(f"u{n}", 2) for n in range(0, 30, 3)]
    frame = pl.DataFrame(rows, schema=["user", "item"], orient="row")
    heavy = frame.with_columns(weight=pl.when(pl.col("item") == 1).then(5.0).otherwise(0.2))
    model = FMPair(factors=2, epochs=40, weights="linear").fit(heavy)
    plain = FMPair(factors=2, epochs=40, weights="none").fit(heavy)

    def lead(m):
        return m.item_constants[list(m.item_ids).index(1)] - m.item_constants.mean()

    assert lead(model) > lead(plain) + 0.2


def test_weights_left_out_are_all_one():
    data = two_tastes()
    weighted = data.frame().with_columns(weight=pl.lit(1.0))
    np.testing.assert_array_equal(
        FMPair(factors=3, epochs=3).fit(data).item_vectors,
        FMPair(factors=3, epochs=3).fit(weighted).item_vectors,
    )


def test_a_divergence_names_the_epoch_and_the_learning_rate():
    with pytest.raises(TrainingError, match=r"diverged in epoch \d+: lower learning_rate \(1000\)"):
        FMPair(factors=4, learning_rate=1e3).fit(two_tastes())


@pytest.mark.parametrize("role", ["context", "user", "item"])
def test_a_divergence_names_the_field_whose_values_are_huge(role):
    data = day_and_night()
    rng = np.random.default_rng(0)
    raw = Field(standardize=False)
    if role == "context":
        frame = data.frame().with_columns(income=pl.Series(rng.uniform(1e3, 1e5, len(data))))
        data = Dataset.from_frame(frame)
    elif role == "user":
        data = data.with_users({"user": data.users.ids, "income": rng.uniform(1e3, 1e5, 40)})
    else:
        data = data.with_items({"item": data.items.ids, "income": rng.uniform(1e3, 1e5, 20)})
    with pytest.raises(TrainingError, match="scale field 'income'"):
        FMPair(fields={"income": raw}, learning_rate=1e3, **SMALL).fit(data)
    assert FMPair(fields={"income": raw}, epochs=10, **SMALL).fit(data)  # raw values do, too


def test_one_item_leaves_nothing_to_rank():
    with pytest.raises(DataError, match="only one item"):
        FMPair().fit(pl.DataFrame({"user": ["a", "b"], "item": [1, 1]}))


def test_one_user_leaves_nothing_unchosen():
    with pytest.raises(DataError, match="all 3 items"):
        FMPair().fit(pl.DataFrame({"user": ["a"] * 3, "item": [1, 2, 3]}))


def test_users_who_all_have_every_item_leave_nothing_unchosen():
    frame = pl.DataFrame({"user": ["a", "a", "b", "b"], "item": [1, 2, 1, 2]})
    with pytest.raises(DataError, match="so there are no negatives"):
        FMPair().fit(frame)
    table = {"user": ["a", "b", "idle"], "sex": ["f", "m", "f"]}
    with pytest.raises(DataError, match="so there are no negatives"):
        FMPair().fit(Dataset.from_frame(frame, users=table))


def test_a_user_who_has_every_item_is_carried_along():
    frame = pl.DataFrame({"user": ["all"] * 3 + ["b", "c"], "item": [1, 2, 3, 1, 2]})
    model = FMPair(factors=2, epochs=5).fit(frame)
    with pytest.warns(Notice, match="1 of 1 lists are empty: their users have interacted with all"):
        assert len(model.recommend("all")) == 0
    assert len(model.recommend("all", exclude_seen=False)) == 3
    assert np.isfinite(model.parameters.users).all()


def test_events_that_are_all_duplicates_are_learned_from():
    frame = pl.DataFrame({"user": ["a", "b"] * 20, "item": [1, 2] * 20})
    model = FMPair(factors=2, epochs=20).fit(frame)
    assert model.recommend("a", exclude_seen=False)["item"].to_list() == [1, 2]
    assert model.recommend("b", exclude_seen=False)["item"].to_list() == [2, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"factors": 0}, "factors must be a whole number of at least 1, not 0"),
        ({"factors": 2.5}, "factors must be a whole number"),
        ({"epochs": 0}, "epochs must be"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number above 0, not nan"),
        ({"learning_rate": -1}, "learning_rate must be"),
        ({"learning_rate": "fast"}, "learning_rate must be"),
        ({"init_std": float("inf")}, "init_std must be"),
        ({"regularization": -0.1}, "regularization must be"),
        ({"regularization": {"user": -1}}, "regularization of 'user'"),
        ({"positives": "all"}, "positives must be one of permutation, bootstrap, user"),
        ({"negative_sampler": "hard"}, "negative_sampler must be one of uniform"),
        ({"weights": "sqrt"}, "weights must be one of log, linear, none"),
        ({"threads": 0}, "threads must be"),
        ({"blocks": 0}, "blocks must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_an_option_out_of_range_says_what_is_allowed(options, message):
    with pytest.raises(OptionError, match=message):
        FMPair(**options)


def test_regularization_of_a_name_nobody_knows_names_the_nearest():
    with pytest.raises(OptionError, match=r"'tiem'. Did you mean 'time'\?"):
        FMPair(regularization={"tiem": 0.1}).fit(day_and_night())


def test_options_of_a_field_nobody_knows_name_the_nearest():
    with pytest.raises(OptionError, match=r"'tmie'. Did you mean 'time'\?"):
        FMPair(fields={"tmie": "categorical"}).fit(day_and_night())


def test_regularization_by_mapping_reaches_the_table_it_names():
    data = day_and_night()
    strong = FMPair(factors=4, epochs=10, order=2, regularization={"time": 5.0}).fit(data)
    weak = FMPair(factors=4, epochs=10, order=2, regularization={"time": 0.0}).fit(data)
    assert np.abs(strong.parameters.query).max() < 0.2 * np.abs(weak.parameters.query).max()


def test_blocks_that_leave_no_choice_of_negatives_are_refused():
    with pytest.raises(OptionError, match="blocks must be at most 10 for 20 items, not 20"):
        FMPair(blocks=20).fit(two_tastes())


def test_a_recipe_survives_as_plain_options():
    recipe = FMPair(factors=3, regularization={"user": 0.1}, fields={"age": Field(kind="binned")})
    again = FMPair.from_options(recipe.options())
    assert again.options() == recipe.options()
    assert "threads" not in recipe.options()
    with pytest.raises(OptionError, match="unknown option 'factor'"):
        FMPair.from_options({"factor": 3})


def test_fields_start_at_zero_unless_told_otherwise():
    data = day_and_night()
    space = FeatureSpace.fit(data, {"time": Field(start=0.5)})
    told = initial(FMPair(), space)
    plain = FeatureSpace.fit(data)
    assert told.query.std() > 0.2
    assert not initial(FMPair(), plain).query.any()


def test_presets_are_recipes_whose_options_may_be_changed():
    paper = FMPair.paper()
    assert (paper.factors, paper.epochs, paper.init_std, paper.loss) == (10, 300, 0.1, "bpr")
    assert FMPair.fast().epochs < FMPair().epochs
    assert FMPair.best(factors=8).options() == {**FMPair.best().options(), "factors": 8}


@pytest.mark.parametrize("preset", ["paper", "fast", "best"])
def test_a_preset_learns_two_tastes(preset):
    recipe = getattr(FMPair, preset)(seed=1, factors=8)  # for 20 items
    first = recipe.fit(two_tastes()).recommend(n=1)
    taste = first["user"].str.slice(1).cast(int) % 2
    assert (first["item"] % 2 == taste).mean() >= 0.9
