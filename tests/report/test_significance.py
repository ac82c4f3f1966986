"""Seeds of one recipe: the marks of a report must not tell three of them from three others.

210 pairs of 21 fits. If nothing but chance decided, p < .05 in 10.5 of them, with a standard
deviation of 3.2: twice that above is allowed.
"""

import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.data import synthetic
from fmpair.data.splits import holdout
from fmpair.evaluation import Protocol, evaluate
from fmpair.report.significance import PairedScores, by_unit, p_values

FITS, LEVEL = 21, 0.05
PAIRS = FITS * (FITS - 1) // 2
MAX_SHARE = LEVEL + 2 * (LEVEL * (1 - LEVEL) / PAIRS) ** 0.5
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


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_three_seeds_of_one_recipe_differ_no_more_often_than_by_chance(protocol, begun):
    rng = np.random.default_rng(0)
    drawn = (rng.permutation(FITS)[:6].reshape(2, 3).tolist() for _ in range(PAIRS))
    pairs = (scores_of(begun[protocol], {"a": one, "b": two}) for one, two in drawn)
    assert share_that_differs(pairs) <= MAX_SHARE


def test_one_fit_of_each_finds_a_true_difference_as_a_test_by_user_does():
    """A difference of 5 % of the mean, one list for each of 943 users, popular items in many."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(20):
        size = 943
        item = rng.zipf(1.3, size).clip(max=300).astype(str)
        base = (rng.random(size) < 0.3) * rng.random(size)
        other = base + rng.normal(0.05 * base.mean(), 0.04, size)
        columns = {"fold": 0, "unit": range(size), "row": range(size), "user": range(size)}
        parts = [
            pl.DataFrame({"model": name, "seed": 0, **columns, "item": item, METRIC: values})
            for name, values in (("a", base), ("b", other))
        ]
        units = pl.concat(parts).with_columns(pl.col("user").cast(pl.String))
        values = units.group_by("model", "fold", "seed").agg(value=pl.col(METRIC).mean())
        scores = PairedScores(METRIC, ["a", "b"], values, by_unit(units, [METRIC]))
        found += p_values(scores, [frozenset("ab")], "t").values()
    assert np.mean(np.array(found) < LEVEL) >= 0.8
