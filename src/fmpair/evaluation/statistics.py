"""Confidence intervals and significance tests of values by unit.

Values are of units in one order, [units], or of several seeds, [seeds, units], whose variance then
enters. users: whose list each unit is; those of one user are summed before anything is drawn or
tested. Without users every unit counts as a user of its own. items: the relevant item of each
unit; with one seed of each model the variance between items stands in for that between seeds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fmpair.evaluation import difference
from fmpair.evaluation.clusters import Groups, Values, gathered, paired
from fmpair.evaluation.difference import DRAWS, POWER


class Spread(NamedTuple):
    """A mean over folds or seeds, and the standard deviation (n - 1) of one of them."""

    mean: float
    sd: float


def spread(values: Values) -> Spread:
    """Mean and standard deviation; that of a single value is NaN."""
    found = np.asarray(values, np.float64)
    return Spread(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else math.nan)


def bootstrap(
    values: Values, level: float = 0.95, repeats: int = DRAWS, seed: int = 0, users: Groups = None
) -> tuple[float, float]:
    """Percentile interval of the mean over units; users are drawn with replacement."""
    return difference.bootstrapped(gathered(values, users), level, repeats, seed)


def randomisation_test(
    a: Values,
    b: Values,
    repeats: int = DRAWS,
    seed: int = 0,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """Two-sided p of the paired randomisation test: the signs of users' differences are flipped.

    Exact for up to 14 users that differ; else p = (1 + as extreme) / (1 + repeats).
    """
    return difference.randomised(paired(a, b, users, items), repeats, seed)


def t_test(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the paired t-test over users."""
    return difference.student(paired(a, b, users, items))


def wilcoxon(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Two-sided p of the signed-rank test over users: those that do not differ are dropped."""
    return difference.ranked(paired(a, b, users, items))


def effect_size(a: Values, b: Values, users: Groups = None, items: Groups = None) -> float:
    """Cohen's d over users: their mean difference over its standard deviation."""
    return difference.effect(paired(a, b, users, items))


def detectable(
    a: Values,
    b: Values,
    level: float = 0.05,
    power: float = POWER,
    users: Groups = None,
    items: Groups = None,
) -> float:
    """The least true difference that a test at this level would find with this power."""
    return difference.detectable(paired(a, b, users, items), level, power)


def is_level(
    a: Values,
    b: Values,
    margin: float,
    level: float = 0.05,
    users: Groups = None,
    items: Groups = None,
) -> bool:
    """Whether two models differ by no more than the margin, by two one-sided t-tests."""
    return difference.is_level(paired(a, b, users, items), margin, level)


def holm(p_values: Values) -> np.ndarray:
    """p-values adjusted for their number by Holm's step-down procedure, in the given order."""
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    scaled = given[order] * (len(given) - np.arange(len(given)))
    out = np.empty(len(given))
    out[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return out
