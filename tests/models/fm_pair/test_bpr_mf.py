import numpy as np
import polars as pl
import pytest

from fmpair import FMPair
from fmpair.errors import OptionError
from fmpair.models import BPRMF
from fmpair.models.fm_pair.special_cases import ids_only
from fmpair.testing import cold_items, day_and_night

OPTIONS = {"factors": 3, "epochs": 4, "seed": 2}


def test_it_is_fm_pair_that_is_shown_users_and_items_only():
    data = day_and_night()
    ours = BPRMF(**OPTIONS).fit(data)
    theirs = FMPair(**OPTIONS, loss="bpr", item_bias=False).fit(data.frame().select("user", "item"))
    for part, wanted in zip(ours.parameters, theirs.parameters):
        np.testing.assert_array_equal(part, wanted)
    assert ours.space.context == []


def test_items_have_a_constant_only_when_asked_for():
    without, with_it = (BPRMF(**OPTIONS, item_bias=b).fit(day_and_night()) for b in (False, True))
    assert not without.item_constants.any() and with_it.item_constants.any()


def test_events_held_out_may_have_context_too():
    seen = []
    data = day_and_night()
    BPRMF(**OPTIONS).fit(data, validation=data.take(np.arange(0, 400, 7)), progress=seen.append)
    assert len(seen) == 4 and all(epoch.value is not None for epoch in seen)


def test_what_is_fitted_keeps_its_recipe_and_goes_on_from_ids_alone():
    model = BPRMF(**OPTIONS).fit(day_and_night())
    assert model.recipe == BPRMF(**OPTIONS)
    new = pl.DataFrame({"user": ["new", "new"], "item": [2, 4], "time": ["day", "dusk"]})
    for grown in (model.fold_in(new), model.update(new, epochs=2)):
        assert grown.recipe == model.recipe and grown.space.context == []
        assert not grown.item_constants.any(), "items have no constants in this baseline"
        assert len(grown.recommend("new", 3)) == 3


def test_nothing_but_ids_is_left():
    data = ids_only(cold_items())
    assert not data.item_table.width and len(data.items) == len(cold_items().items)


def test_wrong_options_are_refused_when_the_recipe_is_made():
    with pytest.raises(OptionError, match="factors must be"):
        BPRMF(factors=0)
