"""Errors name the option that was meant; memory is checked before it is taken."""

import pickle

import polars as pl
import pytest

from fmpair import Dataset, FMPair, checks
from fmpair.checks import FOREIGN_OPTIONS, unknown_option
from fmpair.errors import OptionError
from fmpair.models import EASE
from fmpair.testing import two_tastes

EVENTS = pl.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "c"]})


@pytest.mark.parametrize(
    "foreign", [name for name, ours in FOREIGN_OPTIONS.items() if ours in ("factors", "epochs")]
)
def test_a_name_of_another_library_gets_ours(foreign):
    ours = FOREIGN_OPTIONS[foreign]
    with pytest.raises(OptionError, match=rf"unknown option '{foreign}'. Did you mean '{ours}'\?"):
        FMPair(**{foreign: 1})


def test_a_name_is_suggested_only_where_it_is_known():
    with pytest.raises(OptionError, match=r"unknown option 'n_factors'. Known: regularization"):
        EASE(n_factors=2)
    assert unknown_option("lr", []) == "unknown option ':option:`lr`'. Known: none"


def test_an_unknown_argument_of_a_frame_gets_the_nearest():
    with pytest.raises(OptionError, match=r"unknown option 'usr'. Did you mean 'user'\?"):
        Dataset.from_frame(EVENTS, usr="user")


def test_an_option_of_the_model_passed_to_fit_is_told_its_place():
    text = r"^learning_rate is an option of the model: FMPair\(learning_rate=...\)$"
    with pytest.raises(OptionError, match=text):
        FMPair().fit(two_tastes(), learning_rate=1)


def test_an_unknown_attribute_gets_the_nearest():
    data = two_tastes()
    with pytest.raises(AttributeError, match=r"object has no attribute 'usr'"):
        data.usr
    with pytest.raises(AttributeError, match=r"has no attribute 'item_tabl'. Did you mean 'item_t"):
        data.item_tabl


def test_lookups_of_optional_attributes_still_work():
    data = two_tastes()
    assert pickle.loads(pickle.dumps(data)).frame().equals(data.frame())
    assert not hasattr(data, "tocoo")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(checks, "memory", lambda: 2**30)


def test_what_does_not_fit_is_refused_with_what_there_is_and_what_would_help(small):
    with pytest.raises(
        OptionError, match=r"^it needs 2\.0 GB for 5 rows, but 1 GB are available: no$"
    ):
        checks.check_memory("it", "5 rows", 2**31, None, "no")
    checks.check_memory("it", "5 rows", 2**29, None, "no")


def test_a_limit_of_the_callers_own_counts_instead(small):
    checks.check_memory("it", "5 rows", 2**31, 3.0, "raise it")
    with pytest.raises(OptionError, match=r"but 0\.5 GB are allowed: raise it"):
        checks.check_memory("it", "5 rows", 2**30, 0.5, "raise it")


def test_a_need_of_any_number_of_digits_is_only_refused(small):
    with pytest.raises(OptionError, match="GB for everything"):
        checks.check_memory("it", "everything", 10**500, None, "less")


def test_the_memory_of_a_container_is_that_of_the_container(monkeypatch, tmp_path):
    before = checks.memory()
    assert before > 2**28
    (tmp_path / "limit").write_text("1048576\n")
    monkeypatch.setattr(checks, "GROUP_LIMIT", tmp_path / "limit")
    assert checks.memory() == 1 << 20
    (tmp_path / "limit").write_text("max\n")
    assert checks.memory() >= before
