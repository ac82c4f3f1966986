"""One model that stays as it is."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fmpair.errors import FmpairError, MachineError, ModelFileError
from fmpair.events.event import Event
from fmpair.events.store import EventStore, pages
from fmpair.fitted.file import checksum_of
from fmpair.fitted.recommender import Recommender
from fmpair.models.catalog import Model, load
from fmpair.serve.settings import CANDIDATE, CURRENT, Arms

# Users that no model knows yet: what they did since is all there is to go by.


LAST = 50  # events of one that are kept
MOST = 100_000  # users; the one who came first goes first


class Newcomers:
    """The items of users whom a model does not know, in order of time."""

    def __init__(self) -> None:
        self._lines: dict[str, dict[tuple[int, Any], None]] = {}

    def add(self, user: Any, item: Any, time: int) -> None:
        """An event of one of them; told twice, it counts once."""
        line = self._lines.setdefault(str(user), {})
        line[time, item] = None
        if len(line) > LAST:
            del line[min(line, key=_time)]
        if len(self._lines) > MOST:
            del self._lines[next(iter(self._lines))]

    def history(self, user: Any) -> list[Any] | None:
        """The items, oldest first; None for those of whom nothing is known."""
        line = self._lines.get(str(user))
        return None if line is None else [item for _, item in sorted(line, key=_time)]


def _time(event: tuple[int, Any]) -> int:
    return event[0]


# What happened since a model was fitted: told to it when it is loaded, and as it comes.


def replayed(
    model: Model, store: EventStore | None, newcomers: Newcomers, position: int
) -> tuple[Model, int]:
    """(the model with all events after a position known, the last position)."""
    parts = [_numbers(model, [], newcomers)]
    for events in () if store is None else pages(store.after, position):
        parts.append(_numbers(model, events, newcomers))
        position = events[-1].position
    return model.in_service(*map(np.concatenate, zip(*parts))), position


def tell(model: Model, events: Sequence[Event], newcomers: Newcomers) -> None:
    """Let a model in service take in a few further events."""
    model.take_in(*_numbers(model, events, newcomers))


def _numbers(
    model: Model, events: Sequence[Event], newcomers: Newcomers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(user, item, moment) of the events whose user and item the model knows."""
    user = model.id_lookup.users.numbers([event.user for event in events])
    item = model.id_lookup.items.numbers([event.item for event in events])
    moment = np.array([event.time for event in events], np.int64)
    for place in np.flatnonzero(user < 0).tolist():
        event = events[place]
        newcomers.add(event.user, event.item, event.time)
    known = (user >= 0) & (item >= 0)
    return user[known], item[known], moment[known]


# The models in service: which answers whom, what they know since they were fitted, swaps.


LOG = logging.getLogger("fmpair")

DIGITS = 12  # of a checksum, that name a model in answers and events
PAUSE = 1.0  # seconds before a store that did not answer is asked again
TRIES = 5  # to read a file that is replaced meanwhile


Stamp = tuple[int, int, int]  # tells a file from another that takes its name
NO_FILE = (0, 0, 0)


@dataclass(frozen=True, eq=False)
class Serving:
    """A model file in service. id: how answers and events name it; loaded: seconds since 1970."""

    arm: str
    path: Path
    id: str
    checksum: str
    model: Model
    stamp: Stamp
    loaded: float


@dataclass(frozen=True)
class Refusal:
    """A model file that was not taken into service, why, and when (seconds since 1970).

    passing: whether the same file may be taken another time.
    """

    arm: str
    path: Path
    why: str
    when: float
    passing: bool


class Models:
    """One model for all users, or a candidate beside it for a share of them.

    store: where events are kept, all of which the models know. Any thread may call any method; a
    question that began with one model goes on with it, whatever is swapped meanwhile.
    """

    def __init__(
        self,
        path: str | Path,
        store: EventStore | None = None,
        candidate: str | Path | None = None,
        share: float = 0.0,
    ):
        self.arms = Arms(share if candidate is not None else 0.0)
        self.store = store
        self.swaps, self.refusals = 0, 0
        self.refused: dict[str, Refusal] = {}
        self._unread: str | None = None  # why what is kept cannot be read
        self._pause = 0.0  # until when nobody tries again
        self._newcomers = Newcomers()
        self._changing = threading.Lock()
        self.paths = {CURRENT: Path(path)}
        if candidate is not None:
            self.paths[CANDIDATE] = Path(candidate)
        loaded = [self._loaded(arm) for arm in self.paths]
        self._serving = {one.arm: one for one, _ in loaded}
        self.position = min(position for _, position in loaded)  # of the last event that all know

    def of(self, user: Any) -> tuple[str, Model, str]:
        """(arm, model, id of the model) that answers a user."""
        own = self._serving[self.arms.of(user)]
        return own.arm, own.model, own.id

    def serving(self) -> list[Serving]:
        """The models in service, the current one first."""
        return list(self._serving.values())

    @property
    def trouble(self) -> str | None:
        """Why events cannot be read or kept; None where they can."""
        return self._unread or (None if self.store is None else self.store.trouble())

    def history_of(self, user: Any, model: Model) -> list[Any] | None:
        """Items of a user whom the model does not know, oldest first; None where there are none."""
        found = self._newcomers.history(user)
        if found is None or model.id_lookup.users.number(user) >= 0:
            return None
        known = model.id_lookup.items.numbers(found) >= 0
        return [item for item, is_known in zip(found, known) if is_known] or None

    def behind(self) -> bool:
        """Whether events are kept that the models do not know yet; asks nobody for long."""
        if self.store is None or time.monotonic() < self._pause:
            return False
        try:
            return self.store.position() > self.position
        except FmpairError as error:
            self._tell(error)
            return False

    def follow(self) -> None:
        """Take in all that is kept, by whomever; answers go on where the store does not answer."""
        if self.store is None:
            return
        # Where it did not answer before, one tries again while the others go on.
        if not self._changing.acquire(blocking=self._unread is None):
            return
        try:
            for events in pages(self.store.after, self.position):
                self._take(events)
            self._unread = None
        except FmpairError as error:
            self._tell(error)
        finally:
            self._changing.release()

    def reload(self, arm: str = CURRENT) -> bool:
        """Put the file that is there now into service; False where it is refused, and reported.

        It is loaded aside, checked, told all events and made to answer; only then it is swapped.
        """
        try:
            new, position = self._loaded(arm)
            with self._changing:
                for events in () if self.store is None else pages(self.store.after, position):
                    tell(new.model, events, self._newcomers)  # the few that came meanwhile
                self._serving = {**self._serving, arm: new}
        except Exception as error:  # whatever is wrong with it, the other one goes on
            self._refuse(arm, error)
            return False
        self.refused.pop(arm, None)
        self.swaps += 1
        LOG.info("%s is in service as the %s model, %s", new.path, arm, new.id)
        return True

    def _take(self, events: Sequence[Event]) -> None:
        for serving in self._serving.values():
            tell(serving.model, events, self._newcomers)
        self.position = max(self.position, events[-1].position)

    def _loaded(self, arm: str) -> tuple[Serving, int]:
        """(the model of an arm's file, told all that it has not learned; the last position)."""
        path = self.paths[arm]
        for _ in range(TRIES):
            found, checksum = stamp(path), checksum_of(path)
            model = load(path)
            if checksum_of(path) == checksum:
                break
        else:
            raise ModelFileError(f"{str(path)!r} is replaced again and again while it is read")
        after = 0 if self.store is None else self.store.learned(checksum)
        live, position = replayed(model, self.store, self._newcomers, after)
        warm_up(live)
        own = Serving(arm, path, checksum[:DIGITS], checksum, live, found, time.time())
        return own, position

    def _refuse(self, arm: str, error: Exception) -> None:
        why = str(error) or type(error).__name__
        passing = isinstance(error, MachineError | MemoryError)
        if arm not in self.refused or self.refused[arm].why != why:  # once, not at every attempt
            LOG.error("%s stays as it is, %s is refused: %s", arm, self.paths[arm], why)
        self.refused[arm] = Refusal(arm, self.paths[arm], why, time.time(), passing)
        self.refusals += 1

    def _tell(self, error: FmpairError) -> None:
        if self._unread != str(error):
            LOG.error("answers go on without what others keep: %s", error)
        self._unread, self._pause = str(error), time.monotonic() + PAUSE


def warm_up(model: Model) -> None:
    """Let everything be worked out that the first questions would wait for."""
    user = model.space.users.ids[0]
    model.recommend(user, 1)
    if isinstance(model, Recommender):
        model.answer(user, 1, explain=True)
        model.answer(None, 1)


def stamp(path: Path) -> Stamp:
    """Of the file that has a name now."""
    try:
        found = os.stat(path)
    except OSError:
        return NO_FILE
    return found.st_mtime_ns, found.st_ino, found.st_size


@dataclass(frozen=True)
class FixedModel:
    """The model for everyone, which goes by no events; name: its id."""

    model: Any
    name: str
    refused: dict[str, Refusal] = field(default_factory=dict)
    swaps: int = 0
    refusals: int = 0
    trouble: str | None = None

    def of(self, user: Any) -> tuple[str, Any, str]:
        return CURRENT, self.model, self.name

    def serving(self) -> list[Serving]:
        return [Serving(CURRENT, Path(), self.name, "", self.model, NO_FILE, time.time())]

    def history_of(self, user: Any, model: Any) -> None:
        return None

    def behind(self) -> bool:
        return False

    def follow(self) -> None:
        """There is nothing to follow."""
