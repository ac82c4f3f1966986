"""Tiny data sets with a known answer. Users are 'u0', 'u1', ...; items are whole numbers."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset


def day_and_night(users: int = 40, items: int = 20, seed: int = 0) -> Dataset:
    """Even items are chosen by day, odd ones by night; each user has a random half of all items.

    Right answer: with context time='day' every even item ranks above every odd one, by night the
    other way round, for every user. From 50 items on, `time` would be taken for an attribute of
    the items.
    """
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.permutation(items)[: items // 2] for _ in range(users)])
    user = np.repeat(np.arange(users), items // 2)
    time = pl.Series(["day", "night"]).gather(item % 2)
    return Dataset.from_frame({"user": _user_ids(user), "item": item, "time": time})


def opposite_tastes(users: int = 40, items: int = 40, seed: int = 0) -> Dataset:
    """Even users choose even items by day and odd ones by night, odd users the other way round.

    Each event is one of a random half of the items in each context. Right answer: with context
    time='day' every even item ranks above every odd one for even users, and below for odd ones. No
    sum of what the user, the context and the item say in pairs can know.
    """
    rng = np.random.default_rng(seed)
    half = items // 4
    user, night = np.divmod(np.arange(users * 2), 2)
    kind = (user + night) % 2
    item = np.concatenate([rng.permutation(items // 2)[:half] * 2 + one for one in kind])
    time = pl.Series(["day", "night"]).gather(np.repeat(night, half))
    return Dataset.from_frame(
        {"user": _user_ids(np.repeat(user, half)), "item": item, "time": time}
    )


def two_tastes(users: int = 40, items: int = 20) -> Dataset:
    """Even users choose even items, odd users odd ones; each lacks a single item of its half.

    Right answer: the first unseen item of user n is `left_out(n, items)`.
    """
    user, item = np.divmod(np.arange(users * items), items)
    chosen = (user % 2 == item % 2) & (item != left_out(user, items))
    return Dataset.from_frame({"user": _user_ids(user[chosen]), "item": item[chosen]})


def left_out(user: np.ndarray, items: int = 20) -> np.ndarray:
    """The one item of its own half that user number n of `two_tastes` has not chosen."""
    return user // 2 % (items // 2) * 2 + user % 2


def cold_items(users: int = 40, items: int = 20, cold: int = 6, seed: int = 0) -> Dataset:
    """Even users choose 'calm' items (even), odd users 'loud' ones (odd); the last are unseen.

    The item table gives each item's `kind`; the `cold` last items have no event.
    Right answer: among the cold items each user ranks those of its own kind first; a model
    without item attributes cannot know.
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


# The log of a shop as shops write it, of which it is known what decides.


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
