"""What a user writes, for type checkers: tests/test_typing.py runs mypy and pyright on it."""

from pathlib import Path
from typing import assert_type

import pandas as pd
import polars as pl

from fmpair import Dataset, Field, FMPair, FmpairError, Protocol, Recommender, evaluate, load, read
from fmpair.data import Split, core, leave_last_out
from fmpair.evaluation import Evaluation, summary
from fmpair.models import EASE, ItemKNN
from fmpair.training import Epoch

clicks = pl.DataFrame({"user": ["ann", "bob"], "item": ["a", "b"], "daytime": ["day", "night"]})
data = Dataset.from_frame(clicks, context=["daytime"])
split = leave_last_out(core(data, users=1, items=1))
recipe = FMPair(factors=8, fields={"daytime": Field(kind="category")})
model = recipe.fit(data)

assert_type(data, Dataset)
assert_type(split, Split)
assert_type(model, Recommender)
assert_type(model.recommend("ann", n=3), pl.DataFrame)
assert_type(model.recommend(["ann", "bob"], context={"daytime": "day"}), pl.DataFrame)
assert_type(model.recommend(pl.DataFrame({"user": ["ann"]})), pl.DataFrame)
assert_type(model.recommend(pd.DataFrame({"user": ["ann"]})), pd.DataFrame)
assert_type(model.score(clicks), pl.DataFrame)
assert_type(model.score(pd.DataFrame({"user": ["ann"], "item": ["a"]})), pd.DataFrame)
assert_type(model.explain("ann", "a"), pl.DataFrame)
assert_type(model.similar_items("a"), pl.DataFrame)
assert_type(model.answer("ann").scores, list[float])
assert_type(ItemKNN().fit(data).recommend("ann"), pl.DataFrame)

judged = evaluate(model, data, data, protocol=Protocol(), metrics=["ndcg@10"])
assert_type(judged, Evaluation)
assert_type(judged.means, dict[str, float])
assert_type(summary(judged), pl.DataFrame)

for epoch in recipe.train(data):
    assert_type(epoch, Epoch)

try:
    model.save(Path("model.fmpair"))
    load("model.fmpair").recommend("ann")
    EASE().fit(read("clicks.csv"))
except FmpairError as error:
    print(error)
