import numpy as np
import pytest

from fmpair.data import as_dataset
from fmpair.errors import DataError, OptionError
from fmpair.models import EASE
from fmpair.testing import two_tastes

DATA = two_tastes()


def own(data):
    out = np.zeros((len(data.users), len(data.items)))
    out[data.user, data.item] = 1
    return out


def test_each_item_is_the_ridge_regression_on_all_others():
    had, strength = own(DATA), 3.0
    wanted = np.zeros((20, 20))
    for item in range(20):
        others = np.arange(20) != item
        x, y = had[:, others], had[:, item]
        wanted[others, item] = np.linalg.solve(x.T @ x + strength * np.eye(19), x.T @ y)
    found = EASE(regularization=strength).fit(DATA).scorer.weights
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_scores_are_the_users_items_times_the_weights():
    model = EASE().fit(DATA)
    wanted = own(DATA)[DATA.user] @ model.scorer.weights
    np.testing.assert_allclose(model(DATA), wanted, atol=1e-6)


def test_an_explanation_adds_up_and_similar_items_share_a_taste():
    model = EASE(regularization=5.0).fit(DATA)
    score = model.score({"user": ["u1"], "item": [3]})["score"][0]
    assert model.explain("u1", 3)["value"].sum() == pytest.approx(score, abs=1e-5)
    assert all(item % 2 == 0 for item in model.similar_items(4, 9)["item"])


def test_what_cannot_fit_is_refused_before_it_is_begun():
    with pytest.raises(
        OptionError, match=r"EASE needs .* GB for 20 items, and 1e-06 GB are allowed: raise max_gb"
    ):
        EASE(max_gb=1e-6).fit(DATA)


def test_there_must_be_events():
    with pytest.raises(DataError, match="no events"):
        EASE().fit(as_dataset(DATA).take(np.arange(0)))
