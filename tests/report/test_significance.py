"""Two seeds of one recipe are the same model: the marks of a report must not tell them apart.

210 pairs of 21 fits. If nothing but chance decided, p < .05 in 10.5 of them, with a standard
deviation of 3.2: twice that above is allowed.
"""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.data import synthetic
from fmpair.data.splits import holdout
from fmpair.evaluation import Protocol, evaluate
from fmpair.report.significance import PairedScores, by_unit, p_values

pytestmark = pytest.mark.slow

FITS, LEVEL = 21, 0.05
PAIRS = FITS * (FITS - 1) // 2
MOST = LEVEL + 2 * (LEVEL * (1 - LEVEL) / PAIRS) ** 0.5
METRIC = "ndcg@10"
PROTOCOLS = {"event": Protocol(seen="none"), "user": Protocol(unit="user", seen="none")}


def units_of(epochs):
    """By protocol the units of all fits, one below the other."""
    world = synthetic.make(users=60, items=40, events=6000)
    train, _, test = holdout(world.data, test=0.3).parts(world.data)
    found = {name: [] for name in PROTOCOLS}
    for fit in range(FITS):
        model = FMPair(factors=8, epochs=epochs, seed=fit, threads=1).fit(train)
        for name, protocol in PROTOCOLS.items():
            units = evaluate(model, train, test, protocol, [METRIC], threads=1).units
            found[name].append(units.with_columns(fit=pl.lit(fit), fold=pl.lit(0)))
    return {name: pl.concat(frames) for name, frames in found.items()}


@pytest.fixture(scope="module")
def trained():
    return units_of(epochs=10)


@pytest.fixture(scope="module")
def begun():
    """Hardly trained: what a seed does, it does to all users at once."""
    return units_of(epochs=3)


def scores_of(units, models):
    """models: by name the fits that are its seeds."""
    parts = [
        units.filter(pl.col("fit") == fit).with_columns(model=pl.lit(name), seed=pl.lit(seed))
        for name, fits in models.items()
        for seed, fit in enumerate(fits)
    ]
    mine = pl.concat(parts)
    values = mine.group_by("model", "fold", "seed").agg(value=pl.col(METRIC).mean())
    return PairedScores(METRIC, list(models), values, by_unit(mine, [METRIC]))


def share_that_differs(pairs):
    """Of pairs of models, given as scores, with p below the level."""
    p = [
        value
        for scores in pairs
        for value in p_values(scores, [frozenset(scores.models)], "randomisation").values()
    ]
    return np.mean(np.array(p) < LEVEL)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_two_seeds_of_one_recipe_differ_no_more_often_than_by_chance(protocol, trained):
    every = combinations(range(FITS), 2)
    pairs = (scores_of(trained[protocol], {"a": [one], "b": [two]}) for one, two in every)
    assert share_that_differs(pairs) <= MOST


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_so_do_three_seeds_of_a_recipe_that_is_hardly_trained(protocol, begun):
    rng = np.random.default_rng(0)
    drawn = (rng.permutation(FITS)[:6].reshape(2, 3).tolist() for _ in range(PAIRS))
    pairs = (scores_of(begun[protocol], {"a": one, "b": two}) for one, two in drawn)
    assert share_that_differs(pairs) <= MOST
