"""Unknown options and attributes: the error names the option that was meant."""

import pickle

import polars as pl
import pytest

from fmpair import Dataset, FMPair
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
