"""Options that no machine can fulfil are refused before any memory is taken."""

import pytest

from fmpair import checks
from fmpair.errors import OptionError
from fmpair.models.catalog import find
from fmpair.testing import day_and_night, two_tastes

BILLION = 10**9
WITH_FACTORS = ["implicit-als", "fm", "fm-map", "gpfm"]
COMPILED = [
    "bpr-mf", "fm-pair", "prfm", "fm-listwise", "fm-pair-selected", "svd++",
    "factorised-neighbours", "fm-pair-weighted",
]  # fmt: skip
WITHOUT_TRIAL = {"fm-pair": {"order": 2}}


@pytest.mark.parametrize("kind", WITH_FACTORS)
def test_a_billion_factors_are_refused(kind):
    with pytest.raises(OptionError, match=r"GB for .*1,000,000,000 factors.*: lower .*factors"):
        find(kind)(factors=BILLION, epochs=1).fit(day_and_night())


@pytest.mark.parametrize("kind", COMPILED)
def test_more_factors_than_a_kernel_can_have_are_refused(kind):
    with pytest.raises(OptionError, match=r"factors can be 2,048 at most.*not 1,000,000,000"):
        find(kind)(factors=BILLION, epochs=1, **WITHOUT_TRIAL.get(kind, {})).fit(day_and_night())


@pytest.mark.parametrize("loss", ["softmax", "warp"])
def test_a_billion_negatives_are_refused(loss):
    with pytest.raises(OptionError, match=r"1,000,000,000 negatives .*: lower n_negatives"):
        find("fm-pair")(n_negatives=BILLION, loss=loss, epochs=1).fit(two_tastes())


def test_a_billion_starts_are_refused():
    with pytest.raises(OptionError, match="lower factors, starts or samples"):
        find("fm")(starts=BILLION, epochs=1).fit(two_tastes())


def test_the_need_is_that_of_all_vectors(monkeypatch):
    asked = []
    monkeypatch.setattr(checks, "check_memory", lambda *given: asked.append(given))
    checks.check_vectors(100, 9)
    checks.check_vectors(100, 9, models=5)
    assert [given[2] for given in asked] == [4 * 3 * 100 * 10, 4 * 7 * 100 * 10]
