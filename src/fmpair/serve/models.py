"""The models in service: which answers whom, what they know since they were fitted, swaps."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fmpair.errors import FmpairError, MachineError, ModelFileError
from fmpair.events.event import Event
from fmpair.events.store import EventStore, pages
from fmpair.fitted.file import checksum_of
from fmpair.fitted.recommender import Recommender
from fmpair.models.saved import Model, load
from fmpair.serve.arms import CANDIDATE, CURRENT, Arms
from fmpair.serve.newcomers import Newcomers
from fmpair.serve.replay import replayed, told

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
        if found is None or model.known.users.number(user) >= 0:
            return None
        known = model.known.items.numbers(found) >= 0
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
                    new = self._told(new, events)  # the few that came meanwhile
                self._serving = {**self._serving, arm: new}
        except Exception as error:  # whatever is wrong with it, the other one goes on
            self._refuse(arm, error)
            return False
        self.refused.pop(arm, None)
        self.swaps += 1
        LOG.info("%s is in service as the %s model, %s", new.path, arm, new.id)
        return True

    def _take(self, events: Sequence[Event]) -> None:
        self._serving = {arm: self._told(own, events) for arm, own in self._serving.items()}
        self.position = max(self.position, events[-1].position)

    def _told(self, own: Serving, events: Sequence[Event]) -> Serving:
        model = told(own.model, events, self._newcomers)
        return own if model is own.model else replace(own, model=model)

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
