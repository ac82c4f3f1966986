"""Models that are special cases of FM-Pair: BPR-MF, FPMC, PRFM, SVD++, neighbours."""

from dataclasses import fields

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, load
from fmpair.errors import DataError, OptionError
from fmpair.features.layouts import joined, with_histories, without_columns
from fmpair.fitted import recipe as option
from fmpair.models import (
    BPRMF,
    FPMC,
    PRFM,
    FactorisedNeighbours,
    FMPair,
    FMPairAll,
    ListwiseFM,
    SVDPlusPlus,
)
from fmpair.models.fm_pair.special_cases import ids_only
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.known_answers import left_out

OPTIONS = {"factors": 3, "epochs": 4, "seed": 2}


def test_it_is_fm_pair_that_is_shown_users_and_items_only():
    data = day_and_night()
    ours = BPRMF(**OPTIONS).fit(data)
    theirs = FMPair(**OPTIONS, loss="bpr", item_bias=False).fit(data.frame().select("user", "item"))
    for part, wanted in zip(ours.parameters, theirs.parameters):
        np.testing.assert_array_equal(part, wanted)
    assert ours.space.context == []


def test_items_have_a_constant_only_when_asked_for():
    without, with_it = (BPRMF(**OPTIONS, item_bias=b).fit(day_and_night()) for b in (False, True))
    assert not without.item_constants.any() and with_it.item_constants.any()


def test_events_held_out_may_have_context_too():
    seen = []
    data = day_and_night()
    BPRMF(**OPTIONS).fit(data, validation=data.take(np.arange(0, 400, 7)), progress=seen.append)
    assert len(seen) == 4 and all(epoch.value is not None for epoch in seen)


def test_what_is_fitted_keeps_its_recipe_and_goes_on_from_ids_alone():
    model = BPRMF(**OPTIONS).fit(day_and_night())
    assert model.recipe == BPRMF(**OPTIONS)
    new = pl.DataFrame({"user": ["new", "new"], "item": [2, 4], "time": ["day", "dusk"]})
    for grown in (model.fold_in(new), model.update(new, epochs=2)):
        assert grown.recipe == model.recipe and grown.space.context == []
        assert not grown.item_constants.any(), "items have no constants in this baseline"
        assert len(grown.recommend("new", 3)) == 3


def test_nothing_but_ids_is_left():
    data = ids_only(cold_items())
    assert not data.item_table.width and len(data.items) == len(cold_items().items)


def test_wrong_options_are_refused_when_the_recipe_is_made():
    with pytest.raises(OptionError, match="factors must be"):
        BPRMF(factors=0)


ITEMS = 12


def walks(users=60, steps=8, seed=0):
    """Each user starts anywhere and goes on to the next item, after the last to the first."""
    start = np.random.default_rng(seed).integers(ITEMS, size=users)
    user = np.repeat(np.arange(users), steps)
    item = (start[user] + np.tile(np.arange(steps), users)) % ITEMS
    return Dataset.from_frame({"user": user, "item": item}, order="per-user")


def next_found(model, data):
    """The share of users whose next item comes first."""
    last = data.frame().group_by("user").agg(pl.col("item").last())
    out = model.recommend(n=1).join(last, on="user", suffix="_last")
    return (out["item"] == (out["item_last"] + 1) % ITEMS).mean()


def test_the_next_item_follows_from_the_last_one():
    data = walks()
    options = {"factors": 8, "epochs": 30, "threads": 1}
    chain = FPMC(**options).fit(data)
    assert next_found(chain, data) > 0.9
    assert next_found(BPRMF(**options).fit(data), data) < 0.8
    assert chain.recommend(history=[4], n=1)["item"].to_list() == [5]


def test_context_and_attributes_are_not_looked_at():
    data = walks()
    frame = data.frame().select("user", "item").with_columns(place=pl.lit("x"))
    described = Dataset.from_frame(frame, order="per-user", items={"item": range(ITEMS), "a": "b"})
    options = {"factors": 2, "epochs": 1, "threads": 1}
    assert FPMC(**options).fit(described).space.context == []
    assert (
        FPMC(**options)
        .fit(described)
        .recommend(0, 3)
        .equals(FPMC(**options).fit(data).recommend(0, 3))
    )


def test_events_without_an_order_are_refused():
    with pytest.raises(DataError, match="the data have no times"):
        FPMC(factors=2, epochs=1).fit({"user": [1, 1, 2], "item": [1, 2, 3]})


SMALL = {"factors": 4, "epochs": 60, "seed": 1}
LOSSES = {
    "hinge": {"loss": "hinge"},
    "logistic": {"loss": "logistic"},
    "softmax": {"loss": "softmax", "n_negatives": 5},
    "cosines": {"loss": "softmax", "n_negatives": 5, "temperature": 0.5, "init_std": 0.1},
    "warp": {"loss": "warp", "n_negatives": 5},
}


def right_answers(model):
    """The share of users of `two_tastes` whose first item is the one they lack."""
    first = model.recommend(n=1)
    number = first["user"].str.slice(1).cast(int).to_numpy()
    return (first["item"].to_numpy() == left_out(number)).mean()


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_finds_the_one_item_a_user_lacks(loss):
    assert right_answers(FMPair(**SMALL, **LOSSES[loss]).fit(two_tastes())) >= 0.95


@pytest.mark.parametrize("recipe", [PRFM, ListwiseFM])
def test_the_named_recipes_find_it_too_and_are_saved_under_their_name(recipe, tmp_path):
    model = recipe(**SMALL).fit(two_tastes())
    assert right_answers(model) >= 0.95
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").recipe == model.recipe


@pytest.mark.parametrize("loss", ["softmax", "cosines"])
def test_context_decides_what_ranks_first(loss):
    model = FMPair(**SMALL | {"epochs": 100}, **LOSSES[loss]).fit(day_and_night())
    for time, rest in (("day", 0), ("night", 1)):
        first = model.recommend(n=1, context={"time": time})["item"].to_numpy()
        assert (first % 2 == rest).mean() >= 0.95


@pytest.mark.parametrize("loss", ["softmax", "cosines"])
def test_own_item_attributes_help_a_cold_item(loss):
    # 20 epochs: later on the known items' own vectors say it all, and little is left to attributes
    model = FMPair(**SMALL | {"epochs": 20}, **LOSSES[loss]).fit(cold_items())
    listed = model.recommend(n=3, candidates=list(range(14, 20)))
    odd_user = listed["user"].str.slice(1).cast(int) % 2
    assert (odd_user == listed["item"] % 2).mean() == 1.0


def test_items_of_a_cosine_model_have_length_one_and_no_constant():
    model = FMPair(**SMALL, **LOSSES["cosines"]).fit(cold_items())
    np.testing.assert_allclose(np.linalg.norm(model.item_vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(model.item_constants, 0, atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "cosines", "warp"])
def test_what_is_fitted_can_go_on_learning(loss):
    model = FMPair(**SMALL, **LOSSES[loss]).fit(two_tastes())
    newcomer = pl.DataFrame({"user": ["new"] * 4, "item": [1, 3, 5, 7]})
    for grown in (model.fold_in(newcomer), model.update(newcomer, epochs=3)):
        assert (grown.recommend("new", 3)["item"] % 2 == 1).all()


def test_options_of_a_model_saved_before_these_were_there_are_the_defaults():
    new = (
        "loss", "n_negatives", "temperature", "popularity_power", "rank_share", "own_share",
        "sharing", "impression_share", "logq_correction",
    )  # fmt: skip
    old = {name: value for name, value in option.plain(FMPair()).items() if name not in new}
    assert option.recipe(FMPair, old) == FMPair()


@pytest.mark.parametrize("wrong", [
    {"loss": "softmx"}, {"negative_sampler": "popular"}, {"n_negatives": 0}, {"temperature": 0},
    {"popularity_power": -1}, {"rank_share": 0}, {"own_share": 1.5}, {"sharing": -1},
    {"own_share": 0.1, "loss": "warp"},
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        FMPair(**wrong)


@pytest.mark.parametrize("recipe", [PRFM, ListwiseFM])
def test_a_named_recipe_has_the_options_of_fm_pair(recipe):
    assert {f.name for f in fields(recipe)} == {f.name for f in fields(FMPair)}


KINDS = (SVDPlusPlus, FactorisedNeighbours)
HISTORY_OPTIONS = {"factors": 6, "epochs": 30, "init_std": 0.1}


def attributes(model, user):
    """({item: its value in the user's history}, {label: value of any other attribute})."""
    row = model.user_rows.take(np.array([model.user_number(user)]))
    labels = model.space.query.labels()
    found = {labels[c]: float(v) for c, v in zip(row.column, row.value)}
    items = {label.partition("=")[2]: v for label, v in found.items() if "history=" in label}
    others = {label: v for label, v in found.items() if "history=" not in label}
    return {int(item): value for item, value in items.items()}, others


def with_teams():
    users = {"user": [f"u{n}" for n in range(40)], "team": ["red", "blue"] * 20}
    return two_tastes().with_users(users)


def news(user, *items):
    return pl.DataFrame({"user": [user] * len(items), "item": list(items)})


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_holds_the_old_items_and_the_new(kind):
    model = kind(**HISTORY_OPTIONS).fit(with_teams())
    old, team = attributes(model, "u2")
    grown = model.update(news("u2", 1, 77), epochs=2)
    new, team_later = attributes(grown, "u2")
    assert set(new) == {*old, 1, 77} and len(old) == 9
    assert list(new.values()) == pytest.approx([11**-0.5] * 11)
    assert team == team_later == {"team=red": 1.0}
    assert attributes(grown, "u3") == attributes(model, "u3")
    assert grown.recipe == model.recipe


@pytest.mark.parametrize("kind", KINDS)
def test_an_item_chosen_again_is_no_news_to_a_history(kind):
    model = kind(**HISTORY_OPTIONS).fit(two_tastes())
    some = next(iter(attributes(model, "u2")[0]))
    assert attributes(model.update(news("u2", some), epochs=1), "u2") == attributes(model, "u2")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_user_is_known_by_a_few_items(kind):
    model = kind(**HISTORY_OPTIONS).fit(two_tastes())
    for parity in (0, 1):
        chosen = [n for n in range(20) if n % 2 == parity][:6]
        grown = model.fold_in(news("new", *chosen))
        assert set(attributes(grown, "new")[0]) == set(chosen)
        assert (grown.recommend("new", 3)["item"] % 2 == parity).all()
        for name in ("items", "item_bias", "query", "features", "feature_bias"):
            before, after = (getattr(m.parameters, name) for m in (model, grown))
            np.testing.assert_array_equal(before, after, err_msg=name)
        np.testing.assert_array_equal(grown.parameters.users[:40], model.parameters.users)


def test_neighbours_never_get_vectors_of_users():
    model = FactorisedNeighbours(**HISTORY_OPTIONS).fit(two_tastes())
    for grown in (
        model.fold_in(news("new", 2, 4)),
        model.update(news("new", 2, 4, 77), epochs=5),
        model.update(news("u1", 3)).update(news("u1", 5)),
    ):
        assert not grown.parameters.users.any()


def test_a_neighbour_folded_in_is_whoever_has_the_same_items():
    """Users are their items, so one with the items of another gets the scores of the other."""
    data = two_tastes()
    model = FactorisedNeighbours(**HISTORY_OPTIONS).fit(data)
    own = data.frame().filter(pl.col("user") == "u4")["item"].to_list()
    grown = model.fold_in(news("twin", *own))
    asked = pl.DataFrame({"user": ["u4"] * 20 + ["twin"] * 20, "item": [*range(20)] * 2})
    one, other = grown.score(asked)["score"].to_numpy().reshape(2, 20)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert grown.recommend("twin", 1)["item"].item() == left_out(np.array([4]))[0]


def test_after_an_update_histories_are_those_of_a_fit_on_all_events():
    every = two_tastes().frame()
    late = every.filter(pl.col("user") == "u7").tail(4)
    early = every.join(late, on=["user", "item"], how="anti")
    grown = SVDPlusPlus(**HISTORY_OPTIONS).fit(early).update(late, epochs=1)
    whole = SVDPlusPlus(**{**HISTORY_OPTIONS, "epochs": 1}).fit(every)
    for user in ("u7", "u8"):
        got, wanted = (attributes(model, user)[0] for model in (grown, whole))
        assert got == pytest.approx(wanted)


def test_cosines_are_refused():
    with pytest.raises(OptionError, match="does not support temperature"):
        FactorisedNeighbours(temperature=0.1)


def test_a_table_of_histories_is_refused_in_an_update_too():
    model = SVDPlusPlus(**{**HISTORY_OPTIONS, "epochs": 1}).fit(two_tastes())
    data = Dataset.from_frame(news("u1", 3), users={"user": ["u1"], "history": ["long"]})
    with pytest.raises(DataError, match="has a column 'history' already"):
        model.update(data)


LAYOUT_OPTIONS = {"factors": 5, "epochs": 5, "init_std": 0.3}


def all_scores(model, **context):
    """float [users, items], in the order of the model's tables."""
    users = pl.DataFrame({"user": model.user_ids}).with_columns(
        **{name: pl.lit(value) for name, value in context.items()}
    )
    items = pl.DataFrame({"item": model.item_ids})
    scores = model.score(users.join(items, how="cross", maintain_order="left"))["score"]
    return scores.to_numpy().reshape(len(users), len(items))


def feature(model, label):
    """The vector of a feature of either side, by its label."""
    query, item = model.space.query.labels(), model.space.item.labels()
    if label in query:
        return model.parameters.query[query.index(label)]
    return model.parameters.features[item.index(label)]


def history(data, user):
    """The items of a user, and what each is worth in SVD++."""
    seen = data.seen
    items = data.items.take(seen.column[seen.start[user] : seen.start[user + 1]]).to_list()
    return items, len(items) ** -0.5


def test_matrix_factorization_is_the_machine_of_users_and_items():
    model = BPRMF(**LAYOUT_OPTIONS, item_bias=True).fit(day_and_night())
    own = model.parameters
    by_hand = own.users @ own.items.T + own.item_bias
    np.testing.assert_allclose(all_scores(model), by_hand, atol=1e-5)


def test_svd_plus_plus_adds_a_vector_for_every_item_of_the_user():
    data = two_tastes()
    model = SVDPlusPlus(**LAYOUT_OPTIONS).fit(data)
    own, scores = model.parameters, all_scores(model)
    for user in (0, 7, 39):
        items, worth = history(data, user)
        implicit = worth * sum(feature(model, f"history={item}") for item in items)
        by_hand = own.item_bias + own.items @ (own.users[user] + implicit)
        np.testing.assert_allclose(scores[user], by_hand, atol=1e-4)
    assert np.abs(own.query).max() > 0


def test_factorised_neighbours_have_items_in_place_of_the_user():
    data = two_tastes()
    model = FactorisedNeighbours(**{**LAYOUT_OPTIONS, "epochs": 15}).fit(data)
    own, scores = model.parameters, all_scores(model)
    assert not own.users.any()
    for user in (0, 7, 39):
        items, worth = history(data, user)
        by_hand = own.item_bias + sum(
            worth * own.items @ feature(model, f"history={item}") for item in items
        )
        np.testing.assert_allclose(scores[user], by_hand, atol=1e-4)


def test_attribute_aware_factorization_adds_the_vectors_of_attributes_to_their_owners():
    ages = {"user": [f"u{n}" for n in range(40)], "team": ["red", "blue"] * 20}
    data = cold_items().with_users(ages)
    model = FMPair(**LAYOUT_OPTIONS, fields={"kind": {"start": 0.1}}).fit(data)
    own, scores = model.parameters, all_scores(model)
    kinds = ["calm" if item % 2 == 0 else "loud" for item in model.item_ids]
    kind = np.array([feature(model, f"kind={name}") for name in kinds])
    labels = model.space.item.labels()
    kind_bias = own.feature_bias[[labels.index(f"kind={name}") for name in kinds]]
    teams = dict(zip(ages["user"], ages["team"]))
    for user in (0, 7, 39):
        q = own.users[user] + feature(model, f"team={teams[model.user_ids[user]]}")
        inner = (own.items * kind).sum(axis=1)  # the pair of the item and its attribute
        by_hand = (own.items + kind) @ q + own.item_bias + kind_bias + inner
        np.testing.assert_allclose(scores[user], by_hand, atol=1e-4)


def test_pairwise_interaction_tensor_factorization_is_one_context_column():
    model = FMPair(**{**LAYOUT_OPTIONS, "epochs": 20}, item_bias=False).fit(day_and_night())
    own = model.parameters
    for time in ("day", "night"):
        situation = feature(model, f"time={time}")
        by_hand = own.users @ own.items.T + own.items @ situation  # <user, time> ranks nothing
        np.testing.assert_allclose(all_scores(model, time=time), by_hand, atol=1e-4)
        assert np.abs(situation).max() > 0


def test_joint_factorization_shares_the_users_of_two_relations():
    items, friends = two_tastes(), two_tastes(items=8)
    data = joined({"bought": items, "follows": friends})
    model = FMPairAll(**LAYOUT_OPTIONS, target="bought").fit(data)
    whole = FMPair(**LAYOUT_OPTIONS, loss="bpr").fit(data)
    bought = [n for n, item in enumerate(whole.item_ids) if item.startswith("bought:")]
    own = whole.parameters
    by_hand = own.users @ own.items[bought].T + own.item_bias[bought]
    np.testing.assert_allclose(all_scores(model), by_hand, atol=1e-5)
    assert len(model.item_ids) == 20 and len(whole.item_ids) == 28


def test_a_history_lists_each_item_once_and_their_worth_follows_its_length():
    data = Dataset.from_frame({"user": [1, 1, 1, 2], "item": ["a", "b", "a", "c"]})
    table = with_histories(data, power=1.0).user_table["history"].to_list()
    assert table[0] == [{"name": "a", "weight": 0.5}, {"name": "b", "weight": 0.5}]
    assert table[1] == [{"name": "c", "weight": 1.0}]


def test_a_column_of_the_users_is_never_replaced():
    data = two_tastes().with_users({"user": ["u0"], "history": ["long"]})
    with pytest.raises(DataError, match="has a column 'history' already"):
        SVDPlusPlus(**LAYOUT_OPTIONS).fit(data)


def test_columns_are_left_out_by_name_or_by_side_and_name():
    data = Dataset.from_frame(
        {"user": [1, 2], "item": [1, 2], "city": ["a", "b"]},
        users={"user": [1, 2], "city": ["a", "b"]},
    )
    assert without_columns(data, ["context.city"]).context == ()
    assert without_columns(data, ["user.city"]).user_table.columns == []
    with pytest.raises(DataError, match=r"ambiguous: write context.city or user.city"):
        without_columns(data, ["city"])
