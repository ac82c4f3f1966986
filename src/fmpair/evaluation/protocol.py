"""Evaluation protocols: what is ranked for whom, among which candidates, and what is relevant.

Also the choice of a default protocol, which depends on how often users repeat items, and the notes
on what results mean under repeats.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl

from fmpair.checks import one_of, whole
from fmpair.data import Dataset
from fmpair.data.describe import MANY_REPEATS
from fmpair.data.frame import to_polars
from fmpair.errors import OptionError, UnknownError, named, unknown
from fmpair.metrics import ERRORS, LISTS, Metric

UNITS = ("interaction", "user", "user-context")
CANDIDATES = ("all", "train", "cold", "file", "uniform", "popularity", "first")
SEEN = ("none", "train", "train+test", "context", "earlier")
RELEVANT = ("all", "distinct", "new", "next", "warm", "cold")
WITHOUT_REPEATS = ("new", "next", "cold")  # a pair of the training events is never relevant
AFTER = ("user", "all")
HISTORIES = ("train", "test", "known")
TARGETS = ("all", "first", "last")
SHORT = {"uniform": "uni", "popularity": "pop", "first": "first"}


@dataclass(frozen=True, eq=False)
class Protocol:
    """What a result depends on besides model and data; results with equal ids are comparable.

    unit: one list per test interaction, per user, or per user and context.
    candidates: what is ranked besides the relevant items: all items; the items of the training
        events; the cold items, those of the test events that have no training events; `items`; or
        n training items, sampled uniformly or by popularity (number of events), or the first n in
        the order of the training events (WrapRec).
    items: for candidates 'file': ids for all users, or a frame (user, item) with ids per user.
    seen: the user's items to exclude: none, those in training, those in training and test, those
        in training in the same context, or 'earlier', those before the event, in training and
        test. Relevant items are never excluded.
    relevant: the relevant items of a unit: those of all its test events; for the unit interaction
        also 'distinct', each pair of user and item once; 'new', only pairs that are not in
        training; or 'next', only the first new pair of each user in time. 'warm' and 'cold': only
        items with training events, or without.
    after: require that every test event comes after the training events of its user ('user') or
        of all users ('all'). None: no check.
    gain: the column of the test events that grades relevance, null: 1; events graded 0 or less
        are not relevant.
    domain: evaluate in this domain only: only its test events are relevant, and only items with
        an event of it, in training or test, are ranked. The model may use other domains.
    seed: of the sampled candidates, which are the same for every model.
    history: what a model knows of a user: 'train', the training events; 'test', the test events
        before the one to predict, given with each query. This is the case of anonymous sessions:
        users are sessions that have no training events. A first event, and events of items without
        training events, are not relevant. 'known': all events before the one to predict, in
        training and test, without further training; no event is left out.
    targets: predict all relevant events, or each user's first or last of them only.
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
    history: str = "train"
    targets: str = "all"

    def __post_init__(self) -> None:
        one_of("unit", self.unit, UNITS)
        one_of("candidates", self.candidates, CANDIDATES)
        one_of("seen", self.seen, SEEN)
        one_of("relevant", self.relevant, RELEVANT)
        if self.after is not None:
            one_of("after", self.after, AFTER)
        one_of("history", self.history, HISTORIES)
        one_of("targets", self.targets, TARGETS)
        for option, usual in (("history", "train"), ("targets", "all")):
            if getattr(self, option) != usual:
                self._by_event(option)
        if self.seen == "earlier":
            self._by_event("seen")
        whole("n", self.n, 1)
        whole("seed", self.seed, 0)
        if (self.items is not None) != (self.candidates == "file"):
            raise OptionError(
                f"items (the ids to rank) and {named('candidates', 'file')} require each other"
            )

    def _by_event(self, option: str) -> None:
        """Raise OptionError if an option for single events is used with another unit."""
        if self.unit != "interaction":
            raise OptionError(
                f"{named(option, getattr(self, option))} needs {named('unit', 'interaction')}: "
                "every event has a history of its own"
            )

    @property
    def drawn(self) -> bool:
        """Whether candidates are sampled, so that metrics need a label."""
        return self.candidates in SHORT

    @property
    def timed(self) -> bool:
        """Whether events need timestamps, or an order."""
        ordered = self.relevant == "next" or self.targets != "all" or self.seen == "earlier"
        return ordered or self.after is not None or self.history != "train"

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The candidates of 'file': a column item, and user if candidates differ by user."""
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
        """A short name of the candidates, such as uni1000."""
        if self.drawn:
            return f"{SHORT[self.candidates]}{self.n}"
        if self.candidates == "file":
            return f"file-{sha256(self.listed.write_csv().encode()).hexdigest()[:8]}"
        return self.candidates

    @property
    def id(self) -> str:
        """A short string, different for protocols whose results are not comparable."""
        parts = [self.unit, self.label, f"seen={self.seen}"]
        if self.relevant != "all":
            parts.append(f"relevant={self.relevant}")
        for option in ("gain", "domain", "after"):
            if getattr(self, option) is not None:
                parts.append(f"{option}={getattr(self, option)}")
        if self.history != "train":
            parts.append(f"history={self.history}")
        if self.targets != "all":
            parts.append(f"targets={self.targets}")
        if self.candidates in ("uniform", "popularity"):
            parts.append(f"seed{self.seed}")
        return "/".join(parts)

    def name(self, metric: object) -> str:
        """Name a metric as in results: `recall@10`, or `recall@10[uni1000]` in a sample."""
        return str(metric) if self.candidates in ("all", "train") else f"{metric}[{self.label}]"

    def lacks(self, metric: Metric) -> str | None:
        """Return the option that the metric needs and the protocol lacks, or None."""
        if metric.name in ERRORS and self.unit != "interaction":
            return named("unit", "interaction")
        if metric.name in LISTS and self.label not in ("all", "train"):
            return f"{named('candidates', 'all')} or train"
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Protocol) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


# Full ranking by interaction, by user, or by user and context (as for Frappe in the split of CFM);
# the protocols of the FM-Pair paper's text and of its code, WrapRec; each user's next new item, for
# a split by user and for a split by time; every next event of new sessions, repeats included; every
# event after one cut in time for all users, with what was known by then; items with training
# events, or without, each ranked among themselves.
PRESETS: dict[str, Protocol] = {
    "full": Protocol(),
    "full-user": Protocol(unit="user"),
    "full-context": Protocol(unit="user-context", seen="context"),
    "one-plus-random": Protocol(candidates="uniform", n=1000, seen="train+test"),
    "legacy": Protocol(candidates="first", n=1000, relevant="distinct", seen="train+test"),
    "next-item": Protocol(relevant="next", after="user"),
    "next-item-in-time": Protocol(relevant="next", after="all"),
    "sessions": Protocol(candidates="train", seen="none", history="test"),
    "global-time": Protocol(candidates="train", seen="earlier", after="all", history="known"),
    "warm": Protocol(unit="user", candidates="train", relevant="warm"),
    "cold": Protocol(unit="user", candidates="cold", relevant="cold"),
}


def preset(name: str) -> Protocol:
    """Return the protocol of that name."""
    name = name.replace("_", "-")
    if name not in PRESETS:
        raise UnknownError(unknown("protocol", name, PRESETS))
    return PRESETS[name]


def repeat_share(*parts: Dataset) -> float:
    """Share of the events of all parts whose user and item had an event before."""
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


def default_protocol(*parts: Dataset) -> Protocol:
    """Full ranking of every event; seen items are excluded unless users often repeat items."""
    return Protocol(seen="none" if repeat_share(*parts) > MANY_REPEATS else "train")


def experiment_protocol(data: Dataset, test: Dataset) -> Protocol:
    """The default protocol of an experiment: per user where each has one list of relevant items.

    That is the case without context and repeats, if users have several test events.
    """
    usual = default_protocol(data)
    several = len(test) > len(np.unique(test.user))
    by_user = several and not test.context and usual.seen == "train"
    return replace(usual, unit="user") if by_user else usual


def default_protocol_reason(*parts: Dataset) -> str:
    """Return the reason for the default protocol, in a sentence."""
    share = repeat_share(*parts)
    repeats = f"{share:.0%} of the events repeat an item of their user"
    if share > MANY_REPEATS:
        return f"{repeats}, so seen items are ranked too ({named('seen', 'none')})"
    return f"{repeats}, so seen items are excluded ({named('seen', 'train')})"


def repeated_events(train: Dataset, test: Dataset) -> int:
    """Count the test events whose user had the item in training."""
    user = train.users.numbers(test.users.ids)[test.user]
    item = train.items.numbers(test.items.ids)[test.item]
    key = np.where((user >= 0) & (item >= 0), user.astype(np.int64) << 32 | item, -1)
    return int(np.isin(key, train.user.astype(np.int64) << 32 | train.item).sum())


def repeat_note(repeats: int, events: int, protocol: Protocol) -> str:
    """Explain what a result means if test events repeat training pairs; empty without repeats."""
    if not repeats:
        return ""
    counts = f"{repeats:,} of {events:,} test events ({repeats / events:.0%})"
    note = f"{counts} repeat an item that their user had in training."
    if protocol.relevant in WITHOUT_REPEATS:
        return f"{note} They are not counted: the result is for items new to a user."
    if protocol.seen == "none":
        return (
            f"{note} All items are ranked: the result is for the next event, repeats included. Set "
            f"{named('relevant', 'new')} to evaluate on items new to a user only."
        )
    return (
        f"{note} Other seen items are excluded, which makes repeated items easy to find: the "
        f"result is too high. Set {named('seen', 'none')} to rank all items, or "
        f"{named('relevant', 'new')} to evaluate on new items only."
    )


def repeats_inflate(repeats: int, events: int, protocol: Protocol) -> bool:
    """Whether repeated items make a result much too high."""
    excluded = protocol.seen in ("train", "train+test", "earlier")
    counted = protocol.relevant not in WITHOUT_REPEATS
    return excluded and counted and repeats > MANY_REPEATS * events
