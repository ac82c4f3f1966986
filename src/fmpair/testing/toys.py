"""Tiny data sets with a known answer. Users are 'u0', 'u1', ...; items are integers."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset


def day_and_night(users: int = 40, items: int = 20, seed: int = 0) -> Dataset:
    """Even items are chosen by day, odd items by night; each user has a random half of all items.

    Right answer: for every user, with context time='day' every even item ranks above every odd
    one, and below by night. With 50 or more items `time` would be inferred as an item attribute.
    """
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.permutation(items)[: items // 2] for _ in range(users)])
    user = np.repeat(np.arange(users), items // 2)
    time = pl.Series(["day", "night"]).gather(item % 2)
    return Dataset.from_frame({"user": _user_ids(user), "item": item, "time": time})


def opposite_tastes(users: int = 40, items: int = 40, seed: int = 0) -> Dataset:
    """Even users choose even items by day and odd items by night, odd users the opposite.

    Users choose a random half of these items. Right answer: with context time='day' every even
    item ranks above every odd one for even users, and below for odd users. No model of pairwise
    interactions can learn it.
    """
    rng = np.random.default_rng(seed)
    half = items // 4
    user, night = np.divmod(np.arange(users * 2), 2)
    odd = (user + night) % 2
    item = np.concatenate([rng.permutation(items // 2)[:half] * 2 + parity for parity in odd])
    time = pl.Series(["day", "night"]).gather(np.repeat(night, half))
    return Dataset.from_frame(
        {"user": _user_ids(np.repeat(user, half)), "item": item, "time": time}
    )


def two_tastes(users: int = 40, items: int = 20) -> Dataset:
    """Even users choose even items, odd users odd items; each lacks a single item of their half.

    Right answer: the best unseen item of user n is `left_out(n, items)`.
    """
    user, item = np.divmod(np.arange(users * items), items)
    chosen = (user % 2 == item % 2) & (item != left_out(user, items))
    return Dataset.from_frame({"user": _user_ids(user[chosen]), "item": item[chosen]})


def left_out(user: np.ndarray, items: int = 20) -> np.ndarray:
    """Return the only item of their half that user number n of `two_tastes` has not chosen."""
    return user // 2 % (items // 2) * 2 + user % 2


def cold_items(users: int = 40, items: int = 20, cold: int = 6, seed: int = 0) -> Dataset:
    """Even users choose 'calm' items (even), odd users 'loud' items (odd); some have no events.

    The item table gives each item's `kind`; the last `cold` items have no events.
    Right answer: among the cold items each user ranks those of their kind first; a model without
    item attributes cannot learn it.
    """
    rng = np.random.default_rng(seed)
    warm = np.arange(items - cold)
    item = [rng.permutation(warm[n % 2 :: 2])[: len(warm) // 4] for n in range(users)]
    user = np.repeat(np.arange(users), [len(chosen) for chosen in item])
    kinds = pl.Series(["calm", "loud"]).gather(np.arange(items) % 2)
    return Dataset.from_frame(
        {"user": _user_ids(user), "item": np.concatenate(item)},
        items={"item": np.arange(items), "kind": kinds},
    )


def _user_ids(numbers: np.ndarray) -> list[str]:
    return [f"u{number}" for number in numbers]


# A realistic shop log.

TASTES = 6  # dimensions of tastes and products
EVENT_TYPES = ("view", "cart", "buy")
DAYTIMES = ("morning", "noon", "evening", "night")
DEVICES = ("phone", "tablet", "desktop")
START, DAYS = 1_704_067_200, 60  # 2024-01-01 00:00 UTC
PER_SESSION = 4  # events
AT_ONCE = 4096  # events scored at a time


def shop_log(
    users: int = 300,
    items: int = 200,
    events: int = 9_000,
    *,
    promotions: bool = False,
    decides: bool = False,
    seed: int = 0,
) -> pl.DataFrame:
    """Return events in order of time: event_time, event_type, user_id, product_id, price and more.

    Choices depend on taste and popularity, and on the daytime if it `decides`. All other columns
    say nothing about the next choice: price, which identifies the product (less so with
    `promotions`: a fifth of the sales at a discount); session_id; device; daytime; shop, a
    constant; logged_ms, a copy of the time. Users buy products that they like more more often.
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
            "event_type": pl.Series(EVENT_TYPES).gather(_event_types(liked, rng)),
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
    """int64 [events]: items drawn by softmax of wants . product + popularity."""
    items = []
    for start in range(0, len(wants), AT_ONCE):
        scores = wants[start : start + AT_ONCE] @ product.T + popularity
        # The largest score with Gumbel noise is a draw by softmax.
        items.append(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1))
    return np.concatenate(items)


def _zipf(count: int, exponent: float) -> np.ndarray:
    chance = (1.0 + np.arange(count)) ** -exponent
    return chance / chance.sum()


def _event_types(liked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """int64 [events]: 0, 1 or 2 (view, cart, buy), higher for items that are liked more."""
    want = (liked - liked.mean()) / liked.std() + rng.standard_normal(len(liked))
    return (want > 1.2).astype(np.int64) + (want > 2.2)


def _sessions(user: np.ndarray) -> list[str]:
    """Return session ids: a few consecutive events of a user each."""
    events = pl.DataFrame({"user": user})
    number = events.select(pl.int_range(pl.len()).over("user")).to_series().to_list()
    return [f"{u:x}-{n // PER_SESSION:x}" for u, n in zip(user.tolist(), number)]
