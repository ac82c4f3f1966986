"""Users of four groups who choose items with the words of theirs, for tests of content."""

import numpy as np
import polars as pl

from fmpair import Dataset

GROUPS, ITEMS, NEW, USERS = 4, 160, 40, 80


def shop(*columns: str, shuffled: bool = False) -> Dataset:
    """Return the events, and these columns of the items; the last items are new.

    shuffled: whether words and texts say nothing about the groups.
    """
    rng = np.random.default_rng(0)
    group = rng.permutation(ITEMS) % GROUPS if shuffled else np.arange(ITEMS) % GROUPS
    words = [[f"w{w}" for w in rng.integers(0, 12, 5) + 12 * g] for g in group]
    texts = np.eye(6)[group] + rng.normal(0, 0.1, (ITEMS, 6))
    known = np.arange(ITEMS - NEW)
    events = [
        (u, int(i))
        for u in range(USERS)
        for i in rng.choice(known[known % GROUPS == u % GROUPS], 10, replace=False)
    ]
    colours = [f"c{c}" for c in rng.integers(0, 3, ITEMS)]
    table = {"item": range(ITEMS), "words": words, "text": texts.tolist(), "colour": colours}
    frame = pl.DataFrame(events, schema=["user", "item"], orient="row")
    return Dataset.from_frame(frame, items=pl.DataFrame(table).select("item", *columns))
