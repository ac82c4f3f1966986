"""Which events train, validate and test: seeded, and always a partition of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fmpair.data.dataset import Dataset
from fmpair.errors import DataError, OptionError


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a Dataset, int64 and ascending; together every row once.

    validation: may be empty.
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def parts(self, data: Dataset) -> tuple[Dataset, Dataset, Dataset]:
        """The events to train, validate and test on, over shared vocabularies."""
        return data.take(self.train), data.take(self.validation), data.take(self.test)


def holdout(data: Dataset, test: float = 0.2, validation: float = 0.0, seed: int = 0) -> Split:
    """A random share of all events for testing, and one for validation."""
    return _cut(_shuffled(data, seed), test, validation)


def folds(data: Dataset, count: int = 4, seed: int = 0) -> list[Split]:
    """Cross-validation after one shuffle of all events: each is tested in exactly one fold."""
    if not 2 <= count <= len(data):
        raise OptionError(
            f"count must be from 2 to the number of events ({len(data)}), not {count}"
        )
    pieces = np.array_split(_shuffled(data, seed), count)
    return [
        _split(np.concatenate(pieces[:n] + pieces[n + 1 :]), pieces[n][:0], pieces[n])
        for n in range(count)
    ]


def leave_last_out(data: Dataset, count: int = 1, validation: int = 0) -> Split:
    """Each user's latest `count` events for testing, and the `validation` before them.

    A user with no more than count + validation events trains only. Of events at one time the
    later row is the later event.
    """
    if count < 1 or validation < 0:
        raise OptionError(f"count must be 1 or more and validation 0 or more, not {count} and "
                          f"{validation}")  # fmt: skip
    order = _by_time(data)
    order = order[np.argsort(data.user[order], kind="stable")]
    owner = data.user[order]
    events = np.bincount(owner, minlength=len(data.users))
    # How many events of the same user come after this one.
    later = np.cumsum(events)[owner] - 1 - np.arange(len(owner))
    enough = events[owner] > count + validation
    tested = enough & (later < count)
    validated = enough & ~tested & (later < count + validation)
    return _split(order[~tested & ~validated], order[validated], order[tested])


def by_time(data: Dataset, test: float = 0.2, validation: float = 0.0) -> Split:
    """The latest share of all events for testing, and the share before them for validation."""
    return _cut(_by_time(data), test, validation)


def _cut(order: np.ndarray, test: float, validation: float) -> Split:
    """The last rows of the order test, those before them validate."""
    if not (0 < test < 1 and validation >= 0 and test + validation < 1):
        raise OptionError(
            f"test ({test}) must be between 0 and 1, validation ({validation}) 0 or more, "
            "and their sum below 1"
        )
    last = len(order) - round(test * len(order))
    middle = last - round(validation * len(order))
    if middle < 1 or last == len(order):
        raise DataError(f"{len(order)} events are too few to set aside {test} of them for testing")
    return _split(order[:middle], order[middle:last], order[last:])


def _split(train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> Split:
    return Split(*(np.sort(rows).astype(np.int64) for rows in (train, validation, test)))


def _shuffled(data: Dataset, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(len(data))


def _by_time(data: Dataset) -> np.ndarray:
    """The rows in order of time; rows of one time keep their order."""
    if "timestamp" not in data.columns.columns:
        raise DataError("the data have no times: name their column with timestamp='...'")
    times = data.columns["timestamp"]
    if times.null_count():
        raise DataError(f"{times.null_count()} events have no time: drop them first")
    return np.argsort(times.to_physical().to_numpy(), kind="stable")
