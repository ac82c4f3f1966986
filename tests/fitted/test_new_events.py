"""Further events have the weights by kind of event that a model was fitted with."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair, load
from fmpair.errors import DataError, Notice

WEIGHTS = {"view": 1.0, "buy": 5.0}
SMALL = {"factors": 2, "epochs": 2, "threads": 1}


def log(kinds="did", buys=4):
    """Events of 12 users: they view four items and buy some of them."""
    pairs = [(u, (u + n) % 9) for u in range(12) for n in range(4)]
    told = ["buy" if n % 4 < buys / 4 else "view" for n in range(len(pairs))]
    return pl.DataFrame(
        {"user": [u for u, _ in pairs], "item": [i for _, i in pairs], kinds: told}
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("kinds") / "m.fmpair"
    data = Dataset.from_frame(log(), event_type="did", event_weights=WEIGHTS)
    FMPair(**SMALL).fit(data).save(path)
    return load(path)


def learned(model, data):
    return model.update(data, epochs=1).item_vectors


def test_an_update_weighs_kinds_as_the_fit_did_after_the_model_was_saved(model):
    weighted = Dataset.from_frame(log(), event_type="did", event_weights=WEIGHTS)
    alike = Dataset.from_frame(log(), event_type="did", event_weights={"view": 1, "buy": 1})
    np.testing.assert_array_equal(learned(model, log()), learned(model, weighted))
    assert not np.array_equal(learned(model, log()), learned(model, alike))


def test_kinds_are_found_under_a_usual_name_too(model):
    np.testing.assert_array_equal(learned(model, log()), learned(model, log("event_type")))


def test_what_an_update_learns_is_weighed_in_the_next_one_too(model):
    assert model.update(log(), epochs=1).space.event_weights == model.space.event_weights


def test_events_without_kinds_count_alike_and_that_is_said(model):
    with pytest.warns(Notice, match="event_weights .'did'., and the new events have no"):
        model.update(log().select("user", "item"), epochs=1)


def test_a_kind_without_a_weight_is_named(model):
    with pytest.raises(DataError, match="no weight for gift"):
        model.update(log().with_columns(did=pl.lit("gift")))


def test_a_model_without_weights_knows_none():
    fitted = FMPair(**SMALL).fit(log("event_type"))
    assert fitted.space.event_weights is None
    learned(fitted, log("event_type"))  # and nothing is said
