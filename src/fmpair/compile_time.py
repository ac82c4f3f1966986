"""A clock that stops while kernels are compiled, which happens once per machine."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any


@dataclass
class Clock:
    """Seconds of this process, without those spent compiling or loading kernels."""

    spent: float = 0.0
    depth: int = 0
    began: float = 0.0
    lock: Any = field(default_factory=RLock, repr=False)

    def stop(self) -> None:
        """Stop the clock; calls nest."""
        with self.lock:
            self.began = self.began if self.depth else time.perf_counter()
            self.depth += 1

    def go_on(self) -> None:
        """Undo the last `stop`."""
        with self.lock:
            self.depth -= 1
            self.spent += 0.0 if self.depth else time.perf_counter() - self.began

    def now(self) -> float:
        with self.lock:
            return (self.began if self.depth else time.perf_counter()) - self.spent


CLOCK = Clock()


@contextmanager
def compiling() -> Any:
    """Stop the clock inside the block."""
    CLOCK.stop()
    try:
        yield
    finally:
        CLOCK.go_on()
