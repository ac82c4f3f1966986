"""Users known by their items: what they choose later is a part of their history too."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.errors import DataError, OptionError
from fmpair.models import FactorisedNeighbours, SVDPlusPlus
from fmpair.testing import two_tastes
from fmpair.testing.toys import left_out

KINDS = (SVDPlusPlus, FactorisedNeighbours)
OPTIONS = {"factors": 6, "epochs": 30, "init_std": 0.1}


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
    model = kind(**OPTIONS).fit(with_teams())
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
    model = kind(**OPTIONS).fit(two_tastes())
    some = next(iter(attributes(model, "u2")[0]))
    assert attributes(model.update(news("u2", some), epochs=1), "u2") == attributes(model, "u2")


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_user_is_known_by_a_few_items(kind):
    model = kind(**OPTIONS).fit(two_tastes())
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
    model = FactorisedNeighbours(**OPTIONS).fit(two_tastes())
    for grown in (
        model.fold_in(news("new", 2, 4)),
        model.update(news("new", 2, 4, 77), epochs=5),
        model.update(news("u1", 3)).update(news("u1", 5)),
    ):
        assert not grown.parameters.users.any()


def test_a_neighbour_folded_in_is_whoever_has_the_same_items():
    """Users are their items, so one with the items of another gets the scores of the other."""
    data = two_tastes()
    model = FactorisedNeighbours(**OPTIONS).fit(data)
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
    grown = SVDPlusPlus(**OPTIONS).fit(early).update(late, epochs=1)
    whole = SVDPlusPlus(**{**OPTIONS, "epochs": 1}).fit(every)
    for user in ("u7", "u8"):
        got, wanted = (attributes(model, user)[0] for model in (grown, whole))
        assert got == pytest.approx(wanted)


def test_cosines_are_refused():
    with pytest.raises(OptionError, match="does not support temperature"):
        FactorisedNeighbours(temperature=0.1)


def test_a_table_of_histories_is_refused_in_an_update_too():
    model = SVDPlusPlus(**{**OPTIONS, "epochs": 1}).fit(two_tastes())
    data = Dataset.from_frame(news("u1", 3), users={"user": ["u1"], "history": ["long"]})
    with pytest.raises(DataError, match="has a column 'history' already"):
        model.update(data)
