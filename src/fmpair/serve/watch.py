"""Model files watched: a new one is put into service as soon as it is there."""

from __future__ import annotations

import threading

from fmpair.serve.models import Models, Stamp, stamp

EVERY = 0.2  # seconds; a look costs no more than asking the system for a time


class Watch:
    """A thread that looks at the files of the models in service and swaps those that changed.

    A file belongs there whole, by a rename; one that is still being written is refused at first,
    and taken when it is done. A refused one is tried again when it has changed.
    """

    def __init__(self, models: Models, every: float = EVERY):
        self._models, self._every = models, every
        self._tried: dict[str, Stamp | None] = {own.arm: own.stamp for own in models.serving()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fmpair-watch", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Swap what has changed since the last look."""
        for arm, path in self._models.paths.items():
            found = stamp(path)  # before it is read: what changes meanwhile differs next time
            if found == self._tried[arm]:
                continue
            self._tried[arm] = found
            if not self._models.reload(arm) and self._models.refused[arm].passing:
                self._tried[arm] = None

    def close(self) -> None:
        """Stop looking; a swap under way is finished."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.look()
