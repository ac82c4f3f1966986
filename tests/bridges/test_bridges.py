"""Every library that is installed keeps the contract, and beats popularity on real data."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

from fmpair import Popularity
from fmpair.bridges.cornac import Cornac
from fmpair.bridges.implicit import Implicit
from fmpair.bridges.lenskit import LensKit
from fmpair.bridges.lightfm import LightFM
from fmpair.bridges.myfm import MyFM
from fmpair.data.public_sets import load
from fmpair.data.splits import holdout
from fmpair.evaluation import Protocol, evaluate
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recommender import Recommender
from fmpair.testing import cold_items, day_and_night, two_tastes
from fmpair.testing.contract import RULES, ModelContract

# Their several threads change shared tables without locks, or add numbers up in another order.
BY_THREADS = "no_score_depends_on_the_number_of_threads"
MODELS = {
    "implicit als": (lambda: Implicit("als", {"factors": 8}), True),
    "implicit bpr": (lambda: Implicit("bpr", {"factors": 8, "learning_rate": 0.1}, 1), False),
    "implicit lmf": (lambda: Implicit("lmf", {"factors": 8}, 1), False),
    "implicit cosine": (lambda: Implicit("cosine"), True),
    "implicit bm25": (lambda: Implicit("bm25", {"K": 10}), True),
    "lightfm warp": (lambda: LightFM("warp", 40, threads=1), False),
    "lightfm bpr": (lambda: LightFM("bpr", 40, threads=1), False),
    "cornac BPR": (lambda: Cornac("BPR", {"learning_rate": 0.1}), True),
    "cornac EASE": (lambda: Cornac("EASE"), True),
    "cornac ItemKNN": (lambda: Cornac("ItemKNN"), True),
    "lenskit als": (lambda: LensKit("als:ImplicitMFScorer", {"embedding_size": 8}), False),
    "lenskit knn": (lambda: LensKit("knn:ItemKNNScorer", {"feedback": "implicit"}), True),
    "myfm": (lambda: MyFM(epochs=50, samples=40, settings={"rank": 4}), True),
}


def construct(name):
    """The recipe, if its library is here."""
    recipe = MODELS[name][0]()
    if find_spec(recipe.requirement.module) is None:
        pytest.skip(f"{recipe.requirement.distribution} is not installed")
    return recipe


@pytest.mark.parametrize("name", MODELS)
def test_every_bridge_keeps_the_contract(name):
    construct(name)
    make, steady = MODELS[name]
    ModelContract(make).check(*(rule for rule in RULES if steady or rule != BY_THREADS))


def test_lightfm_ranks_items_without_events_by_their_attributes():
    pytest.importorskip("lightfm")
    model = LightFM("warp", 60, threads=1).fit(cold_items())
    out = model.recommend(n=1, candidates=[14, 15, 16, 17, 18, 19])
    number = out["user"].str.strip_prefix("u").cast(int).to_numpy()
    assert (out["item"].to_numpy() % 2 == number % 2).mean() > 0.9


def test_lightfm_scores_are_lightfms_own():
    lightfm = pytest.importorskip("lightfm")
    data = cold_items()
    kept = []

    class Kept(lightfm.LightFM):
        def fit(self, *given, **named):
            kept.append((super().fit(*given, **named), named))
            return self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightfm, "LightFM", Kept)
        ours = LightFM("bpr", 5, threads=1).fit(data)
    theirs, named = kept[0]
    warm = np.unique(data.item)
    features = {name: named[name] for name in ("user_features", "item_features")}
    score = theirs.predict(np.full(len(warm), 3), warm, **features)
    pairs = {"user": ["u3"] * len(warm), "item": data.items.take(warm)}
    apart = ours.score(pl.DataFrame(pairs))["score"].to_numpy() - score
    assert np.ptp(apart) < 1e-5, "scores may differ by a constant of the user only"


def test_myfm_learns_what_context_is_worth():
    model = construct("myfm").fit(day_and_night())
    for time, rest in (("day", 0), ("night", 1)):
        out = model.recommend("u1", 5, context={"time": time}, exclude_seen=False)
        assert (out["item"].to_numpy() % 2 == rest).all()


def test_factors_become_a_recommender_and_all_else_a_ranker():
    kinds = {"implicit als": Recommender, "implicit cosine": Ranker, "cornac BPR": Recommender,
             "cornac EASE": Ranker}  # fmt: skip
    for name, kind in kinds.items():
        assert type(construct(name).fit(two_tastes())) is kind


REAL = {
    "implicit als": lambda: Implicit("als", {"factors": 32, "iterations": 10}),
    "implicit bpr": lambda: Implicit("bpr", {"factors": 32, "iterations": 60}),
    "implicit bm25": lambda: Implicit("bm25", {"K": 100}),
    "lightfm warp": lambda: LightFM("warp", 10, settings={"no_components": 32}),
    "cornac BPR": lambda: Cornac("BPR", {"k": 32, "learning_rate": 0.05, "max_iter": 30}),
    "lenskit als": lambda: LensKit("als:ImplicitMFScorer", {"embedding_size": 32, "weight": 5}),
    "myfm": lambda: MyFM("classification", 60, 40, settings={"rank": 4}),
}


@pytest.mark.realdata
@pytest.mark.parametrize("name", REAL)
def test_every_bridge_beats_popularity_on_movielens(name):
    construct(name)
    data = load("ml-100k")
    events = replace(data, user_table=pl.DataFrame(), item_table=pl.DataFrame())
    split = holdout(events, 0.2, seed=1)
    train, test = events.take(split.train), events.take(split.test)
    protocol = Protocol(unit="user")
    yardstick, value = (
        evaluate(model, train, test, protocol, ["ndcg@10"], threads=1).means["ndcg@10"]
        for model in (Popularity().fit(train), REAL[name]().fit(train))
    )
    assert value > 1.1 * yardstick
