"""Synthetic data: users who choose books, music, films and games in context.

`make` knows tastes, popularity and the effect of each situation, and so the true probability of
every choice. A user has the same taste in all four domains. `zipf_events` makes many events
cheaply, with popularity and activity only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.checks import check_memory
from fmpair.data.dataset import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, UnknownError, named, unknown
from fmpair.threads import check_process

DAYTIMES = ("night", "morning", "afternoon", "evening")  # six hours each, from midnight
PLACES = ("home", "work", "travel")
SITUATIONS = len(DAYTIMES) * len(PLACES)  # situation = daytime * len(PLACES) + place
BLOCK = 1 << 21  # scores in memory at a time: 16 MB


@dataclass(frozen=True)
class Oracle:
    """The true choice model, an upper bound for every ranking.

    Probability of an item = softmax over the catalogue of (user + situation) . item + constant.

    All float64: user_vectors [users, k], situation_vectors [SITUATIONS, k], item_vectors
    [items, k], item_constants [items], situation_chances [SITUATIONS], adding up to 1.
    """

    user_vectors: np.ndarray
    situation_vectors: np.ndarray
    item_vectors: np.ndarray
    item_constants: np.ndarray
    situation_chances: np.ndarray

    def chances(self, user: np.ndarray, situation: np.ndarray) -> np.ndarray:
        """float64 [n, items]: the probability of each item for n users in n situations."""
        queries = self.user_vectors[user] + self.situation_vectors[situation]
        scores = queries @ self.item_vectors.T + self.item_constants
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def scores(self, user: np.ndarray, context: pl.DataFrame | None = None) -> np.ndarray:
        """float32 [n, items]: the true log-probability of each item for n user numbers.

        context: n rows with columns daytime and place. For a missing value or column the
        probabilities are averaged over its possible values, given the other column. Without
        context these are the best scores of a model without context.
        """
        user = np.asarray(user)
        if len(user) and not 0 <= user.min() <= user.max() < len(self.user_vectors):
            raise UnknownError(f"user numbers must be 0 to {len(self.user_vectors) - 1}")
        if context is not None and context.height != len(user):
            raise DataError(
                f"{len(user)} users but {context.height} rows of context: give one row per user"
            )
        possible = self._possible(len(user), context)
        out = np.empty((len(user), len(self.item_vectors)), np.float32)
        for part in blocks(len(user), SITUATIONS * out.shape[1]):
            row, situation = np.nonzero(possible[part])
            chances = self.chances(user[part][row], situation)
            chances *= possible[part][row, situation][:, None]
            first = np.flatnonzero(np.diff(row, prepend=-1))
            out[part] = np.log(np.add.reduceat(chances, first, axis=0))
        return out

    def _possible(self, count: int, context: pl.DataFrame | None) -> np.ndarray:
        """float64 [count, SITUATIONS]: the probability of each situation, given the context."""
        fits = np.ones((count, len(DAYTIMES), len(PLACES)), bool)
        if context is not None and "daytime" in context.columns:
            fits &= _fitting(context["daytime"], DAYTIMES)[:, :, None]
        if context is not None and "place" in context.columns:
            fits &= _fitting(context["place"], PLACES)[:, None, :]
        possible = fits.reshape(count, SITUATIONS) * self.situation_chances
        return possible / possible.sum(axis=1, keepdims=True)


def blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield consecutive slices of rows, each with about BLOCK numbers at `width` per row."""
    step = max(1, BLOCK // width)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def _fitting(values: pl.Series, names: tuple[str, ...]) -> np.ndarray:
    """bool [values, names]: whether each value equals the name; True if the value is missing."""
    text = values.cast(pl.String)
    wrong = text.filter(text.is_not_null() & ~text.is_in(names))
    if len(wrong):
        raise UnknownError(unknown(values.name, wrong[0], names))
    fits = ((pl.col("value") == name).fill_null(True).alias(name) for name in names)
    return text.to_frame("value").select(fits).to_numpy()


# The generated world.

DOMAINS = ("books", "music", "films", "games")
ID_PREFIXES = ("book", "album", "film", "game")
TYPICAL_MINUTES = np.array([240, 45, 110, 70])  # by domain
SEGMENTS = ("student", "worker", "parent", "retired")
GENRES = ("comedy", "crime", "fantasy", "history", "romance", "science")
TOPICS = ("animals", "cities", "cooking", "heroes", "love", "music", "mystery", "nature", "space",
          "sports", "travel", "war")  # fmt: skip

# Joint probability of daytime (night, morning, afternoon, evening) and place (home, work, travel).
SITUATION_CHANCES = np.array([[9, 3, 3], [11, 9, 8], [10, 12, 5], [19, 5, 6]]) / 100
LONGER_BY_DAYTIME = np.array([0.2, -0.8, -0.2, 0.8])  # effect of an item's length

DIMENSIONS = 6  # length of taste vectors
ITEM_SIZE = DIMENSIONS**0.5  # so that an effect of 1 has standard deviation 1 over the items
POPULARITY_EXPONENT = 0.62
TASTE_PULL = 2.4
DAYTIME_PULL = 1.7
PLACE_PULL = 1.1
ACTIVITY_SPREAD = 0.7
MISSING = 0.03
START, DAYS = 1_704_067_200, 90  # 2024-01-01 00:00 UTC
QUARTER = 6 * 3600  # seconds of one daytime
ID_BYTES, EVENT_BYTES = 600, 200  # largest memory per user or item, and per event


@dataclass(frozen=True)
class World:
    """Generated events and the model that generated them, with the same numbering."""

    data: Dataset
    oracle: Oracle

    def scores(self, user: np.ndarray, context: pl.DataFrame | None = None) -> np.ndarray:
        """float32 [n, items]: true log-probabilities, see `Oracle.scores`."""
        return self.oracle.scores(user, context)


def make(users: int = 800, items: int = 600, events: int = 40_000, seed: int = 0) -> World:
    """Generate a world of the given size; a seed gives the same world on every machine.

    Events are independent draws in order of time, so repeats do not depend on earlier choices. A
    few context values and attributes are missing, although they influenced the choice. The
    timestamp still reveals the daytime, but the oracle does not use it.
    """
    check_process()
    check_size(users, items, events)
    # Everything is drawn in this order from one stream and computed in float64: the last bits,
    # which differ between machines, change a choice in fewer than one of ten thousand worlds.
    rng = np.random.Generator(np.random.PCG64(seed))
    topics = rng.standard_normal((len(TOPICS), DIMENSIONS))
    user_table, user_vectors = _make_users(users, topics, rng)
    item_table, item_vectors = _make_items(items, topics, rng)
    constants = -POPULARITY_EXPONENT * np.log1p(rng.permutation(items))
    oracle = Oracle(
        user_vectors, _situations(rng), item_vectors, constants, SITUATION_CHANCES.ravel()
    )
    user, item, columns = _make_events(oracle, events, rng)
    data = Dataset(
        users=Vocabulary(pl.Series(_numbered(["user"], users))),
        items=Vocabulary(pl.Series(_numbered(ID_PREFIXES, items))),
        user=user,
        item=item,
        columns=columns,
        context=("daytime", "place"),
        user_table=user_table,
        item_table=item_table,
    )
    return World(data, oracle)


def check_size(users: int = 800, items: int = 600, events: int = 40_000) -> None:
    """Refuse a world that is empty, or that does not fit into memory."""
    _check_size(users, items, events, (users + items) * ID_BYTES + events * EVENT_BYTES)


def _check_size(users: int, items: int, events: int, needed: int) -> None:
    for name, size in (("users", users), ("items", items), ("events", events)):
        if size < 1:
            raise OptionError(f"{named(name)} must be at least 1, not {size}")
    shape = f"{users:,} users, {items:,} items and {events:,} events"
    check_memory("generated data", shape, needed, None, "ask for fewer of them")


def _make_users(
    count: int, topics: np.ndarray, rng: np.random.Generator
) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the user table and vectors [count, DIMENSIONS + 1]; the last (length) is 0."""
    age = rng.integers(16, 80, count)
    segment = rng.integers(0, len(SEGMENTS), count)
    interests, interest_vectors = _pick_topics(count, topics, rng)
    vectors = rng.standard_normal((count, DIMENSIONS)) + interest_vectors
    vectors += 0.6 * rng.standard_normal((len(SEGMENTS), DIMENSIONS))[segment]
    vectors += np.outer((age - 48) / 20, 0.6 * rng.standard_normal(DIMENSIONS))
    table = pl.DataFrame({"age": age, "segment": _names(SEGMENTS, segment), "interests": interests})
    return _with_gaps(table, rng), np.pad(TASTE_PULL * _unit(vectors), ((0, 0), (0, 1)))


def _make_items(
    count: int, topics: np.ndarray, rng: np.random.Generator
) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the item table and vectors [count, DIMENSIONS + 1]; the last is the length."""
    genre = rng.integers(0, len(GENRES), count)
    tags, tag_vectors = _pick_topics(count, topics, rng)
    vectors = rng.standard_normal((count, DIMENSIONS)) + tag_vectors
    vectors += rng.standard_normal((len(GENRES), DIMENSIONS))[genre]
    typical = TYPICAL_MINUTES[np.arange(count) % len(DOMAINS)]
    minutes = np.rint(typical * np.exp(0.4 * rng.standard_normal(count))).astype(np.int64)
    length = (np.log(minutes) - np.log(TYPICAL_MINUTES).mean()) / 0.75  # about standardised
    table = pl.DataFrame({"genre": _names(GENRES, genre), "tags": tags, "length": minutes})
    return _with_gaps(table, rng), np.column_stack([ITEM_SIZE * _unit(vectors), length])


def _situations(rng: np.random.Generator) -> np.ndarray:
    """float64 [SITUATIONS, DIMENSIONS + 1]: the effect of a daytime plus that of a place."""
    daytimes = DAYTIME_PULL * _unit(rng.standard_normal((len(DAYTIMES), DIMENSIONS)))
    places = PLACE_PULL * _unit(rng.standard_normal((len(PLACES), DIMENSIONS)))
    both = daytimes[:, None, :] + places[None, :, :]
    length = np.repeat(LONGER_BY_DAYTIME, len(PLACES))
    return np.column_stack([both.reshape(SITUATIONS, DIMENSIONS), length])


def _make_events(
    oracle: Oracle, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, pl.DataFrame]:
    """Return user and item numbers, int32 [count] each, and event columns, in order of time."""
    activity = np.exp(ACTIVITY_SPREAD * rng.standard_normal(len(oracle.user_vectors)))
    user = _draw(activity, rng.random(count))
    situation = _draw(oracle.situation_chances, rng.random(count))
    daytime, place = np.divmod(situation, len(PLACES))
    day, second = rng.integers(0, DAYS, count), rng.integers(0, QUARTER, count)
    timestamp = START + 86_400 * day + QUARTER * daytime + second
    item = _choose(oracle, user, situation, rng.random(count))
    context = pl.DataFrame({"daytime": _names(DAYTIMES, daytime), "place": _names(PLACES, place)})
    columns = pl.DataFrame({"timestamp": timestamp, "domain": _names(DOMAINS, item % len(DOMAINS))})
    columns = columns.hstack(_with_gaps(context, rng))
    order = np.argsort(timestamp, kind="stable")
    return user[order].astype(np.int32), item[order].astype(np.int32), columns[order]


def _choose(
    oracle: Oracle, user: np.ndarray, situation: np.ndarray, point: np.ndarray
) -> np.ndarray:
    """int64 [events]: the item at each point of [0, 1) of its query's cumulative probability."""
    queries, query = np.unique(user * SITUATIONS + situation, return_inverse=True)
    order = np.argsort(query, kind="stable")
    starts = np.searchsorted(query[order], np.arange(len(queries) + 1))
    chosen = np.empty(len(user), np.int64)
    items = len(oracle.item_vectors)
    for part in blocks(len(queries), items):
        cumulative = oracle.chances(*np.divmod(queries[part], SITUATIONS)).cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        # Shift row r to (r, r + 1], so that one search covers all rows of the block.
        cumulative += np.arange(len(cumulative))[:, None]
        events = order[starts[part.start] : starts[part.stop]]
        row = query[events] - part.start
        index = np.searchsorted(cumulative.ravel(), row + point[events], side="right")
        chosen[events] = np.minimum(index - row * items, items - 1)
    return chosen


def _draw(weights: np.ndarray, point: np.ndarray) -> np.ndarray:
    """int64 [points]: numbers drawn in proportion to weights, from points in [0, 1)."""
    cumulative = np.cumsum(weights)
    return np.searchsorted(cumulative[:-1], point * cumulative[-1], side="right")


def _pick_topics(
    count: int, topics: np.ndarray, rng: np.random.Generator
) -> tuple[pl.Series, np.ndarray]:
    """Draw one to three topics for each of `count`; return their names and summed vectors."""
    many = rng.integers(1, 4, count)
    ranks = rng.random((count, len(TOPICS))).argsort(axis=1).argsort(axis=1)
    picked = ranks < many[:, None]
    owner, topic = np.nonzero(picked)
    frame = pl.DataFrame({"owner": owner, "topic": _names(TOPICS, topic)})
    lists = frame.group_by("owner", maintain_order=True).agg("topic")["topic"]
    return lists, picked @ topics / np.sqrt(many)[:, None]


def _with_gaps(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Return the table with a few values of each column missing."""
    known = {name: pl.Series(rng.random(table.height) >= MISSING) for name in table.columns}
    return table.with_columns(pl.when(known[c]).then(pl.col(c)).alias(c) for c in table.columns)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Centre vectors, so that no effect is shared by all, and scale each to length 1."""
    centred = vectors - vectors.mean(axis=0) if len(vectors) > 1 else vectors
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def _names(names: tuple[str, ...], numbers: np.ndarray) -> pl.Series:
    return pl.Series(names).gather(numbers)


def _numbered(prefixes: tuple[str, ...] | list[str], count: int) -> list[str]:
    """Return ids such as film-042, with the prefixes in turn."""
    digits = max(3, len(str((count - 1) // len(prefixes))))
    return [f"{prefixes[n % len(prefixes)]}-{n // len(prefixes):0{digits}}" for n in range(count)]


# Many events at little cost.

ITEM_EXPONENT = 0.8  # the item of popularity rank r is drawn in proportion to r ** -0.8
ZIPF_ACTIVITY_SPREAD = 1.0  # standard deviation of the logarithm of a user's activity


def zipf_events(
    users: int, items: int, events: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return user and item numbers, int32 [events] each, ordered by user; pairs may repeat.

    Item popularity follows a power law, user activity is log-normal; both are independent of the
    numbers.
    """
    _check_size(users, items, events, 32 * (users + items) + 16 * events)
    rng = np.random.Generator(np.random.PCG64(seed))
    activity = np.exp(ZIPF_ACTIVITY_SPREAD * rng.standard_normal(users))
    popularity = np.arange(1, items + 1) ** -ITEM_EXPONENT
    user = _owners(activity, events, rng)
    item = _owners(rng.permutation(popularity), events, rng)
    rng.shuffle(item)  # makes items independent of users
    return user, item


def _owners(weights: np.ndarray, events: int, rng: np.random.Generator) -> np.ndarray:
    """int32 [events], sorted: numbers drawn in proportion to weights.

    Drawing the count of each number is much cheaper than drawing every event.
    """
    counts = rng.multinomial(events, weights / weights.sum())
    return np.repeat(np.arange(len(weights), dtype=np.int32), counts)
