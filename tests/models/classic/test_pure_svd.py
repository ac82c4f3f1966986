import numpy as np
import pytest

from fmpair.data.synthetic import make
from fmpair.errors import OptionError
from fmpair.models import PureSVD


def test_scores_are_those_of_the_truncated_svd():
    data = make(users=60, items=40, events=900, seed=0).data
    had = np.zeros((len(data.users), len(data.items)))
    had[data.user, data.item] = 1
    left, values, right = np.linalg.svd(had, full_matrices=False)
    wanted = (left[:, :5] * values[:5]) @ right[:5]
    model = PureSVD(factors=5).fit(data)
    np.testing.assert_allclose(model.parameters.users @ model.item_vectors.T, wanted, atol=2e-3)


def test_what_cannot_fit_is_refused_before_it_is_begun():
    with pytest.raises(OptionError, match="PureSVD needs"):
        PureSVD(max_gb=1e-9).fit(make(users=20, items=20, events=100, seed=0).data)
