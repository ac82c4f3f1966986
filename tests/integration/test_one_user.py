"""What is asked about one user touches that user alone, however many others there are.

No test measures time; arrays as long as the number of users show in what numpy allocates.
"""

import tracemalloc
from functools import cache

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.data.vocabulary import Vocabulary
from fmpair.models.classic.neighbours import ItemKNN
from fmpair.models.fm import FM

USERS, ITEMS = 300_000, 30
MAX_BYTES = USERS // 4  # bytes: less than any array with a place for every user


def events():
    user = np.arange(USERS, dtype=np.int32)
    names = Vocabulary(pl.Series(user).cast(pl.String)), Vocabulary(pl.Series(range(ITEMS)))
    item = (user % ITEMS).astype(np.int32)
    return Dataset(*names, user, item, pl.DataFrame())


RECIPES = {
    "FMPair": FMPair(factors=2, epochs=1),
    "ItemKNN": ItemKNN(),
    "FM": FM(factors=2, epochs=1),
}
ASK = {
    "recommend": lambda model: model.recommend("7"),
    "recommend from a few": lambda model: model.recommend("7", candidates=[1, 2, 3]),
    "recommend to a stranger": lambda model: model.recommend("nobody", unknown="popular"),
    "score": lambda model: model.score(pl.DataFrame({"user": ["7"], "item": [3]})),
    "similar_items": lambda model: model.similar_items(3),
    "explain": lambda model: model.explain("7", 3),
}
CANNOT = {("FM", "explain")}


@cache
def fitted(name):
    return RECIPES[name].fit(events())


@pytest.mark.parametrize(
    ("name", "question"), [(n, q) for n in RECIPES for q in ASK if (n, q) not in CANNOT]
)
def test_the_second_question_makes_no_array_of_all_users(name, question):
    model, ask = fitted(name), ASK[question]
    first = ask(model)
    tracemalloc.start()
    try:
        again = ask(model)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert again.equals(first)
