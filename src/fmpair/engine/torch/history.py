"""What came before the events of a minibatch, on a device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from fmpair.engine.contract import History
from fmpair.engine.torch.rows import Bags, DeviceRows, merged, on_device, taken


class DeviceHistory(NamedTuple):
    """`History` on a device. features: per item its query features; None where the features
    from `first` on are the items, one each. shared: they have the items' vectors. repeats: whether
    a time line has an item twice.
    """

    start: torch.Tensor
    item: torch.Tensor
    until: torch.Tensor
    since: torch.Tensor | None
    weight: torch.Tensor
    features: DeviceRows | None
    first: int
    items: int
    shared: bool
    repeats: bool


def history_of(history: History, items: int, device: torch.device) -> DeviceHistory:
    """The history, copied."""

    def moved(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(array)).to(device)

    rows, lengths = history.rows, np.diff(history.start)
    first = int(rows.column[0]) if len(rows.column) else 0
    plain = len(rows.column) == items and bool((rows.value == 1).all())
    plain = plain and np.array_equal(rows.column, np.arange(first, first + items))
    pairs = np.repeat(np.arange(len(lengths)), lengths) * items + history.item
    return DeviceHistory(
        moved(history.start),
        moved(history.item),
        moved(history.until),
        moved(history.since) if len(history.since) else None,
        moved(history.weight),
        None if plain else on_device(rows, device),
        first,
        items,
        history.shared,
        len(np.unique(pairs)) < len(pairs),
    )


def before(history: DeviceHistory, user: torch.Tensor, event: torch.Tensor) -> Bags:
    """The items before each event, by weight; beyond a time line's begin the weight is 0."""
    until = history.until[event].long()
    first = history.start[user] if history.since is None else history.since[event].long()
    step = torch.arange(1, len(history.weight) + 1, device=event.device)
    place = until[:, None] - step
    inside = place >= first[:, None]
    item = history.item[place.clamp(min=0)].long()
    return Bags(item, history.weight * inside)


def features_before(history: DeviceHistory, earlier: Bags) -> Bags:
    """The query features of earlier items, each feature once in a bag."""
    if history.features is None:
        found = earlier._replace(column=earlier.column + history.first)
        return merged(found) if history.repeats else found
    rows = history.features._replace(width=max(history.features.width, history.features.longest))
    own = taken(rows, earlier.column.flatten())
    shape = (len(earlier.column), -1)
    value = own.value * earlier.value.flatten()[:, None]
    return merged(Bags(own.column.reshape(shape), value.reshape(shape)))
