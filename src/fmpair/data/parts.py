"""`Split`: the rows of the training, validation and test part; its hash and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.parquet import read_parquet
from fmpair.data.formats.source import parse_errors, reason
from fmpair.data.times import (
    Timelines,
    before_all,
    has_times,
    moments,
    mostly_timed,
    timelines,
    untimed,
)
from fmpair.errors import DataError, OptionError, named
from fmpair.files import atomic_path
from fmpair.threads import check_process

PARTS = ("train", "validation", "test")
NO_PART = "none"  # in a file of splits, the rows after a window
# There are gaps if more than this share of the removed events have a later event of their user.
GAP_SHARE = 0.05


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers of a Dataset, int64 and ascending; every row is in at most one part.

    validation: may be empty. Only windows of time leave rows out: those after the test part.
    """

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def parts(self, data: Dataset) -> tuple[Dataset, Dataset, Dataset]:
        """Return the training, validation and test events, over shared vocabularies."""
        return self.training(data), data.take(self.validation), data.take(self.test)

    def training(self, data: Dataset) -> Dataset:
        """Return the training events.

        `Dataset.gaps` is set if many other events are before the last one of their user.
        """
        return _with_gaps(data, self.train)

    def before_test(self, data: Dataset) -> Dataset:
        """Return the training and validation events together: all that is known before the test.

        Train on them, or train on the first part and extend the model by the second. In both cases
        evaluate with these events as known, so that lists leave out what users had in either part.
        """
        return _with_gaps(data, np.sort(np.concatenate([self.train, self.validation])))

    @property
    def hash(self) -> str:
        """SHA-256 of the three parts, 64 digits; the same on every machine."""
        return hash_of([self])


def _with_gaps(data: Dataset, rows: np.ndarray) -> Dataset:
    """Return these events; set `gaps` if users have many removed events before their last one."""
    taken = data.take(rows)
    rest = np.ones(len(data), bool)
    rest[rows] = False
    if not has_times(data) or not rest.any():
        return taken
    time = required_moments(data)
    latest = np.full(len(data.users), np.iinfo(np.int64).min)
    np.maximum.at(latest, data.user[~rest], time[~rest])
    before = time[rest] < latest[data.user[rest]]
    return replace(taken, gaps=True) if before.mean() > GAP_SHARE else taken


def split_of(train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> Split:
    """Return a Split of these rows, which may be in any order."""
    return Split(*(np.sort(rows).astype(np.int64) for rows in (train, validation, test)))


def cut(
    order: np.ndarray,
    test: float,
    validation: float,
    times: np.ndarray | None = None,
    what: str = "events",
) -> Split:
    """Return a Split with the last share of rows for testing, those before for validation.

    times: of the rows in their order, if rows with the same time must stay together.
    """
    check_shares(test, validation)
    last = len(order) - round(test * len(order))
    middle = last - round(validation * len(order))
    if middle < 1 or last == len(order):
        raise DataError(
            f"{len(order)} {what} are too few for a test share of {test} and a validation share "
            f"of {validation}"
        )
    if times is not None:
        last = time_boundary(times, last)
        middle = last - round(validation * len(order))
        middle = time_boundary(times[:last], middle) if validation else last
    return split_of(order[:middle], order[middle:last], order[last:])


def time_boundary(times: np.ndarray, index: int) -> int:
    """Return the index nearest to `index` at which a new time begins; the earlier one on a tie.

    times: ascending.
    """
    firsts = np.flatnonzero(np.diff(times)) + 1  # the first index of each time but the earliest
    if not len(firsts):
        raise DataError(f"all {len(times)} events have the same time: they cannot be split by time")
    return int(firsts[np.argmin(np.abs(firsts - index))])


def check_shares(test: float, validation: float) -> None:
    """Refuse shares that leave nothing to test or to train on."""
    if not (0 < test < 1 and validation >= 0 and test + validation < 1):
        raise OptionError(
            f"{named('test')} ({test}) must be between 0 and 1, {named('validation')} "
            f"({validation}) 0 or more, and their sum below 1"
        )


def by_time_order(data: Dataset, seed: int | None = None) -> np.ndarray:
    """int64 [events]: the rows in order of time.

    Rows with the same time keep their order, which may follow the rating or the item; with a seed
    it is random.
    """
    times = required_moments(data)
    if seed is None:
        return np.argsort(times, kind="stable")
    return np.lexsort((np.random.default_rng(seed).permutation(len(times)), times))


def user_timelines(data: Dataset) -> Timelines:
    """Return the events of each user, oldest first; raise DataError without times."""
    return timelines(data.user, data.item, len(data.users), required_moments(fully_timed(data)))


def fully_timed(data: Dataset) -> Dataset:
    """Return the data with a time for every event, where few have none; else the data as given.

    Events without a time count as the oldest of their users. They are in the history of each
    later event of the user, and their own history is empty.
    """
    if not (len(data) and untimed(data) and mostly_timed(data)):
        return data
    times = before_all(data.columns["timestamp"], data.user)
    return replace(data, columns=data.columns.with_columns(times))


def moments_across_users(data: Dataset) -> np.ndarray:
    """int64 [events]: the times of events, in microseconds, comparable between users.

    Raise DataError without times, and if only the order of each user's events is known.
    """
    if data.order == "per-user":
        raise DataError(
            "the data have only the order of each user's events, which cannot be compared between "
            f"users: name a column of times with {named('timestamp', ...)}"
        )
    return required_moments(data)


def required_moments(data: Dataset) -> np.ndarray:
    """int64 [events]: the times of events, in microseconds; raise DataError without times.

    With order="per-user" only times of the same user can be compared.
    """
    times = moments(data)
    if times is None:
        raise DataError(
            f"the data have no times: name their column with {named('timestamp', ...)}, or give "
            f"{named('order', 'rows')} if rows are in order of time"
        )
    return times


def hash_of(splits: Sequence[Split]) -> str:
    """Return the SHA-256 of splits in their order, 64 digits."""
    digest = sha256()
    for split in splits:
        for rows in (split.train, split.validation, split.test):
            digest.update(len(rows).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(rows, "<i8").data)
    return digest.hexdigest()


def save(splits: Sequence[Split], path: str | Path) -> None:
    """Write splits as Parquet with columns row, fold (the number of the split) and part."""
    check_process()
    if not splits:
        raise OptionError("there are no splits to save")
    kinds = pl.Enum([*PARTS, NO_PART])
    parts = [(split.train, split.validation, split.test) for split in splits]
    count = 1 + max(int(rows.max(initial=-1)) for three in parts for rows in three)
    frames = []
    for fold, three in enumerate(parts):
        rest = np.setdiff1d(np.arange(count), np.concatenate(three))
        for name, rows in zip((*PARTS, NO_PART), (*three, rest)):
            part = pl.DataFrame({"row": rows})
            fixed = pl.lit(fold, pl.Int32).alias("fold"), pl.lit(name, kinds).alias("part")
            frames.append(part.with_columns(*fixed))
    with atomic_path(path) as temporary:
        pl.concat(frames).write_parquet(temporary)


def load(path: str | Path) -> list[Split]:
    """Read splits that `save` wrote, or any such table in which each fold has every row once."""
    check_process()
    with parse_errors(f"{path} as splits"):
        try:
            frame = read_parquet(path).select(
                pl.col("row", "fold").cast(pl.Int64), pl.col("part").cast(pl.String)
            )
        except (pl.exceptions.PolarsError, DataError) as error:
            raise DataError(f"{path} is not a file of splits: {reason(error)}") from error
        if not len(frame) or any(frame.null_count().row(0)):
            raise DataError(f"{path} is not a file of splits: rows or values are missing")
        splits = []
        for fold, rows in sorted(frame.partition_by("fold", as_dict=True).items()):
            if not np.array_equal(np.sort(rows["row"].to_numpy()), np.arange(len(rows))):
                raise DataError(f"{path}: fold {fold[0]} does not have every row exactly once")
            if not rows["part"].is_in([*PARTS, NO_PART]).all():
                raise DataError(f"{path}: a part must be one of {', '.join([*PARTS, NO_PART])}")
            splits.append(split_of(*(rows.filter(part=name)["row"].to_numpy() for name in PARTS)))
        return splits
