"""How far a field stands for users, and what follows for its steps."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.features import FeatureSpace
from fmpair.training.problem import problem_of


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
