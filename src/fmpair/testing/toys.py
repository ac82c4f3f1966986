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
