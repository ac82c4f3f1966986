"""Other models as layouts of a factorization machine: its scores are their formulas, by hand."""

import numpy as np
import polars as pl
import pytest

from fmpair.data import Dataset
from fmpair.errors import DataError
from fmpair.features.layouts import joined, with_histories, without_columns
from fmpair.models import BPRMF, FactorisedNeighbours, FMPair, FMPairAll, SVDPlusPlus
from fmpair.testing import cold_items, day_and_night, two_tastes

OPTIONS = {"factors": 5, "epochs": 5, "init_std": 0.3}


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
    model = BPRMF(**OPTIONS, item_bias=True).fit(day_and_night())
    own = model.parameters
    by_hand = own.users @ own.items.T + own.item_bias
    np.testing.assert_allclose(all_scores(model), by_hand, atol=1e-5)


def test_svd_plus_plus_adds_a_vector_for_every_item_of_the_user():
    data = two_tastes()
    model = SVDPlusPlus(**OPTIONS).fit(data)
    own, scores = model.parameters, all_scores(model)
    for user in (0, 7, 39):
        items, worth = history(data, user)
        implicit = worth * sum(feature(model, f"history={item}") for item in items)
        by_hand = own.item_bias + own.items @ (own.users[user] + implicit)
        np.testing.assert_allclose(scores[user], by_hand, atol=1e-4)
    assert np.abs(own.query).max() > 0


def test_factorised_neighbours_have_items_in_place_of_the_user():
    data = two_tastes()
    model = FactorisedNeighbours(**{**OPTIONS, "epochs": 15}).fit(data)
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
    model = FMPair(**OPTIONS, fields={"kind": {"start": 0.1}}).fit(data)
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
    model = FMPair(**{**OPTIONS, "epochs": 20}, item_bias=False).fit(day_and_night())
    own = model.parameters
    for time in ("day", "night"):
        situation = feature(model, f"time={time}")
        by_hand = own.users @ own.items.T + own.items @ situation  # <user, time> ranks nothing
        np.testing.assert_allclose(all_scores(model, time=time), by_hand, atol=1e-4)
        assert np.abs(situation).max() > 0


def test_joint_factorization_shares_the_users_of_two_relations():
    items, friends = two_tastes(), two_tastes(items=8)
    data = joined({"bought": items, "follows": friends})
    model = FMPairAll(**OPTIONS, target="bought").fit(data)
    whole = FMPair(**OPTIONS, loss="bpr").fit(data)
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
        SVDPlusPlus(**OPTIONS).fit(data)


def test_columns_are_left_out_by_name_or_by_side_and_name():
    data = Dataset.from_frame(
        {"user": [1, 2], "item": [1, 2], "city": ["a", "b"]},
        users={"user": [1, 2], "city": ["a", "b"]},
    )
    assert without_columns(data, ["context.city"]).context == ()
    assert without_columns(data, ["user.city"]).user_table.columns == []
    with pytest.raises(DataError, match=r"ambiguous: say context.city or user.city"):
        without_columns(data, ["city"])
