"""Proof that acknowledged events are stored: they are read back through another connection."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from fmpair.errors import DataError, FmpairError, MachineError

LOG = logging.getLogger("fmpair")

EVERY = 1.0  # seconds between two checks
RECENT = 1_000  # acknowledged positions that are remembered
AT_ONCE = 100  # of them, read again per check
PER_COMMIT = 20  # positions remembered of one transaction

Rows = Mapping[int, tuple]


class Verification:
    """Reads recent acknowledged events back, again and again; a database may lose them silently.

    read_back: returns the stored rows by position. damage: why events must no longer be
    acknowledged, or None. failing_since: when the database was last read, in seconds since 1970, if
    it cannot be read now.
    """

    def __init__(self, read_back: Callable[[Sequence[int]], Rows]) -> None:
        self._read_back = read_back
        self._rows: dict[int, tuple | None] = {}  # as first read back; None until then
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._dice = random.Random()  # not the module's own, which programs may have seeded
        self._read_at, self._written_at = time.time(), 0.0
        self.damage: str | None = None
        self.trouble: str | None = None
        self.failing_since: float | None = None

    def note(self, positions: Sequence[int]) -> None:
        """Remember positions that were acknowledged."""
        with self._lock:
            for position in positions[:: max(len(positions) // PER_COMMIT, 1)]:
                self._rows.setdefault(position, None)
            while len(self._rows) > RECENT:
                del self._rows[next(iter(self._rows))]
        self._written_at = time.monotonic()
        if self.damage is None:
            self._note(None, None, None)  # the database answers
        self.start()

    def start(self) -> None:
        """Check every second from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="fmpair-verify", daemon=True)
            self._thread.start()

    def require(self) -> None:
        """Raise a MachineError while acknowledged events cannot be read back."""
        if self.damage is not None:
            self.check()  # it may have been mended
        if self.damage is not None:
            raise MachineError(self.damage)

    def check(self) -> None:
        """Read events back now."""
        with self._lock:
            known = [position for position, row in self._rows.items() if row is not None]
            new = [position for position, row in self._rows.items() if row is None]
        start = time.monotonic()
        again = self._dice.sample(known, min(len(known), AT_ONCE))
        try:
            rows = self._read_back([*new, *again])
        except FmpairError as error:
            damage = str(error) if isinstance(error, DataError) else None
            if damage is None and start < self._written_at:
                return None  # it has answered a writer since
            return self._note(str(error), damage, self.failing_since or self._read_at)
        with self._lock:
            wrong = [
                p
                for p in (*new, *again)
                if p not in rows or self._rows.get(p) not in (None, rows[p])
            ]
            self._rows |= {position: rows[position] for position in new if position in rows}
        damage = None
        if wrong:
            damage = (
                f"the event store is damaged: event {min(wrong)} was acknowledged and cannot be "
                "read back. Events are refused until it can; restore the store from a backup and "
                "restart the service"
            )
        self._read_at = time.time()
        return self._note(damage, damage, None)

    def close(self) -> None:
        """Stop, after a check that is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(EVERY):
            try:
                self.check()
            except Exception:  # the thread goes on: the next check may succeed
                LOG.exception("the event store could not be verified")

    def _note(self, trouble: str | None, damage: str | None, since: float | None) -> None:
        if damage is not None and damage != self.damage:
            LOG.error("%s", damage)
        self.trouble, self.damage, self.failing_since = trouble, damage, since
