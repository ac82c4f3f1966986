"""What is counted, by all workers together: numbers in a file that they share, and their text.

Every worker has a row of its own, so that nobody waits for anybody; a scrape adds the rows up. A
worker that is started again goes on with the row of the one before, and so no number falls.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

EDGES = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.06, 0.1, 0.25, 0.5, 1.0, 5.0)
STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 413, 422, 429, 500, 501, 503)
OTHER = "other"  # what is no address of the service, and a status that is none of these
COUNTED = {
    "unknown_users": ("fmpair_unknown_users_total", "Answers for users not known."),
    "unknown_items": ("fmpair_unknown_items_total", "Items of questions that were passed over."),
    "refused": ("fmpair_refused_unknown_total", "Requests refused for an unknown id or value."),
    "events": ("fmpair_events_taken_total", "Events that were kept."),
    "swaps": ("fmpair_model_swaps_total", "Model files that were put into service while running."),
    "refusals": ("fmpair_model_refusals_total", "Model files that were not taken into service."),
}  # fmt: skip
WIDTH = len(EDGES) + 2 + len(STATUSES) + 1  # of one address: buckets, seconds, statuses
ROW = 1 << 16  # bytes of the file for each worker
MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The numbers of one worker, and all rows. paths: the addresses that are told apart."""

    def __init__(self, paths: Sequence[str], file: Path | None = None, worker: int = 0) -> None:
        self.paths = [*paths, OTHER]
        self._place = {path: place * WIDTH for place, path in enumerate(self.paths)}
        self._status = {code: place for place, code in enumerate(STATUSES)}
        first = len(self.paths) * WIDTH
        self._counter = {name: first + place for place, name in enumerate(COUNTED)}
        held = np.zeros(ROW * (worker + 1) // 8) if file is None else np.memmap(file, float, "r+")
        self._rows = held.reshape(-1, ROW // 8)
        self._own: Any = memoryview(self._rows[worker])  # sooner written than an array
        self._before = {name: self._own[place] for name, place in self._counter.items()}

    def observe(self, path: str, status: int, seconds: float) -> None:
        """One request is answered."""
        own, first = self._own, self._place.get(path, self._place[OTHER])
        own[first + bisect_left(EDGES, seconds)] += 1
        own[first + len(EDGES) + 1] += seconds
        own[first + len(EDGES) + 2 + self._status.get(status, len(STATUSES))] += 1

    def count(self, name: str, more: float = 1) -> None:
        """One of COUNTED has happened so many times more."""
        self._own[self._counter[name]] += more

    def follow(self, name: str, total: float) -> None:
        """One of COUNTED has happened so many times since this worker was started."""
        self._own[self._counter[name]] = self._before[name] + total

    def text(self, more: Iterable[str] = ()) -> str:
        """All of it as Prometheus reads it; more: lines besides."""
        total = self._rows.sum(axis=0)
        lines = [*self._durations(total), *self._requests(total)]
        for name, (title, about) in COUNTED.items():
            lines += [*head(title, "counter", about), f"{title} {total[self._counter[name]]:g}"]
        return "\n".join([*lines, *more, ""])

    def _durations(self, total: np.ndarray) -> list[str]:
        name = "fmpair_request_duration_seconds"
        lines = head(name, "histogram", "How long requests took, by address.")
        for path, first in self._place.items():
            reached = np.cumsum(total[first : first + len(EDGES) + 1])
            label = f'path="{path}"'
            lines += [
                f'{name}_bucket{{{label},le="{edge:g}"}} {count:g}'
                for edge, count in zip((*EDGES, float("inf")), reached)
            ]
            lines.append(f"{name}_sum{{{label}}} {total[first + len(EDGES) + 1]:.6f}")
            lines.append(f"{name}_count{{{label}}} {reached[-1]:g}")
        return [line.replace('le="inf"', 'le="+Inf"') for line in lines]

    def _requests(self, total: np.ndarray) -> list[str]:
        name = "fmpair_requests_total"
        lines = head(name, "counter", "Requests by address and status.")
        for path, first in self._place.items():
            own = total[first + len(EDGES) + 2 : first + WIDTH]
            lines += [
                f'{name}{{path="{path}",status="{status}"}} {count:g}'
                for status, count in zip((*STATUSES, OTHER), own)
                if count
            ]
        return lines


def head(name: str, kind: str, about: str) -> list[str]:
    """What stands before the samples of a metric."""
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def of_models(serving: Iterable[Any]) -> list[str]:
    """The lines that tell which models answer, and how old they are."""
    info, age, loaded = (
        "fmpair_model_info",
        "fmpair_model_age_seconds",
        "fmpair_model_loaded_timestamp_seconds",
    )
    infos = head(info, "gauge", "The models in service.")
    ages = head(age, "gauge", "Seconds since the model's file was written.")
    times = head(loaded, "gauge", "When the model was put into service.")
    now = time.time()
    for own in serving:
        infos.append(f'{info}{{arm="{own.arm}",model="{own.id}"}} 1')
        ages.append(f'{age}{{arm="{own.arm}"}} {max(now - own.stamp[0] / 1e9, 0):.0f}')
        times.append(f'{loaded}{{arm="{own.arm}"}} {own.loaded:.0f}')
    return infos + ages + times


def of_store(trouble: str | None) -> list[str]:
    """The lines that tell whether events can be kept, as far as the worker that answers knows."""
    name = "fmpair_events_store_up"
    about = "Whether the last that was written to the store of events was kept."
    return [*head(name, "gauge", about), f"{name} {int(trouble is None)}"]
