"""Generated data with a known answer: logs of a shop, and tiny sets for tests of models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.errors import OptionError

TASTES = 6  # dimensions of tastes and products
EVENT_TYPES = ("view", "cart", "buy")
DAYTIMES = ("morning", "noon", "evening", "night")
DEVICES = ("phone", "tablet", "desktop")
START, DAYS = 1_704_067_200, 60  # 2024-01-01 00:00 UTC
PER_SESSION = 4  # events
AT_ONCE = 4096  # events scored at a time
SLOT = 7_200  # seconds; a user begins at most one session in each
# How likely a session begins in each of the twelve slots of a day, midnight first.
BUSY = np.array([3, 1, 1, 3, 6, 7, 9, 8, 8, 10, 12, 8]) / 76
LONGEST = 10  # choices in a session
PAUSE = (8, 90)  # seconds between two events of a session: at least and at most


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
    constant; logged_ms, a copy of the time. The more a user likes a product, the more often the
    event is a cart or buy.
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
            "event_time": _time_text(seconds),
            "event_type": pl.Series(EVENT_TYPES).gather(_event_types(liked, rng)),
            "user_id": user + 1_000,
            "product_id": _product_ids(items).gather(item),
            "price": np.round(list_price[item] * discount, 2),
            "session_id": _sessions(user),
            "device": pl.Series(DEVICES).gather(rng.integers(0, len(DEVICES), events)),
            "daytime": pl.Series(DAYTIMES).gather(daytime),
            "shop": ["web"] * events,
            "logged_ms": seconds * 1_000 + 250,
        }
    )


def session_log(
    users: int = 600, items: int = 300, events: int = 20_000, *, habit: float = 0.5, seed: int = 0
) -> pl.DataFrame:
    """Return events in order of time: event_time, user_id, session_id, product_id, price.

    Each product has one follower. Within a session, the follower comes next with chance `habit`;
    all other choices depend on taste and popularity. No product comes twice in a row in a session.
    Right answer: the follower of the session's last product.
    """
    _check_share("habit", habit)
    rng = np.random.default_rng(seed)
    shop, visits = _shop(users, items, rng), _visits(users, events, rng)
    follower = _followers(items, rng)
    item = _walk(shop, visits, rng, follower=follower, habit=habit)
    return _log(shop, visits, item, _seconds(visits, rng), "session_id")


def daytime_log(
    users: int = 600, items: int = 300, events: int = 20_000, *, pull: float = 2.0, seed: int = 0
) -> pl.DataFrame:
    """Return events in order of time: event_time, user_id, product_id, price.

    Each product is chosen most often at one hour of the day, and least often twelve hours later.
    `pull` is the weight of this effect beside taste and popularity, 0 for none. The hour is in the
    timestamp (UTC) only. Right answer: the products whose hours are near the hour of the event.
    """
    rng = np.random.default_rng(seed)
    shop, visits = _shop(users, items, rng), _visits(users, events, rng)
    seconds = _seconds(visits, rng)
    angle = 2 * np.pi * (seconds % 86_400) / 86_400
    best = rng.uniform(0, 2 * np.pi, items)
    daily = np.stack([np.cos(angle), np.sin(angle)], 1)  # its product with `hours`: cos(difference)
    hours = pull * np.stack([np.cos(best), np.sin(best)], 1)
    item = _walk(shop, visits, rng, daily=daily, hours=hours)
    return _log(shop, visits, item, seconds)


def purchase_log(
    users: int = 600,
    items: int = 300,
    events: int = 20_000,
    *,
    repeats: float = 0.25,
    seed: int = 0,
) -> pl.DataFrame:
    """Return the columns of `session_log` and event_type: chains of view, cart and buy.

    A user views a product, may put it into the cart and may then buy it, within three minutes. The
    share `repeats` (at most 0.6) of all events repeat the product of the event before in their
    session: two thirds of them are of type cart, one third buy, mostly of products that the user
    likes. Views depend on taste and popularity. Right answer: the product of the last event may
    come again at once. The history predicts nothing else.
    """
    _check_share("repeats", repeats, most=0.6)
    rng = np.random.default_rng(seed)
    again = round(events * repeats)
    shop, views = _shop(users, items, rng), _visits(users, events - again, rng)
    item = _walk(shop, views, rng)
    liked = (shop.taste[views.user] * shop.product[item]).sum(1) + rng.gumbel(size=len(item))
    rank = np.argsort(np.argsort(-liked))
    bought = again // 3
    length = 1 + (rank < again - bought).astype(np.int64) + (rank < bought)
    chain = _Visits(*(np.repeat(column, length) for column in views))
    stage = np.arange(len(chain.user)) - np.repeat(np.cumsum(length) - length, length)
    return _log(shop, chain, np.repeat(item, length), _seconds(chain, rng), "session_id", stage)


class _Shop(NamedTuple):
    """What choices depend on: taste [users, k], product [items, k], popularity [items]; and price
    [items]."""

    taste: np.ndarray
    product: np.ndarray
    popularity: np.ndarray
    price: np.ndarray


class _Visits(NamedTuple):
    """Choices by session: user [choices], session [choices], start [choices] in seconds."""

    user: np.ndarray
    session: np.ndarray
    start: np.ndarray


def _shop(users: int, items: int, rng: np.random.Generator) -> _Shop:
    taste = 1.5 * rng.standard_normal((users, TASTES))
    product = rng.standard_normal((items, TASTES)) / TASTES**0.5
    popularity = -0.8 * np.log1p(rng.permutation(items))
    return _Shop(taste, product, popularity, np.round(rng.lognormal(3, 1, items) + 0.5, 2))


def _visits(users: int, choices: int, rng: np.random.Generator) -> _Visits:
    """Draw sessions with this number of choices in all; few users have many sessions."""
    length = np.minimum(rng.geometric(0.25, choices), LONGEST)
    sessions = int(np.searchsorted(np.cumsum(length), choices)) + 1
    length = length[:sessions]
    length[-1] -= length.sum() - choices
    user = np.sort(rng.choice(users, sessions, p=_zipf(users, 0.5)))
    counts = np.bincount(user, minlength=users)
    slots = np.tile(BUSY, DAYS) / DAYS
    if counts.max() > len(slots):
        raise OptionError(
            f"users must be more than {users}: one would have {counts.max():,} sessions "
            f"in {DAYS} days"
        )
    chosen = [np.sort(rng.choice(len(slots), n, replace=False, p=slots)) for n in counts if n]
    phase = rng.integers(0, SLOT, users)  # else all sessions would begin in even hours
    start = START + SLOT * np.concatenate(chosen) + phase[user]
    return _Visits(*(np.repeat(column, length) for column in (user, np.arange(sessions), start)))


def _seconds(visits: _Visits, rng: np.random.Generator) -> np.ndarray:
    """Return the times of events, with a pause after each: int64 [events]."""
    pause = np.clip(rng.exponential(40, len(visits.user)), *PAUSE).astype(np.int64)
    later = np.cumsum(pause)
    first = np.flatnonzero(np.diff(visits.session, prepend=-1))
    begin = np.repeat(later[first], np.diff([*first, len(later)]))
    return visits.start + later - begin


def _followers(items: int, rng: np.random.Generator) -> np.ndarray:
    """Return the item that follows each, all in one ring in random order: int64 [items]."""
    ring = rng.permutation(items)
    follower = np.empty(items, np.int64)
    follower[ring] = np.roll(ring, -1)
    return follower


def _walk(
    shop: _Shop,
    visits: _Visits,
    rng: np.random.Generator,
    follower: np.ndarray | None = None,
    habit: float = 0.0,
    daily: np.ndarray | None = None,
    hours: np.ndarray | None = None,
) -> np.ndarray:
    """Return the items chosen, none twice in a row in a session: int64 [choices].

    daily [choices, 2] times hours [items, 2] is added to the scores.
    """
    user, session, _ = visits
    first = np.flatnonzero(np.diff(session, prepend=-1))
    position = np.arange(len(user)) - np.repeat(first, np.diff([*first, len(user)]))
    by_habit = (rng.random(len(user)) < habit) & (position > 0)
    item = np.full(len(user), -1)
    wants, product = shop.taste[user], shop.product
    if daily is not None and hours is not None:
        wants, product = np.hstack([wants, daily]), np.hstack([product, hours])
    for step in range(int(position.max()) + 1):
        rows = np.flatnonzero(position == step)
        before = item[rows - 1] if step else None
        item[rows] = _chosen(wants[rows], product, shop.popularity, rng, before)
        if before is not None and follower is not None:
            item[rows] = np.where(by_habit[rows], follower[before], item[rows])
    return item


def _log(
    shop: _Shop,
    visits: _Visits,
    item: np.ndarray,
    seconds: np.ndarray,
    session: str | None = None,
    event_type: np.ndarray | None = None,
) -> pl.DataFrame:
    """Return the frame of a log in order of time, with the columns of a shop's file."""
    columns = {
        "event_time": _time_text(seconds),
        "event_type": None if event_type is None else pl.Series(EVENT_TYPES).gather(event_type),
        "user_id": visits.user + 1_000,
        session or "": [f"s{n:06x}" for n in visits.session] if session else None,
        "product_id": _product_ids(len(shop.product)).gather(item),
        "price": shop.price[item],
    }
    frame = pl.DataFrame({name: values for name, values in columns.items() if values is not None})
    return frame[np.argsort(seconds, kind="stable")]


def _check_share(name: str, share: float, most: float = 1.0) -> None:
    if not 0 <= share <= most:
        raise OptionError(f"{name} must be a share from 0 to {most:g}, not {share!r}")


def _time_text(seconds: np.ndarray) -> pl.Series:
    return (
        pl.Series(seconds * 1_000_000).cast(pl.Datetime("us")).dt.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def _product_ids(items: int) -> pl.Series:
    return pl.Series([f"sku-{n:05d}" for n in range(items)])


def _chosen(
    wants: np.ndarray,
    product: np.ndarray,
    popularity: np.ndarray,
    rng: np.random.Generator,
    without: np.ndarray | None = None,
) -> np.ndarray:
    """Draw items by softmax of wants . product + popularity: int64 [events].

    without [events]: the item that each event does not draw.
    """
    items = []
    for start in range(0, len(wants), AT_ONCE):
        scores = wants[start : start + AT_ONCE] @ product.T + popularity
        if without is not None:
            scores[np.arange(len(scores)), without[start : start + AT_ONCE]] = -np.inf
        # The largest score with Gumbel noise is a draw by softmax.
        items.append(np.argmax(scores + rng.gumbel(size=scores.shape), axis=1))
    return np.concatenate(items)


def _zipf(count: int, exponent: float) -> np.ndarray:
    chance = (1.0 + np.arange(count)) ** -exponent
    return chance / chance.sum()


def _event_types(liked: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return 0, 1 or 2 (view, cart, buy), higher for items that are liked more: int64 [events]."""
    want = (liked - liked.mean()) / liked.std() + rng.standard_normal(len(liked))
    return (want > 1.2).astype(np.int64) + (want > 2.2)


def _sessions(user: np.ndarray) -> list[str]:
    """Return session ids: a few consecutive events of a user each."""
    events = pl.DataFrame({"user": user})
    number = events.select(pl.int_range(pl.len()).over("user")).to_series().to_list()
    return [f"{u:x}-{n // PER_SESSION:x}" for u, n in zip(user.tolist(), number)]


# Tiny data sets. Users are 'u0', 'u1', ...; items are integers.


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
