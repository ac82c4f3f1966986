"""FPMC: what comes after the last item, for data in which that alone decides."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset
from fmpair.errors import DataError
from fmpair.models import BPRMF, FPMC

ITEMS = 12


def walks(users=60, steps=8, seed=0):
    """Each user starts anywhere and goes on to the next item, after the last to the first."""
    start = np.random.default_rng(seed).integers(ITEMS, size=users)
    user = np.repeat(np.arange(users), steps)
    item = (start[user] + np.tile(np.arange(steps), users)) % ITEMS
    return Dataset.from_frame({"user": user, "item": item}, order="per-user")


def next_found(model, data):
    """The share of users whose next item comes first."""
    last = data.frame().group_by("user").agg(pl.col("item").last())
    out = model.recommend(n=1).join(last, on="user", suffix="_last")
    return (out["item"] == (out["item_last"] + 1) % ITEMS).mean()


def test_the_next_item_follows_from_the_last_one():
    data = walks()
    options = {"factors": 8, "epochs": 30, "threads": 1}
    chain = FPMC(**options).fit(data)
    assert next_found(chain, data) > 0.9
    assert next_found(BPRMF(**options).fit(data), data) < 0.8
    assert chain.recommend(history=[4], n=1)["item"].to_list() == [5]


def test_context_and_attributes_are_not_looked_at():
    data = walks()
    frame = data.frame().select("user", "item").with_columns(place=pl.lit("x"))
    described = Dataset.from_frame(frame, order="per-user", items={"item": range(ITEMS), "a": "b"})
    options = {"factors": 2, "epochs": 1, "threads": 1}
    assert FPMC(**options).fit(described).space.context == []
    assert (
        FPMC(**options)
        .fit(described)
        .recommend(0, 3)
        .equals(FPMC(**options).fit(data).recommend(0, 3))
    )


def test_events_without_an_order_are_refused():
    with pytest.raises(DataError, match="the data have no times"):
        FPMC(factors=2, epochs=1).fit({"user": [1, 1, 2], "item": [1, 2, 3]})
