"""How to evaluate: what is ranked for whom, among which candidates, and what is relevant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl

from fmpair.checks import one_of, whole
from fmpair.data import Dataset
from fmpair.data.frame import to_polars
from fmpair.errors import OptionError, UnknownError, named, unknown
from fmpair.metrics import ERRORS, LISTS, Metric

UNITS = ("interaction", "user", "user-context")
CANDIDATES = ("all", "train", "file", "uniform", "popularity", "first")
SEEN = ("none", "train", "train+test", "context")
RELEVANT = ("all", "distinct", "new", "next")
AFTER = ("user", "all")
SHORT = {"uniform": "uni", "popularity": "pop", "first": "first"}


@dataclass(frozen=True, eq=False)
class Protocol:
    """What a result depends on beside the model and the data; equal ids are comparable.

    unit: one list per test interaction, per user, or per user and context.
    candidates: what is ranked beside the relevant items: all items; those of the training events;
        `items`; or n of the training items, sampled uniformly or by popularity (number of events),
        or the first n in the order of the training events (WrapRec).
    items: for candidates 'file': ids for everyone, or a frame (user, item) with each user's own.
    seen: the user's items that are excluded: none, those in training, those in training and
        test, or those in training in the same context. Relevant items always stay.
    relevant: the relevant items of a unit: those of all its test events; for the unit interaction
        also 'distinct', each pair of user and item once; or 'new', of these only pairs that
        training does not have; or 'next', of these only the first in time of each user.
    after: refuse to evaluate unless every test event comes after the training events, those of its
        own user ('user') or of everybody ('all'): nobody may learn from the future. None: whatever
        the times are.
    gain: the column of the test events that grades relevance, null: 1; events graded 0 or less
        are not relevant.
    domain: evaluate in this domain only: only test events of it are relevant, and only
        items with an event of it, in training or test, are ranked. The model may know more.
    seed: of the draws, which are the same for every model.
    """

    unit: str = "interaction"
    candidates: str = "all"
    n: int = 1000
    items: Any = field(default=None, repr=False)
    seen: str = "train"
    relevant: str = "all"
    gain: str | None = None
    seed: int = 0
    domain: str | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        one_of("unit", self.unit, UNITS)
        one_of("candidates", self.candidates, CANDIDATES)
        one_of("seen", self.seen, SEEN)
        one_of("relevant", self.relevant, RELEVANT)
        if self.after is not None:
            one_of("after", self.after, AFTER)
        whole("n", self.n, 1)
        whole("seed", self.seed, 0)
        if (self.items is not None) != (self.candidates == "file"):
            raise OptionError(
                f"items (the ids to rank) go with {named('candidates', 'file')}, and only with it"
            )

    @property
    def drawn(self) -> bool:
        """Whether candidates are a sample of the items, so that metrics need a label."""
        return self.candidates in SHORT

    @property
    def timed(self) -> bool:
        """Whether events need times, or an order."""
        return self.after is not None or self.relevant == "next"

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The candidates of 'file': a column item, and user where each user has their own."""
        if hasattr(self.items, "columns"):
            frame = to_polars(self.items)
            names = [name for name in ("user", "item") if name in frame.columns]
            if "item" not in names:
                raise OptionError("a frame of items to rank needs a column 'item'")
            return frame.select(names)
        if isinstance(self.items, str) or not isinstance(self.items, Iterable):
            raise OptionError(f"items must be a sequence of ids or a frame, not {self.items!r}")
        return pl.DataFrame({"item": list(self.items)})

    @cached_property
    def label(self) -> str:
        """The candidates in short, such as uni1000."""
        if self.drawn:
            return f"{SHORT[self.candidates]}{self.n}"
        if self.candidates == "file":
            return f"file-{sha256(self.listed.write_csv().encode()).hexdigest()[:8]}"
        return self.candidates

    @property
    def id(self) -> str:
        """A short string that differs where the results of two protocols are not comparable."""
        parts = [self.unit, self.label, f"seen={self.seen}"]
        if self.relevant != "all":
            parts.append(f"relevant={self.relevant}")
        if self.gain is not None:
            parts.append(f"gain={self.gain}")
        if self.domain is not None:
            parts.append(f"domain={self.domain}")
        if self.after is not None:
            parts.append(f"after={self.after}")
        if self.candidates in ("uniform", "popularity"):
            parts.append(f"seed{self.seed}")
        return "/".join(parts)

    def name(self, metric: object) -> str:
        """The metric as results name it: `recall@10`, or `recall@10[uni1000]` among a sample."""
        return str(metric) if self.candidates in ("all", "train") else f"{metric}[{self.label}]"

    def lacks(self, metric: Metric) -> str | None:
        """What the metric would need of the protocol, None where it is defined."""
        if metric.name in ERRORS and self.unit != "interaction":
            return named("unit", "interaction")
        if metric.name in LISTS and self.label not in ("all", "train"):
            return f"{named('candidates', 'all')} or train"
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Protocol) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


# Presets: full ranking by interaction, by user, or by user and context (the last as with Frappe
# in the split of CFM), the paper's own, and what WrapRec, which made the paper's numbers, did; each
# user's next new item, where the last events test, and where all events from a moment on do.
PRESETS: dict[str, Protocol] = {
    "full": Protocol(),
    "full-user": Protocol(unit="user"),
    "full-context": Protocol(unit="user-context", seen="context"),
    "one-plus-random": Protocol(candidates="uniform", n=1000, seen="train+test"),
    "legacy": Protocol(candidates="first", n=1000, relevant="distinct", seen="train+test"),
    "next-item": Protocol(relevant="next", after="user"),
    "next-item-in-time": Protocol(relevant="next", after="all"),
}


def preset(name: str) -> Protocol:
    """The protocol of that name."""
    if name not in PRESETS:
        raise UnknownError(unknown("protocol", name, PRESETS))
    return PRESETS[name]


# Users who choose an item again: the protocol that suits them, and what a number then means.


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
