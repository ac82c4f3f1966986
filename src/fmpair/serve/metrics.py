"""Prometheus metrics of all workers, in memory that they share.

Each worker writes a row of its own, so no worker waits for another; a scrape adds up the rows. A
restarted worker continues the row of its predecessor, so no counter falls.
"""

from __future__ import annotations

import mmap
import os
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from tempfile import TemporaryFile
from typing import Any

import numpy as np

EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.06, 0.1, 0.25, 0.5, 1.0, 5.0)
STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 413, 422, 429, 500, 501, 503)
OTHER = "other"  # paths and statuses that are not listed
COUNTERS = {
    "unknown_users": ("fmpair_unknown_users_total", "Answers for unknown users."),
    "unknown_items": ("fmpair_unknown_items_total", "Unknown items in requests and events."),
    "unknown_values": (
        "fmpair_unknown_values_total",
        "Unknown context columns and values in requests and events.",
    ),
    "unknown_types": ("fmpair_unknown_event_types_total", "Events of an unknown type."),
    "refused": ("fmpair_refused_unknown_total", "Requests rejected for an unknown id or value."),
    "events": ("fmpair_events_taken_total", "Events stored."),
    "refunds": ("fmpair_refunds_total", "Events stored that are refunds, which models leave out."),
    "items": ("fmpair_items_changed_total", "Changes of items stored."),
    "swaps": ("fmpair_model_swaps_total", "Model files put into service while running."),
    "refusals": ("fmpair_model_refusals_total", "Model files rejected."),
}
WIDTH = len(EDGES) + 2 + len(STATUSES) + 1  # numbers per path: buckets, seconds, statuses
ROW = 1 << 16  # bytes per worker
MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def shared_memory(workers: int) -> int:
    """Return a descriptor of memory for the rows of all workers.

    It has no name: nobody can remove it while it is used, and nothing stays when all have ended.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("fmpair-metrics")
    else:
        with TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, ROW * workers)
    return descriptor


class Metrics:
    """The counters of one worker, and access to all rows. paths: those counted separately.

    shared: the descriptor of `shared_memory`.
    """

    def __init__(self, paths: Sequence[str], shared: int | None = None, worker: int = 0) -> None:
        self.paths = [*paths, OTHER]
        self._start = {path: index * WIDTH for index, path in enumerate(self.paths)}
        self._status = {code: index for index, code in enumerate(STATUSES)}
        first = len(self.paths) * WIDTH
        self._counter = {name: first + index for index, name in enumerate(COUNTERS)}
        values = np.zeros(ROW * (worker + 1) // 8)
        if shared is not None:
            values = np.frombuffer(mmap.mmap(shared, 0), float)
        self._rows = values.reshape(-1, ROW // 8)
        self._row: Any = memoryview(self._rows[worker])  # faster to write than an array
        self._before = {name: self._row[index] for name, index in self._counter.items()}

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a response."""
        row, first = self._row, self._start.get(path, self._start[OTHER])
        row[first + bisect_left(EDGES, seconds)] += 1
        row[first + len(EDGES) + 1] += seconds
        row[first + len(EDGES) + 2 + self._status.get(status, len(STATUSES))] += 1

    def count(self, name: str, more: float = 1) -> None:
        """Increase one of COUNTERS."""
        self._row[self._counter[name]] += more

    def follow(self, name: str, total: float) -> None:
        """Set one of COUNTERS to its value before this worker started plus `total`."""
        self._row[self._counter[name]] = self._before[name] + total

    def text(self, more: Iterable[str] = ()) -> str:
        """Return the sums over all workers in Prometheus' text format; more: further lines."""
        total = self._rows.sum(axis=0)
        lines = [*self._durations(total), *self._requests(total)]
        for name, (title, about) in COUNTERS.items():
            lines += [*_head(title, "counter", about), f"{title} {total[self._counter[name]]:g}"]
        return "\n".join([*lines, *more, ""])

    def _durations(self, total: np.ndarray) -> list[str]:
        name = "fmpair_request_duration_seconds"
        lines = _head(name, "histogram", "Duration of requests by path.")
        for path, first in self._start.items():
            reached = np.cumsum(total[first : first + len(EDGES) + 1])
            label = f'path="{path}"'
            for edge, count in zip((*(f"{edge:g}" for edge in EDGES), "+Inf"), reached):
                lines.append(f'{name}_bucket{{{label},le="{edge}"}} {count:g}')
            lines.append(f"{name}_sum{{{label}}} {total[first + len(EDGES) + 1]:.6f}")
            lines.append(f"{name}_count{{{label}}} {reached[-1]:g}")
        return lines

    def _requests(self, total: np.ndarray) -> list[str]:
        name = "fmpair_requests_total"
        lines = _head(name, "counter", "Requests by path and status.")
        for path, first in self._start.items():
            counts = total[first + len(EDGES) + 2 : first + WIDTH]
            for status, count in zip((*STATUSES, OTHER), counts):
                if count:
                    lines.append(f'{name}{{path="{path}",status="{status}"}} {count:g}')
        return lines


def model_lines(serving: Iterable[Any]) -> list[str]:
    """Return the lines about the models in service."""
    info, age, loaded = (
        "fmpair_model_info",
        "fmpair_model_age_seconds",
        "fmpair_model_loaded_timestamp_seconds",
    )
    infos = _head(info, "gauge", "The models in service.")
    ages = _head(age, "gauge", "Seconds since the model file was written.")
    times = _head(loaded, "gauge", "When the model was put into service.")
    now = time.time()
    for served in serving:
        infos.append(f'{info}{{arm="{served.arm}",model="{served.id}"}} 1')
        ages.append(f'{age}{{arm="{served.arm}"}} {max(now - served.stamp[0] / 1e9, 0):.0f}')
        times.append(f'{loaded}{{arm="{served.arm}"}} {served.loaded:.0f}')
    return infos + ages + times


def store_lines(trouble: str | None) -> list[str]:
    """Return the lines about the event store, as far as the answering worker knows."""
    name = "fmpair_events_store_up"
    about = "Whether events can be stored and read."
    return [*_head(name, "gauge", about), f"{name} {int(trouble is None)}"]


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
