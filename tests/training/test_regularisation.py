"""How hard users and items are held, by how many events they have."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair import Dataset, FMPair
from fmpair.arrays import group_rows
from fmpair.errors import OptionError
from fmpair.features import FeatureSpace
from fmpair.testing import two_tastes
from fmpair.training.problem import problem_of
from fmpair.training.regularisation import l2_scale_of, l2_scales

STEPS = st.lists(st.integers(0, 10_000), min_size=1, max_size=30).filter(lambda s: sum(s) > 0)


@given(STEPS, st.floats(0, 2))
def test_all_rows_together_are_held_as_much_as_before(steps, power):
    count = np.array(steps, float)
    assert (l2_scales(count, power) * count).sum() == pytest.approx(count.sum(), rel=1e-4)


@given(STEPS, st.floats(0, 2))
def test_a_row_is_held_in_proportion_to_its_steps_to_the_power(steps, power):
    count = np.array(steps, float)
    total = (l2_scales(count, power) * count)[count > 0]
    wanted = count[count > 0] ** power
    np.testing.assert_allclose(total / total.sum(), wanted / wanted.sum(), rtol=1e-4)


def problem():
    data = two_tastes()
    return problem_of(FMPair(), FeatureSpace.fit(data, {}, False), data)


def test_the_power_of_one_holds_all_alike():
    assert l2_scale_of(1.0, problem(), None) is None


def test_busy_users_and_items_are_held_less_in_a_step_than_rare_ones():
    events = [
        ("busy", "a"),
        ("busy", "b"),
        ("busy", "c"),
        ("rare", "a"),
        ("calm", "a"),
        ("calm", "b"),
    ]
    data = Dataset.from_frame(dict(zip(("user", "item"), map(list, zip(*events)))))
    own = problem_of(FMPair(), FeatureSpace.fit(data, {}, False), data)
    pull = l2_scale_of(0.5, own, None)
    by_user = dict(zip(data.users.ids, pull.users))
    by_item = dict(zip(data.items.ids, pull.items))
    assert by_user["busy"] < by_user["calm"] < by_user["rare"]
    assert by_item["a"] < by_item["b"] < by_item["c"]


def test_what_was_seen_before_counts_where_learning_goes_on():
    own = problem()
    user, item = np.append(own.user, [0] * 50), np.append(own.item, [1] * 50)
    seen = group_rows(user, item, own.users, np.ones(len(user), np.float32))
    assert l2_scale_of(0.5, own, seen).users[0] < l2_scale_of(0.5, own, None).users[0]


def test_a_negative_power_is_refused():
    with pytest.raises(OptionError, match="regularization_power must be a number of at least 0"):
        FMPair(regularization_power=-0.5)


def groups_of(sharing=None):
    """(context powers by column, user attributes', item attributes') of generated events."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, 40, 4000)
    events = pl.DataFrame(
        {
            "user": user,
            "item": rng.integers(0, 30, 4000),
            "daytime": rng.choice(["morning", "noon", "night"], 4000),
            "city": [f"city {u % 5}" for u in user],
            "seldom_away": [f"city {u % 5}" if rng.random() < 0.7 else "away" for u in user],
        }
    )
    users = pl.DataFrame({"user": range(40), "age": [f"{u % 4}0s" for u in range(40)]})
    items = pl.DataFrame({"item": range(30), "genre": [f"genre {i % 3}" for i in range(30)]})
    data = Dataset.from_frame(events, users=users, items=items)
    space = FeatureSpace.fit(data, {})
    problem = problem_of(FMPair(sharing=sharing), space, data)
    names = [e.name for e in space.query.encoders]
    first = {name: n for n, name in enumerate(names)}
    power = {
        name: float(problem.query_groups.sharing[problem.query_groups.field == n][0])
        for name, n in first.items()
    }
    return power | {"genre": float(problem.item_groups.sharing[0])}


def test_the_power_of_sharing_is_how_far_a_field_stands_for_users():
    power = groups_of()
    assert power["daytime"] == pytest.approx(0, abs=0.02)
    assert power["city"] == pytest.approx(1)
    assert power["age"] == 1
    assert 0.3 < power["seldom_away"] < 0.7
    assert power["genre"] == 0.5


def test_a_number_given_is_the_power_of_every_field():
    assert set(groups_of(0.25).values()) == {0.25}
