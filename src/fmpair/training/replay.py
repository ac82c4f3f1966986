"""Earlier events learned again beside new ones, so that an update does not forget them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.checks import not_negative
from fmpair.data import Dataset, as_dataset
from fmpair.errors import OptionError, listing, named
from fmpair.fitted.recommender import Recommender
from fmpair.training.growth import renumbered


def with_earlier(model: Recommender, data: Dataset, replay: Any, seed: int) -> Dataset:
    """The new events, and after them the earlier ones to learn again.

    data: new events, by the numbers of the grown space. replay: how many earlier ones for each
    new one, drawn from what the model has seen; or the earlier events themselves, of known ids.
    """
    if model.space.history is not None and not (isinstance(replay, int | float) and replay == 0):
        raise OptionError(
            "what came before earlier events is not known any more, and the model learns from "
            f"histories: leave {named('replay')} out, or fit it again"
        )
    if not isinstance(replay, int | float):
        earlier = as_dataset(replay)
        for user in earlier.users.ids.gather(np.unique(earlier.user)):
            model.user_number(user)  # which names an unknown one
        for item in earlier.items.ids.gather(np.unique(earlier.item)):
            model.item_number(item)
        space = replace(model.space, users=data.users, items=data.items)
        return joined(data, renumbered(earlier, space))
    not_negative("replay", replay)
    if replay and model.space.context:
        raise OptionError(
            f"the model keeps no context of earlier events (its context is "
            f"{listing(list(model.space.context))}): give the events themselves as "
            f"{named('replay', ...)}, not how many of them"
        )
    pair = drawn(model.seen, round(replay * len(data)), seed)
    user, item = model.seen.owner[pair].astype(np.int32), model.seen.column[pair]
    return joined(data, replace(data, user=user, item=item, columns=pl.DataFrame()))


def joined(data: Dataset, more: Dataset) -> Dataset:
    """The events of both, by the same numbers; columns and tables are those of the first."""
    if not len(more):
        return data
    columns = {}
    for name in data.columns.columns:
        own = data.columns[name]
        absent = pl.repeat(1.0 if name == "weight" else None, len(more), eager=True)
        other = more.columns[name] if name in more.columns.columns else absent
        columns[name] = pl.concat([own, other.cast(own.dtype).alias(name)])
    return replace(
        data,
        user=np.concatenate([data.user, more.user]),
        item=np.concatenate([data.item, more.item]),
        columns=pl.DataFrame(columns),
    )


def drawn(seen: Rows, count: int, seed: int) -> np.ndarray:
    """int64 [count]: the pair of each of so many events, every event at most once.

    seen: the items of each user and how often; where there are fewer events, all are drawn.
    """
    ends = np.cumsum(seen.value, dtype=np.float64).astype(np.int64)
    total = int(ends[-1]) if len(ends) else 0
    event = np.random.default_rng([seed, 5]).choice(total, min(count, total), replace=False)
    return np.sort(np.searchsorted(ends, event, side="right"))
