"""Clicks by which the service is tested."""

import numpy as np
import polars as pl

USERS, ITEMS = 12, 20


def clicks() -> pl.DataFrame:
    """Users with ids of any letters, items with whole numbers."""
    draw = np.random.default_rng(3)
    user, item = draw.integers(USERS, size=300), draw.integers(ITEMS, size=300)
    return pl.DataFrame(
        {
            "user": [f"ann/{number} <é🎈>" for number in user],
            "item": item,
            "timestamp": 1_700_000_000 + np.arange(300) * 60,
            "daytime": draw.choice(["day", "night"], 300),
            "warmth": draw.normal(size=300),
        }
    ).unique(["user", "item"], maintain_order=True)
