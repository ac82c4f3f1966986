"""Users who choose an item again: the protocol that suits them, and what a number then means."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.errors import named
from fmpair.evaluation.protocol import Protocol

MANY = 0.1  # share of the events that repeat a user's item, from which repeats are what users do


def repeat_share(*parts: Dataset) -> float:
    """The share of the events of all parts whose user and item had an event before."""
    events = sum(len(part) for part in parts)
    if not events:
        return 0.0
    first = parts[0]
    if all(part.users is first.users and part.items is first.items for part in parts):
        user, item = (
            np.concatenate([getattr(p, side) for p in parts]) for side in ("user", "item")
        )
        distinct = pl.Series(user.astype(np.int64) << 32 | item).n_unique()
    else:
        ids = [part.frame().select("user", "item") for part in parts]
        distinct = pl.concat(ids, how="vertical_relaxed").n_unique()
    return 1 - distinct / events


def usual_protocol(*parts: Dataset) -> Protocol:
    """Full ranking of every event; seen items are left out unless users come back to them."""
    return Protocol(seen="none" if repeat_share(*parts) > MANY else "train")


def why_usual(*parts: Dataset) -> str:
    """The reason for the usual protocol, in a sentence."""
    share = repeat_share(*parts)
    told = f"{share:.0%} of the events repeat an item of their user"
    if share > MANY:
        return f"{told}, so seen items are ranked too ({named('seen', 'none')})"
    return f"{told}, so seen items are left out of the ranking ({named('seen', 'train')})"


def repeated(train: Dataset, test: Dataset) -> int:
    """How many test events have an item that their user had in training."""
    user = train.users.numbers(test.users.ids)[test.user]
    item = train.items.numbers(test.items.ids)[test.item]
    key = np.where((user >= 0) & (item >= 0), user.astype(np.int64) << 32 | item, -1)
    return int(np.isin(key, train.user.astype(np.int64) << 32 | train.item).sum())


def meaning(again: int, events: int, protocol: Protocol) -> str:
    """What a number means where so many test events repeat those of training; empty for none."""
    if not again:
        return ""
    told = f"{again:,} of {events:,} test events ({again / events:.0%}) repeat an item that their "
    return f"{told}user had in training. {_means(protocol)}"


def misleading(again: int, events: int, protocol: Protocol) -> bool:
    """Whether so many repeats make a number higher than what a user meets, by much."""
    left_out = protocol.seen in ("train", "train+test") and protocol.relevant != "new"
    return left_out and again > MANY * events


def _means(protocol: Protocol) -> str:
    if protocol.relevant == "new":
        return "Only the others count: the number says how well items new to a user are found."
    if protocol.seen == "none":
        return (
            "All items are ranked: the number says how well the next event is foretold, repeats "
            f"included. {named('relevant', 'new')} asks for items new to a user only."
        )
    return (
        "Of a user's seen items only the repeated one is ranked, which makes it easy to find: the "
        f"number is higher than what a user meets. Write {named('seen', 'none')} instead, which "
        f"ranks all items, or {named('relevant', 'new')}, which asks for new ones only."
    )
