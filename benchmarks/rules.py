"""What rules cost a request, and what diversity costs in NDCG.

    python benchmarks/rules.py cost                    # 100,000 items, 64 factors
    python benchmarks/rules.py diversity ml-1m-folder  # MovieLens 1M

`cost` prints the median processor time of a request without and with each rule, which other work on
the machine hardly changes.
`diversity` fits FM-Pair and prints NDCG@10 and the diversity of the lists, one row per value.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl

import fmpair
from fmpair import Dataset, FMPair
from fmpair.fitted.recommender import from_factors
from fmpair.models import Popularity

ITEMS, FACTORS, REQUESTS = 100_000, 64, 60
RULES = {
    "none": {},
    "where": {"where": ["price<=50", "not brand=b3"]},
    "limit": {"limit": {"brand": 2}},
    "boost": {"boost": {"brand": {"b1": 0.3, "b2": 0.1}}},
    "diversity": {"diversity": 0.3},
    "exclude_shown": {"exclude_shown": list(range(200))},
    "all": {
        "where": ["price<=50", "not brand=b3"],
        "limit": {"brand": 2},
        "boost": {"brand": {"b1": 0.3}},
        "diversity": 0.3,
    },
}
VALUES = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0)


def cost() -> None:
    """Print the time of a request with each rule."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 1000, 20_000), np.arange(20_000) * 5
    table = {
        "item": np.arange(ITEMS),
        "brand": [f"b{n}" for n in rng.integers(0, 500, ITEMS)],
        "price": rng.random(ITEMS) * 100,
    }
    data = Dataset.from_frame({"user": user, "item": item}, items=table)
    vectors = rng.normal(size=(len(data.users) + ITEMS, FACTORS)).astype(np.float32)
    model = from_factors(Popularity(), data, vectors[: len(data.users)], vectors[len(data.users) :])
    took: dict[str, list[float]] = {name: [] for name in RULES}
    for number in range(REQUESTS):
        for name, options in RULES.items():  # in turn, so that other work hits all alike
            begin = time.process_time()
            model.answer(int(user[number]), 10, **options)
            took[name].append(time.process_time() - begin)
    plain = np.median(took["none"])
    for name, seconds in took.items():
        middle = np.median(seconds[5:])
        print(f"{name:15} {1e3 * middle:7.2f} ms  {1e3 * (middle - plain):+7.2f} ms")


def diversity(folder: str) -> None:
    """Print NDCG@10 and the diversity of lists by vectors and by genres."""
    frame = fmpair.read(folder).frame().select("user", "item", "timestamp").sort("timestamp")
    rank = pl.int_range(pl.len()).over("user") / pl.len().over("user")
    train, test = frame.filter(rank < 0.8), frame.filter(rank >= 0.8)
    recipe = FMPair(factors=32, epochs=4, history=0, order=2, times=False, seed=1)
    model = recipe.fit(train.select("user", "item"))
    relevant = dict(test.group_by("user").agg("item").iter_rows())
    users = [user for user in model.user_ids.tolist() if user in relevant][:1500]
    items = fmpair.read(folder).all_item_columns["genres"].to_list()
    genres = dict(zip(fmpair.read(folder).items.ids, map(set, items)))
    print("diversity    NDCG@10   by vectors   by genres")
    for value in VALUES:
        lists = model.recommend(users, 10, diversity=value or None)
        parts = dict(lists.group_by("user").agg("item").iter_rows())
        figures = [_figures(model, parts[user], relevant[user], genres) for user in users]
        print(f"{value:9.2f}" + "".join(f"{x:12.4f}" for x in np.mean(figures, axis=0)), flush=True)


def _figures(model, listed, relevant, genres):
    """Return NDCG@10, and the mean distance of two items of a list by vectors and by genres."""
    gain = 1 / np.log2(np.arange(2, 12))
    hits = np.isin(listed, relevant)
    ndcg = (gain[: len(hits)] * hits).sum() / gain[: len(relevant)].sum()
    vectors = model.item_vectors[[model.space.items.number(item) for item in listed]]
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    above = np.triu_indices(len(listed), 1)
    apart = [
        1
        - len(genres[listed[a]] & genres[listed[b]])
        / max(len(genres[listed[a]] | genres[listed[b]]), 1)
        for a, b in zip(*above)
    ]
    return ndcg, (1 - vectors @ vectors.T)[above].mean(), np.mean(apart)


if __name__ == "__main__":
    cost() if sys.argv[1:2] == ["cost"] else diversity(sys.argv[2])
