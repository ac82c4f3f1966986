"""Beside other libraries on MovieLens 100K, on the same split. Needs FMPAIR_DATA.

The FM beside myfm: same features, chains as long as they need to settle, and as long on both sides.
BPR-MF beside cornac's BPR: same steps, same number of them.
"""

from dataclasses import replace
from functools import cache
from itertools import islice

import numpy as np
import polars as pl
import pytest

from fmpair.arrays import empty_rows
from fmpair.data import public_sets
from fmpair.data.splits import folds, holdout
from fmpair.evaluation import Protocol, evaluate
from fmpair.models import BPRMF, FM

FACTORS = 8
DRAWS = {"ids": 60, "attributes": 40}
KEPT = {"ids": 40, "attributes": 25}
STARTS = {"ids": 8, "attributes": 4}
NEAR = 0.005  # RMSE
BARS = {"ids": 0.905, "attributes": 0.905}  # measured: .904 and .900
ALS_BARS = {"ids": 0.905, "attributes": 0.905}  # measured: .902 and .900

pytestmark = [pytest.mark.realdata, pytest.mark.thorough]


@cache
def parts(features):
    """(train, test) of the ratings, a fifth of them held out."""
    data = public_sets.load("ml-100k")
    if features == "ids":
        data = replace(data, user_table=pl.DataFrame(), item_table=pl.DataFrame())
    else:
        data = replace(data, user_table=data.user_table.drop("zip"))
    split = holdout(data, test=0.2, seed=0)
    return data.take(split.train), data.take(split.test)


@cache
def fitted(features):
    return FM(factors=FACTORS, epochs=DRAWS[features], samples=KEPT[features]).fit(
        parts(features)[0]
    )


@cache
def least_squares(features):
    """The mean of several starts: in all about as many passes as MCMC draws."""
    return FM(factors=FACTORS, epochs=10, learner="als", starts=STARTS[features]).fit(
        parts(features)[0]
    )


def rmse(model, features):
    judged = evaluate(model, *parts(features), Protocol(unit="interaction"), ["rmse"])
    return judged.means["rmse"]


def design(model, events):
    """The features of events as a scipy matrix: what the model itself was given."""
    from scipy.sparse import csr_matrix

    scorer, layout = model.scorer, model.scorer.layout
    profiles, attributes = scorer.user_rows.take(events.user), scorer.item_rows.take(events.item)
    sides = (
        layout.query(events.user, profiles, empty_rows(len(events))),
        layout.item(events.item, attributes),
    )
    shape = (len(events), int(layout.edges[-1]))
    return sum(csr_matrix((r.value.astype(float), r.column, r.start), shape) for r in sides)


@cache
def peer_rmse(features):
    """RMSE of myfm, fitted to what the model was given."""
    myfm = pytest.importorskip("myfm")
    model = fitted(features)
    train, test = parts(features)
    groups = np.diff(model.scorer.layout.edges).tolist()
    target = train.column("rating").astype(float)
    peer = myfm.MyFMRegressor(rank=FACTORS, random_seed=0).fit(
        design(model, train), target, n_iter=DRAWS[features], n_kept_samples=KEPT[features],
        group_shapes=groups,
    )  # fmt: skip
    error = peer.predict(design(model, test)) - test.column("rating")
    return float(np.sqrt(np.mean(error**2)))


@pytest.mark.parametrize("features", ["ids", "attributes"])
def test_mcmc_predicts_ratings_below_the_bar(features):
    assert rmse(fitted(features), features) < BARS[features]


@pytest.mark.parametrize("features", ["ids", "attributes"])
def test_als_predicts_ratings_below_the_bar(features):
    assert rmse(least_squares(features), features) < ALS_BARS[features]


@pytest.mark.parametrize("learner", [fitted, least_squares])
@pytest.mark.parametrize("features", ["ids", "attributes"])
def test_mcmc_and_als_agree_with_myfm(features, learner):
    assert rmse(learner(features), features) == pytest.approx(peer_rmse(features), abs=NEAR)


BPR = {"factors": 10, "epochs": 30, "rate": 0.05, "held": 0.01}


def our_bpr(train):
    """BPR-MF that draws events and keeps its rate, as cornac does.

    The rate falls over the epochs of the recipe: in the first few of many it stays what it is.
    """
    held = dict.fromkeys(("user", "item", "negative", "bias"), BPR["held"])
    recipe = BPRMF(
        factors=BPR["factors"], epochs=1000 * BPR["epochs"], learning_rate=BPR["rate"],
        regularization=held, init_std=1 / (np.sqrt(12) * BPR["factors"]),
        positives="bootstrap", item_bias=True,
    )  # fmt: skip
    return next(islice(recipe.train(train), BPR["epochs"] - 1, None)).recommender()


def their_bpr(train):
    from fmpair.bridges.cornac import Cornac

    settings = {"k": BPR["factors"], "max_iter": BPR["epochs"], "learning_rate": BPR["rate"],
                "lambda_reg": BPR["held"]}  # fmt: skip
    return Cornac("BPR", settings).fit(train)


def test_bpr_mf_agrees_with_cornac_within_the_noise_of_folds():
    pytest.importorskip("cornac")
    data = public_sets.load("ml-100k")
    values = []
    for split in folds(data, count=4, seed=0):
        train, test = data.take(split.train), data.take(split.test)
        models = our_bpr(train), their_bpr(train)
        judged = (evaluate(m, train, test, Protocol(unit="user"), ["ndcg@10"]) for m in models)
        values.append([result.means["ndcg@10"] for result in judged])
    ours, theirs = np.transpose(values)
    assert theirs.mean() > 0.3, "both must have learned something"
    assert abs(ours.mean() - theirs.mean()) < 2 * max(ours.std(ddof=1), theirs.std(ddof=1)), values
