"""Names of fmpair 0.1: one line says what each is now."""

import pickle

import polars as pl
import pytest

from fmpair import Dataset, FMPair, read
from fmpair.errors import OptionError
from fmpair.fitted.ranker import Ranker
from fmpair.models import EASE, FM, FMPairLevels, ImplicitALS
from fmpair.option_names import OPTIONS, unknown_option, with_new_names
from fmpair.testing import two_tastes

EVENTS = pl.DataFrame({"user": [1, 2, 3], "item": ["a", "b", "c"]})


@pytest.mark.parametrize(("old", "new"), [pair for pair in OPTIONS.items() if pair[0] != "shown"])
def test_an_old_option_is_told_its_new_name(old, new):
    with pytest.raises(OptionError, match=f"^{old} is now {new}$"):
        FMPair(**{old: 1})
    with pytest.raises(OptionError, match=f"^{old} is now {new}$"):
        FMPairLevels.from_options({old: 1})


def test_a_name_is_old_only_where_the_new_one_is_known():
    with pytest.raises(OptionError, match=r"unknown option 'power'. Known: regularization"):
        EASE(power=2)
    for recipe in (FM, ImplicitALS):
        with pytest.raises(OptionError, match="initial_sd is now init_std"):
            recipe(initial_sd=0.1)
    assert unknown_option("power", ["power", "popularity_power"]).startswith("unknown option")


def test_options_of_old_files_get_their_new_names():
    known = ["n_negatives", "power"]
    assert with_new_names({"candidates": 8, "power": 2}, known) == {"n_negatives": 8, "power": 2}


def test_impressions_were_called_shown(tmp_path):
    with pytest.raises(OptionError, match=r"^shown is now impressions$"):
        Dataset.from_frame(EVENTS, shown=EVENTS)
    EVENTS.write_csv(tmp_path / "events.csv")
    with pytest.raises(OptionError, match=r"^shown is now impressions$"):
        read(tmp_path / "events.csv", shown="x.csv")
    data = Dataset.from_frame(EVENTS)
    for old, new in (("with_shown", "with_impressions"), ("shown", "impressions")):
        with pytest.raises(AttributeError, match=f"^Dataset.{old} is now Dataset.{new}$"):
            getattr(data, old)


def test_an_unknown_argument_of_a_frame_gets_the_nearest():
    with pytest.raises(OptionError, match=r"unknown option 'usr'. Did you mean 'user'\?"):
        Dataset.from_frame(EVENTS, usr="user")


def test_the_usual_user_is_the_mean_user():
    model = FMPair(factors=2, epochs=1).fit(two_tastes())
    with pytest.raises(AttributeError, match=r"^Recommender.usual_user is now .*\.mean_user$"):
        model.usual_user
    with pytest.raises(AttributeError, match="'Recommender' object has no attribute 'users'"):
        model.users


def test_a_scorer_that_says_strangers_is_told_what_it_must_say():
    class Old:
        strangers = True

        def scores(self, users, context): ...

        def arrays(self): ...

    said = r"Old is not a scorer: it has no scores_unknown_users"
    with pytest.raises(OptionError, match=said):
        Ranker.of(EASE(), two_tastes(), Old())


def test_what_asks_for_attributes_that_may_not_be_there_still_works():
    data = two_tastes()
    assert pickle.loads(pickle.dumps(data)).frame().equals(data.frame())
    assert not hasattr(data, "tocoo")
