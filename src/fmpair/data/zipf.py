"""Many events at little cost: popular items and busy users, no taste and no context."""

from __future__ import annotations

import numpy as np

from fmpair.capacity import check_memory
from fmpair.errors import OptionError, named

ITEM_EXPONENT = 0.8  # the item of popularity rank r is drawn in proportion to r ** -0.8
ACTIVITY_SPREAD = 1.0  # standard deviation of the logarithm of a user's activity


def zipf_events(
    users: int, items: int, events: int, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """User and item numbers of events, int32 [events] each, ordered by user; pairs may repeat.

    Item popularity follows a power law, user activity is log-normal; numbers say nothing of either.
    """
    for name, size in (("users", users), ("items", items), ("events", events)):
        if size < 1:
            raise OptionError(f"{named(name)} is {size}: it must be at least 1")
    shape = f"{users:,} users, {items:,} items and {events:,} events"
    needed = 32 * (users + items) + 16 * events
    check_memory("generated data", shape, needed, None, "ask for fewer of them")
    rng = np.random.Generator(np.random.PCG64(seed))
    activity = np.exp(ACTIVITY_SPREAD * rng.standard_normal(users))
    popularity = np.arange(1, items + 1) ** -ITEM_EXPONENT
    user = _owners(activity, events, rng)
    item = _owners(rng.permutation(popularity), events, rng)
    rng.shuffle(item)  # with one side shuffled, the two are independent
    return user, item


def _owners(weights: np.ndarray, events: int, rng: np.random.Generator) -> np.ndarray:
    """int32 [events], sorted: numbers drawn in proportion to weights.

    Drawing how often each number occurs costs far less than drawing every event.
    """
    times = rng.multinomial(events, weights / weights.sum())
    return np.repeat(np.arange(len(weights), dtype=np.int32), times)
