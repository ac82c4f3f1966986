"""The log of a shop as shops write it, of which it is known what decides."""

from __future__ import annotations

import numpy as np
import polars as pl

TASTES = 6  # dimensions of what users want and items are
KINDS = ("view", "cart", "buy")
DAYTIMES = ("morning", "noon", "evening", "night")
DEVICES = ("phone", "tablet", "desktop")
START, DAYS = 1_704_067_200, 60  # 2024-01-01 00:00 UTC
PER_SESSION = 4  # events
AT_ONCE = 4096  # events whose scores of all items are held in memory


def shop_log(
    users: int = 300,
    items: int = 200,
    events: int = 9_000,
    *,
    promotions: bool = False,
    decides: bool = False,
    seed: int = 0,
) -> pl.DataFrame:
    """Events in order of time: event_time, event_type, user_id, product_id, price and more.

    What is chosen follows from taste and popularity alone, and from the daytime where it `decides`.
    All else says nothing of the next choice: the price of a product, which names it, or nearly
    with `promotions` (a fifth of the sales at a discount); session_id; device; daytime;
    shop, a constant; logged_ms, a copy of the time. Products that a user likes more are put into
    the cart and bought more often.
    """
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((users, TASTES))
    product = rng.standard_normal((items, TASTES)) / TASTES**0.5
    popularity = -0.6 * np.log1p(rng.permutation(items))
    pull = 2.0 * rng.standard_normal((len(DAYTIMES), TASTES)) * decides
    user = rng.choice(users, events, p=_zipf(users, 0.5))
    daytime = rng.integers(0, len(DAYTIMES), events)
    wants = 1.5 * taste[user] + pull[daytime]
    item = _chosen(wants, product, popularity, rng)
    liked = (wants * product[item]).sum(1)
    seconds = START + np.sort(rng.integers(0, DAYS * 86_400, events))
    list_price = np.round(rng.lognormal(3, 1, items) + 0.01 * np.arange(items), 2)
    discount = rng.choice([1.0, 0.9, 0.8], events, p=[0.8, 0.1, 0.1]) if promotions else 1.0
    return pl.DataFrame(
        {
            "event_time": pl.Series(seconds * 1_000_000)
            .cast(pl.Datetime("us"))
            .dt.strftime("%Y-%m-%d %H:%M:%S UTC"),
            "event_type": pl.Series(KINDS).gather(_kinds(liked, rng)),
            "user_id": user + 1_000,
            "product_id": pl.Series([f"sku-{n:05d}" for n in range(items)]).gather(item),
            "price": np.round(list_price[item] * discount, 2),
            "session_id": _sessions(user),
            "device": pl.Series(DEVICES).gather(rng.integers(0, len(DEVICES), events)),
            "daytime": pl.Series(DAYTIMES).gather(daytime),
            "shop": ["web"] * events,
            "logged_ms": seconds * 1_000 + 250,
        }
    )


def _chosen(
    wants: np.ndarray, product: np.ndarray, popularity: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """int64 [events]: an item for each, drawn by softmax of wants . product + popularity."""
    found = []
    for part in range(0, len(wants), AT_ONCE):
        scores = wants[part : part + AT_ONCE] @ product.T + popularity
        # the largest of scores with Gumbel noise is a draw by softmax
        found.append(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1))
    return np.concatenate(found)


def _zipf(count: int, exponent: float) -> np.ndarray:
    chance = (1.0 + np.arange(count)) ** -exponent
    return chance / chance.sum()


def _kinds(liked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """0, 1 or 2: how far interest went; what is liked more is bought more."""
    want = (liked - liked.mean()) / liked.std() + rng.standard_normal(len(liked))
    return (want > 1.2).astype(np.int64) + (want > 2.2)


def _sessions(user: np.ndarray) -> list[str]:
    """Each user's events in order, a few to a session."""
    events = pl.DataFrame({"user": user})
    place = events.select(pl.int_range(pl.len()).over("user")).to_series().to_numpy()
    return [f"{u:x}-{n // PER_SESSION:x}" for u, n in zip(user.tolist(), place.tolist())]
