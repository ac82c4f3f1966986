"""The served models: which one answers a user, new events, and replacement while serving."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.errors import FmpairError, MachineError, ModelFileError, UnknownError
from fmpair.events.event import Event
from fmpair.events.frame import is_refund
from fmpair.events.store import EventStore, pages
from fmpair.fitted.file import checksum_of
from fmpair.fitted.large_catalogue import index_path, load_index, use_index
from fmpair.fitted.recommender import Recommender
from fmpair.models.catalog import Model
from fmpair.serve.live_catalogue import Changes, note_changes, with_new_items
from fmpair.serve.settings import CANDIDATE, CURRENT, Arms, Stamp, WorkerSlot, stamp
from fmpair.serve.shared_tables import load_shared
from fmpair.serve.unknown_users import UnknownUsers

LOG = logging.getLogger("fmpair")

ID_LENGTH = 12  # digits of the checksum that identify a model in answers and events
PAUSE = 1.0  # seconds before an event store that failed is read again
ATTEMPTS = 5  # to read a file that is replaced during the read
MAX_WAIT = 0.25  # seconds that a list may wait for new events
RECENT = 1_000  # users of the last requests
FIRST = WorkerSlot(0)
# A new file can replace the model in service if it knows enough of the users.
FEW = 20  # with fewer users than this there is no check
MIN_KNOWN = 0.1  # the share of the users of the old model that the new one must know
SAMPLE = 1_000  # users of the old model who are checked if there were few requests
ANYWAY = "restart the service to use it anyway"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model file in service. id: its name in answers and events; loaded: seconds since 1970."""

    arm: str
    path: Path
    id: str
    checksum: str
    model: Model
    stamp: Stamp
    loaded: float


@dataclass(frozen=True)
class Rejection:
    """A model file that was not put into service, why, and when (seconds since 1970).

    temporary: whether the same file may be accepted later.
    """

    arm: str
    path: Path
    why: str
    when: float
    temporary: bool


class Known(NamedTuple):
    """The positions of the last event and of the last change of items that a model knows."""

    event: int
    change: int


class LiveModels:
    """One model for all users, or a second one, the candidate, for a share of them.

    store: the events, which all models take in; its failures never delay a list. slot: of the
    worker. A restarted worker begins with the models that the other workers serve. If the store
    fails, it begins without events and takes them in later. accepted: called with the arm and file
    of a new model. indexed: whether to answer by the index of a model; a new model without an index
    is served all the same. threads: of an answer over a large catalogue.

    All methods are thread-safe. A request finishes with the model that it started with, even if
    that model is replaced meanwhile.
    """

    def __init__(
        self,
        path: str | Path,
        store: EventStore | None = None,
        candidate: str | Path | None = None,
        share: float = 0.0,
        slot: WorkerSlot = FIRST,
        accepted: Callable[[str, Stamp], object] = lambda arm, stamp: None,
        indexed: bool = False,
        threads: int | None = None,
    ):
        self.arms = Arms(share if candidate is not None else 0.0)
        self.check_new: Callable[[Model], object] = lambda model: None  # raises to refuse it
        self.store = store
        self.swaps, self.refusals = 0, 0
        self.rejected: dict[str, Rejection] = {}
        self._read_error: str | None = None  # why the events cannot be read
        self._failing_since, self._retry_at = 0.0, 0.0
        self._without_events = False
        self._recent: deque[Any] = deque(maxlen=RECENT)  # users
        self._thread = ThreadPoolExecutor(1, "fmpair-follow")
        self._following: Future[None] | None = None
        self._began, self._checked = 0.0, False
        self._unknown_users = UnknownUsers()
        self._changing = threading.Lock()
        self.paths = {CURRENT: Path(path)}
        if candidate is not None:
            self.paths[CANDIDATE] = Path(candidate)
        self._accepted, self._kept = accepted, slot.files()
        self._indexed, self._need_index, self._threads = indexed, not slot.restarted, threads
        try:
            loaded = [self._load(arm, store, self._kept.get(arm)) for arm in self.paths]
        except MachineError as error:
            if not slot.restarted:
                raise
            self._note_read_error(error)
            self._without_events = True
            loaded = [self._load(arm, None, self._kept.get(arm)) for arm in self.paths]
        self._start(loaded)

    def _start(self, loaded: Sequence[tuple[ServedModel, Known]]) -> None:
        self._serving, self._need_index = {served.arm: served for served, _ in loaded}, False
        self.position = min(known.event for _, known in loaded)  # of the last event known to all
        self.change = min(known.change for _, known in loaded)  # of items, likewise

    def of(self, user: Any, arm: str | None = None) -> tuple[str, Model, str]:
        """Return (arm, model, id of the model) that answers a user, or of the arm given."""
        served = self._serving.get(arm or self.arms.of(user))
        if served is None:
            raise UnknownError(f"no {arm} model is in service: start it with --candidate")
        if user is not None:
            self._recent.append(user)
        return served.arm, served.model, served.id

    def serving(self) -> list[ServedModel]:
        """Return the models in service, the current one first."""
        return list(self._serving.values())

    @property
    def trouble(self) -> str | None:
        """Why events cannot be read or stored, or None."""
        return self._read_error or (None if self.store is None else self.store.trouble())

    @property
    def stale_since(self) -> float | None:
        """Since when new events may be unknown here (seconds since 1970), or None."""
        failing = None if self.store is None else self.store.failing_since()
        times = [failing, self._failing_since if self._read_error else None]
        return min((time for time in times if time is not None), default=None)

    def history_of(self, user: Any, model: Model) -> list[Any] | None:
        """Return the items of a user unknown to the model, oldest first, or None."""
        if model.id_lookup.users.number(user) >= 0:
            return None
        items = self._unknown_users.history(user)
        if items is None:
            return None
        known = model.id_lookup.items.numbers(items) >= 0
        return [item for item, is_known in zip(items, known) if is_known] or None

    def behind(self) -> bool:
        """Return whether the store may have events that the models do not know; never blocks."""
        if self.store is None or time.monotonic() < self._retry_at:
            return False
        try:
            event, change = self.store.last()
            more = event > self.position or change > self.change
            return more or self._without_events or self._read_error is not None
        except FmpairError as error:
            self._note_read_error(error)
            return False

    async def catch_up(self) -> None:
        """Take in new events in a thread, and wait for it for at most MAX_WAIT seconds.

        Do not wait at all for a store that has failed.
        """
        if self._checked:
            return
        limit = time.monotonic() + MAX_WAIT
        while self.behind():
            if self._following is None or self._following.done():
                self._following, self._began = self._thread.submit(self.follow), time.monotonic()
            left = min(limit, self._began + MAX_WAIT) - time.monotonic()
            if left <= 0 or self._read_error is not None:
                return
            await asyncio.wait([asyncio.wrap_future(self._following)], timeout=left)
        # One check serves all requests that the event loop has read by now. Requests that it reads
        # later come after `_check_again`.
        self._checked = True
        asyncio.get_running_loop().call_soon(self._check_again)

    def _check_again(self) -> None:
        self._checked = False

    def follow(self) -> None:
        """Take in all new events of the store; serving continues if it cannot be read."""
        if self.store is None:
            return
        # After a failure, one thread retries while the others go on.
        if not self._changing.acquire(blocking=self._read_error is None):
            return
        try:
            if self._without_events:
                kept = self._kept
                self._start([self._load(arm, self.store, kept.get(arm)) for arm in self.paths])
                self._without_events = False
            self._follow_items()
            for events in pages(self.store.after, self.position):
                for served in self._serving.values():
                    self._take_in(served.model, events)
                self.position = max(self.position, events[-1].position)
            self._read_error = None
        except Exception as error:  # also rows that no store of ours has written
            self._note_read_error(error)
        finally:
            self._changing.release()

    def _follow_items(self) -> None:
        """Take in all new changes of items; a model with the new items replaces the old one."""
        if self.store is None or self.store.last_change() <= self.change:
            return
        changes = Changes.stored(self.store, self.change)
        changed = {arm: _with_changes(served, changes) for arm, served in self._serving.items()}
        self._serving, self.change = changed, max(self.change, changes.position)

    def reload(self, arm: str = CURRENT) -> bool:
        """Replace a model by its current file; return False if the file is rejected.

        The new model is loaded, checked, updated with all events and queried once before the swap.
        """
        try:
            new, known = self._load(arm, self.store)
            check_replacement(self._serving[arm].model, new.model, list(self._recent))
            self.check_new(new.model)
            with self._changing:
                new = _with_changes(new, Changes.stored(self.store, known.change))
                for events in () if self.store is None else pages(self.store.after, known.event):
                    self._take_in(new.model, events)  # events that arrived during loading
                self._serving = {**self._serving, arm: new}
        except Exception as error:  # keep serving the old model after any error
            self._reject(arm, error)
            return False
        self.rejected.pop(arm, None)
        self.swaps += 1
        self._kept.pop(arm, None)
        self._accepted(arm, new.stamp)
        LOG.info("now serving %s as the %s model, %s", new.path, arm, new.id)
        return True

    def _take_in(self, model: Model, events: Sequence[Event]) -> None:
        model.take_in(*_known_events(model, events, self._unknown_users))

    def _load(
        self, arm: str, store: EventStore | None, kept: Path | None = None
    ) -> tuple[ServedModel, Known]:
        """Return the model of an arm with all events taken in, and the last positions it knows.

        kept: a file to read instead of the arm's file.
        """
        path = kept or self.paths[arm]
        for _ in range(ATTEMPTS):
            check_regular(path)
            current, checksum = stamp(path), checksum_of(path)
            model = load_shared(path, checksum)
            if checksum_of(path) == checksum:
                break
        else:
            raise ModelFileError(f"{str(path)!r} keeps being replaced while it is read")
        if self._indexed:
            self._use_index(model, arm, checksum)
        live, known = as_served(model, checksum, store, self._unknown_users)
        if isinstance(live, Recommender):
            live.item_side.threads = self._threads
        warm_up(live)
        name, file = checksum[:ID_LENGTH], self.paths[arm]
        served = ServedModel(arm, file, name, checksum, live, current, time.time())
        return served, known

    def _use_index(self, model: Model, arm: str, checksum: str) -> None:
        """Let a model answer by its index; at the start of the service, raise if it has none."""
        try:
            use_index(model, load_index(index_path(self.paths[arm]), model, checksum))
        except FmpairError as error:
            if self._need_index:
                raise
            LOG.warning("the %s model answers without an index: %s", arm, error)

    def _reject(self, arm: str, error: Exception) -> None:
        why = str(error) or type(error).__name__
        temporary = isinstance(error, MachineError | MemoryError)
        if arm not in self.rejected or self.rejected[arm].why != why:  # log once, not every attempt
            LOG.error("rejected %s, the %s model stays in service: %s", self.paths[arm], arm, why)
        self.rejected[arm] = Rejection(arm, self.paths[arm], why, time.time(), temporary)
        self.refusals += 1

    def _note_read_error(self, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if self._read_error is None:
            self._failing_since = time.time()
        if self._read_error != why:
            LOG.error("event store unreadable; serving without new events: %s", why)
        self._read_error, self._retry_at = why, time.monotonic() + PAUSE


def _with_changes(served: ServedModel, changes: Changes) -> ServedModel:
    """Return a model in service with the changes of items that fit it."""
    if not changes.rows:
        return served
    fitting = changes.fitting(served.model)
    model = with_new_items(served.model, fitting)
    note_changes(model, fitting)
    if model is not served.model:
        warm_up(model)
        served = replace(served, model=model)
    return served


def as_served(
    model: Model, checksum: str, store: EventStore | None, unknown_users: UnknownUsers
) -> tuple[Model, Known]:
    """Return a model with the events and changed items of a store, and the last of both.

    checksum: of its file, for the position up to which it has learned.
    """
    changes = Changes.stored(store)
    fitting = changes.fitting(model)
    after = 0 if store is None else store.learned(checksum)
    live, position = replayed(with_new_items(model, fitting), store, unknown_users, after)
    note_changes(live, fitting)
    return live, Known(position, changes.position)


def replayed(
    model: Model, store: EventStore | None, unknown_users: UnknownUsers, position: int
) -> tuple[Model, int]:
    """Return (the model with all events after a position taken in, the last position)."""
    parts = [_known_events(model, [], unknown_users)]
    for events in () if store is None else pages(store.after, position):
        parts.append(_known_events(model, events, unknown_users))
        position = events[-1].position
    return model.in_service(*map(np.concatenate, zip(*parts))), position


def _known_events(
    model: Model, events: Sequence[Event], unknown_users: UnknownUsers
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (user, item, time), int [n], of the events whose user and item the model knows.

    Refunds, which the model leaves out, are not among them.
    """
    events = [event for event in events if not is_refund(event, model.space)]
    user = model.id_lookup.users.numbers([event.user for event in events])
    item = model.id_lookup.items.numbers([event.item for event in events])
    times = np.array([event.time for event in events], np.int64)
    for row in np.flatnonzero((user < 0) & (item >= 0)).tolist():
        unknown_users.add(events[row].user, events[row].item, events[row].time)
    known = (user >= 0) & (item >= 0)
    return user[known], item[known], times[known]


def warm_up(model: Model) -> None:
    """Compute cached values and load every kernel, so that the first requests are not slow."""
    user, item = model.space.users.ids[0], model.space.items.ids[0]
    model.recommend(user, 1)
    if isinstance(model, Recommender):
        model.answer(user, 1, explain=True)
        model.answer(None, 1)
        model.answer(user, 1, candidates=[item])
        model.answer(user, 1, exclude_shown=[item])


def check_regular(path: Path) -> None:
    """Raise if a path is not a regular file: opening a pipe could wait forever for its writer."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # reading the file raises the error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a file"
        raise ModelFileError(f"cannot read model {str(path)!r}: it is {kind}")


def check_replacement(old: Model, new: Model, recent: Iterable[Any]) -> None:
    """Raise ModelFileError if requests that succeed now would fail with the new model.

    recent: users of the last requests.
    """
    for what, mine, other in (
        ("user", old.space.users, new.space.users),
        ("item", old.space.items, new.space.items),
    ):
        before, after = _kind(mine.ids.dtype), _kind(other.ids.dtype)
        if before != after:
            raise ModelFileError(f"its {what} ids are {after}, not {before}; {ANYWAY}")
    missing = sorted(set(old.space.context) - set(new.space.context))
    if missing:
        raise ModelFileError(f"it does not know the context {', '.join(missing)}; {ANYWAY}")
    users = _known(old, dict.fromkeys(recent))
    if len(users) < FEW:
        ids = old.space.users.ids
        users = ids.gather_every(max(len(ids) // SAMPLE, 1)).to_list()
    known = len(_known(new, users))
    if len(users) >= FEW and known < MIN_KNOWN * len(users):
        raise ModelFileError(
            f"it knows {known} of {len(users)} users of the model in service; {ANYWAY}"
        )


def _known(model: Model, users: Iterable[Any]) -> list[Any]:
    """Return the users that a model knows."""
    ids = list(users)
    return [user for user, number in zip(ids, model.id_lookup.users.numbers(ids)) if number >= 0]


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "numbers"
    return "times" if dtype.is_temporal() else "texts"
