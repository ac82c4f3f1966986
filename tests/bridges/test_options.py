"""Options go through untouched: seen by stand-ins that take the place of the libraries."""

import sys
from types import ModuleType

import numpy as np
import pytest

from fmpair.bridges.cornac import Cornac
from fmpair.bridges.implicit import Implicit
from fmpair.bridges.lenskit import LensKit
from fmpair.bridges.lightfm import LightFM
from fmpair.bridges.myfm import MyFM
from fmpair.errors import OptionError, TrainingError, UnknownError
from fmpair.testing import two_tastes

told = {}


class LeastSquares:
    """implicit's ALS by its outside: keeps what it is told, learns nothing."""

    def __init__(self, factors=10, num_threads=0, random_state=None):
        if factors > 1000:
            raise ValueError("far too many\nfactors")
        told.update(factors=factors, num_threads=num_threads, random_state=random_state)

    def fit(self, matrix, show_progress):
        told.update(matrix=matrix, show_progress=show_progress)
        self.user_factors = np.ones((matrix.shape[0], 2), np.float32)
        self.item_factors = np.column_stack([np.arange(matrix.shape[1]), np.zeros(matrix.shape[1])])


class Popular:
    """A recommender as cornac's are: no vectors, scores a user at a time."""

    def __init__(self, name="Popular", power=1.0):
        self.power = power

    def fit(self, train_set):
        self.times = np.bincount(train_set[1]) * self.power

    def score(self, user):
        return self.times + user

    def train(self, data, options):
        """As LensKit's scorers have it."""


def module(name, **members):
    made = ModuleType(name)
    vars(made).update(members)
    return made


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    told.clear()
    data = module("cornac.data", Dataset=lambda *given, seed: given[-1])
    for made in (
        module("implicit"), module("implicit.als", AlternatingLeastSquares=LeastSquares),
        module("cornac"), module("cornac.models", Popular=Popular), data,
        module("lenskit"), module("lenskit.als", ImplicitMFScorer=Popular, Popen=told.update),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, made.__name__, made)


def test_settings_seed_and_threads_reach_the_library():
    Implicit("als", {"factors": 3}, threads=2, seed=7).fit(two_tastes())
    assert (told["factors"], told["num_threads"], told["random_state"]) == (3, 2, 7)
    assert told["matrix"].shape == (40, 20) and told["matrix"].nnz == len(two_tastes())


def test_settings_go_over_our_own_choices():
    Implicit("als", {"num_threads": 1, "random_state": 99}, threads=2, seed=7).fit(two_tastes())
    assert (told["num_threads"], told["random_state"]) == (1, 99)


def test_repeated_events_are_added_up():
    Implicit("als").fit({"user": ["a", "a", "b"], "item": ["x", "x", "y"]})
    assert told["matrix"].toarray().tolist() == [[2, 0], [0, 1]]


def test_weights_count_where_there_are_any():
    events = {"user": ["a", "a", "b"], "item": ["x", "x", "y"], "weight": [0.5, 2.0, 3.0]}
    Implicit("als").fit(events)
    assert told["matrix"].toarray().tolist() == [[2.5, 0], [0, 3]]


def test_an_option_that_the_library_does_not_have_is_refused_in_one_line():
    with pytest.raises(OptionError, match=r"als rejects its settings: TypeError.*'factor'"):
        Implicit("als", {"factor": 3}).fit(two_tastes())


def test_a_value_that_the_library_refuses_is_one_line():
    with pytest.raises(OptionError, match=r"its settings: ValueError: far too many factors$"):
        Implicit("als", {"factors": 1001}).fit(two_tastes())


def test_a_model_that_the_library_does_not_have_gets_the_nearest_name():
    with pytest.raises(UnknownError, match="Did you mean 'Popular'"):
        Cornac("Popula").fit(two_tastes())
    with pytest.raises(UnknownError, match="Did you mean 'ImplicitMFScorer'"):
        LensKit("als:ImplicitMF").fit(two_tastes())
    with pytest.raises(UnknownError, match=r"lenskit\.nosuch of lenskit cannot be imported"):
        LensKit("nosuch:Scorer").fit(two_tastes())


def test_what_a_module_of_lenskit_imports_is_no_scorer():
    with pytest.raises(UnknownError, match=r"unknown scorer of lenskit.als 'Popen'. Known: Impl"):
        LensKit("als:Popen", {"args": "anything"}).fit(two_tastes())
    assert told == {}


def test_a_recommender_that_takes_no_seed_is_not_given_one():
    out = Cornac("Popular", {"power": -1}).fit({"user": [1, 1, 2], "item": ["x", "y", "x"]})
    assert out.recommend(2, exclude_seen=False, n=1)["item"].to_list() == ["y"]


def test_what_a_library_cannot_do_with_the_data_is_one_line(monkeypatch):
    monkeypatch.setattr(Popular, "fit", lambda self, train_set: {}["item_text"])
    with pytest.raises(TrainingError, match="cornac's Popular failed: KeyError: 'item_text'"):
        Cornac("Popular").fit(two_tastes())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Implicit("sgd"), "model must be one of als, bpr, lmf"),
        (lambda: LightFM("hinge"), "loss must be one of bpr, warp"),
        (lambda: LightFM(epochs=0), "epochs must be a whole number"),
        (lambda: MyFM("ranking"), "task must be one of auto, regression"),
        (lambda: LensKit("ImplicitMFScorer"), "model must be module:Class of lenskit"),
        (lambda: Cornac(settings=[("k", 3)]), "settings must be a mapping"),
        (lambda: Cornac(threads=0), "threads must be a whole number"),
        (lambda: Implicit(seed=-1), "seed must be a whole number"),
    ],
)
def test_what_we_read_ourselves_is_checked_at_once(make, message):
    with pytest.raises(OptionError, match=message):
        make()
