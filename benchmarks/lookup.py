"""How long does one user wait, among how many others?

    python benchmarks/lookup.py [--quick]

Generated models of 64 random factors, ids of text. Milliseconds of a call after the first of its
kind, the median of all repeats; the product of one query with all items by itself, since that part
grows with the items. The bytes an id are what the users' vocabulary holds after its first lookup.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import report
from measure import Answer, Check, in_turn, median

from fmpair import Dataset, FMPair, Recommender
from fmpair.data.synthetic import zipf_events
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.recommender import from_factors
from fmpair.threads import side_by_side

FACTORS = 64
EVENTS_EACH = 10  # of a user
USERS, FEW_ITEMS = (20_000, 200_000, 2_000_000), 1_000
ITEMS, FEW_USERS = (3_000, 30_000, 300_000), 20_000
REPEATS, QUICK_REPEATS = 200, 20
MAX_RECOMMEND, MAX_LOOKUP, MAX_BYTES = 2.0, 0.3, 16.0


def main() -> None:
    repeats = QUICK_REPEATS if "--quick" in sys.argv else REPEATS
    print(report.machine())
    print(f"\none user\n\n{report.text('users', run(repeats))}")


def run(repeats: int) -> Answer:
    users = [_by_users(generated(count, FEW_ITEMS), repeats) for count in USERS]
    items = [_by_items(generated(FEW_USERS, count), repeats) for count in ITEMS]
    most, name = users[-1], f"{USERS[-1]:,} users"
    checks = [
        Check(f"{name}: ms of recommend", most["recommend"], MAX_RECOMMEND, True),
        Check(f"{name}: ms of a lookup", most["lookup"], MAX_LOOKUP, True),
        Check(f"{name}: bytes an id", most["bytes an id"], MAX_BYTES, True),
    ]
    return Answer({"users": users, "items": items}, checks)


def generated(users: int, items: int) -> Recommender:
    """A model that learned nothing: random vectors, events of popular items and busy users."""
    user, item = (Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (users, items))
    data = Dataset(user, item, *zipf_events(users, items, EVENTS_EACH * users), pl.DataFrame())
    rng = np.random.default_rng(0)
    vectors = (rng.standard_normal((size, FACTORS), np.float32) for size in (users, items))
    return from_factors(FMPair(factors=FACTORS), data, *vectors)


def _by_users(model: Recommender, repeats: int) -> dict[str, Any]:
    """Every question about one user, in milliseconds."""
    users = len(model.space.users)
    name, row = pl.Series([str(users // 3)]), {"users": users}
    model.space.items.numbers(pl.Series(["7"]))  # imports what a lookup needs
    tracemalloc.start()
    model.space.users.numbers(name)
    row["bytes an id"] = tracemalloc.get_traced_memory()[0] / users
    tracemalloc.stop()
    pair = pl.DataFrame({"user": name, "item": ["7"]})
    newcomer = pl.DataFrame({"user": ["new"] * 5, "item": ["1", "2", "3", "4", "5"]})
    ask = {
        "lookup": partial(model.space.users.numbers, name),
        "recommend": partial(model.recommend, name[0]),
        "score": partial(model.score, pair),
        "explain": partial(model.explain, name[0], "7"),
        "similar_items": partial(model.similar_items, "7"),
    }
    rare = {"fold_in": partial(model.fold_in, newcomer)}
    return row | _milliseconds(ask, repeats) | _milliseconds(rare, max(repeats // 20, 3))


def _by_items(model: Recommender, repeats: int) -> dict[str, Any]:
    """One user's list, and the product in it, in milliseconds."""
    vector = np.ones((1, FACTORS + 1), np.float32)
    ask = {
        "recommend": partial(model.recommend, "7"),
        "the product alone": partial(side_by_side, lambda _: vector @ model.item_matrix, [0], None),
    }
    return {"items": len(model.space.items)} | _milliseconds(ask, repeats)


def _milliseconds(ask: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """The median of each call's milliseconds, in turn; the first is not counted."""

    def timed(call: Callable[[], Any]) -> float:
        began = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - began)

    took = in_turn({name: partial(timed, call) for name, call in ask.items()}, 1 + repeats)
    return {name: median(values[1:]) for name, values in took.items()}


if __name__ == "__main__":
    main()
