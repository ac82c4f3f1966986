"""Two groups of users compared."""

import numpy as np
import pytest
from scipy import stats

from fmpair.evaluation.clusters import gathered
from fmpair.evaluation.statistics import unpaired


def test_with_one_value_for_each_user_it_is_welchs_t():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.3, 1, 40), rng.normal(0, 3, 25)
    found = unpaired(gathered(a), gathered(b))
    expected = stats.ttest_ind(a, b, equal_var=False)
    interval = expected.confidence_interval()
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert (found.low, found.high) == pytest.approx(tuple(interval), rel=1e-4)


def test_values_of_one_user_are_no_independent_evidence():
    values, users = np.repeat([0.0, 1.0, 1.0, 0.0], 50), np.repeat(np.arange(4), 50)
    alone, together = gathered(values), gathered(values, users)
    assert unpaired(together, together).high > 5 * unpaired(alone, alone).high


def test_equal_values_do_not_differ():
    same = gathered([1.0, 1.0, 1.0])
    assert unpaired(same, same) == (0.0, 0.0, 0.0, 1.0)
    assert unpaired(same, gathered([2.0, 2.0])).p == 0.0
