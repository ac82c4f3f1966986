"""The parts of a data set: what a split is, its hash, and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.data.formats.parquet import read_parquet
from fmpair.data.formats.source import parsing
from fmpair.data.times import Timelines, has_times, moments, timelines
from fmpair.errors import DataError, OptionError, named
from fmpair.files import atomic_path
from fmpair.threads import check_process

PARTS = ("train", "validation", "test")
MANY = 0.05  # share of events set aside that stood among others, from which on those have gaps


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
        return self.training(data), data.take(self.validation), data.take(self.test)

    def training(self, data: Dataset) -> Dataset:
        """The events to train on; they say where the others stood among them (`Dataset.gaps`)."""
        return self._without_rest(data, self.train)

    def _without_rest(self, data: Dataset, rows: np.ndarray) -> Dataset:
        """These events, with `gaps` where later ones of their users are among them."""
        rest = np.ones(len(data), bool)
        rest[rows] = False
        own = data.take(rows)
        return replace(own, gaps=True) if _stood_among(data, rest) else own

    def before_test(self, data: Dataset) -> Dataset:
        """The events to train and to validate on, together: all that is known before the test.

        Train on them; or on the first part alone, and show the model the rest (`extended`): either
        way evaluate with these as known, so that what a user had in either leaves the lists.
        """
        return self._without_rest(data, np.sort(np.concatenate([self.train, self.validation])))

    @property
    def hash(self) -> str:
        """SHA-256 of the three parts, 64 digits; the same on every machine."""
        return hash_of([self])


def _stood_among(data: Dataset, rest: np.ndarray) -> bool:
    """Whether many of the rest came before events of their users that are not of the rest."""
    if not has_times(data):
        return False
    moment = _moments(data)
    latest = np.full(len(data.users), np.iinfo(np.int64).min)
    np.maximum.at(latest, data.user[~rest], moment[~rest])
    before = moment[rest] < latest[data.user[rest]]
    return bool(before.mean() > MANY) if len(before) else False


def split_of(train: np.ndarray, validation: np.ndarray, test: np.ndarray) -> Split:
    """The rows in any order as a Split."""
    return Split(*(np.sort(rows).astype(np.int64) for rows in (train, validation, test)))


def cut(
    order: np.ndarray, test: float, validation: float, times: np.ndarray | None = None
) -> Split:
    """The last rows of the order are the test set, those before them validation; shares of rows.

    times: of the rows in their order, where rows of one time must not be separated.
    """
    check_shares(test, validation)
    last = len(order) - round(test * len(order))
    middle = last - round(validation * len(order))
    if middle < 1 or last == len(order):
        raise DataError(f"{len(order)} events are too few to set aside {test} of them for testing")
    if times is not None:
        last = border(times, last)
        middle = border(times[:last], last - round(validation * len(order))) if validation else last
    return split_of(order[:middle], order[middle:last], order[last:])


def border(times: np.ndarray, place: int) -> int:
    """How many events come before the moment nearest to `place`; of two as near the earlier.

    times: ascending; the first moment always comes before.
    """
    first = np.flatnonzero(np.diff(times)) + 1  # of each moment but the first
    if not len(first):
        raise DataError(
            f"{len(times)} events have one and the same time: a split by time cannot part them"
        )
    return int(first[np.argmin(np.abs(first - place))])


def check_shares(test: float, validation: float) -> None:
    """Refuse shares that leave nothing to test or to train on."""
    if not (0 < test < 1 and validation >= 0 and test + validation < 1):
        raise OptionError(
            f"{named('test')} ({test}) must be between 0 and 1, {named('validation')} "
            f"({validation}) 0 or more, "
            "and their sum below 1"
        )


def by_time_order(data: Dataset, seed: int | None = None) -> np.ndarray:
    """int64 [events]: the rows in order of time.

    Rows of one time keep their order, which may tell something of the events themselves (a file
    sorted by rating); with a seed their order is random.
    """
    found = _moments(data)
    if seed is None:
        return np.argsort(found, kind="stable")
    return np.lexsort((np.random.default_rng(seed).permutation(len(found)), found))


def time_lines(data: Dataset) -> Timelines:
    """The events of each user, oldest first; DataError where there are neither times nor order."""
    return timelines(data.user, data.item, len(data.users), _moments(data))


def moments_of_all(data: Dataset) -> np.ndarray:
    """int64 [events]: moments that can be compared between users; DataError where there is none."""
    if data.order == "per-user":
        raise DataError(
            "the order of the events of different users is not known, only that of each user's "
            "own: give times, or leave out what compares users in time"
        )
    return _moments(data)


def _moments(data: Dataset) -> np.ndarray:
    found = moments(data)
    if found is None:
        raise DataError(
            f"the data have no times: name their column with {named('timestamp', ...)}, or, where "
            f"rows are in order of time, say {named('order', 'rows')}"
        )
    return found


def hash_of(splits: Sequence[Split]) -> str:
    """SHA-256 of splits in their order, 64 digits."""
    digest = sha256()
    for split in splits:
        for rows in (split.train, split.validation, split.test):
            digest.update(len(rows).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(rows, "<i8").data)
    return digest.hexdigest()


def save(splits: Sequence[Split], path: str | Path) -> None:
    """Write splits as Parquet (row, fold, part), whole or not at all; fold numbers the splits."""
    check_process()
    frames = [
        pl.DataFrame({"row": rows}).with_columns(
            pl.lit(fold, pl.Int32).alias("fold"), pl.lit(name, pl.Enum(PARTS)).alias("part")
        )
        for fold, split in enumerate(splits)
        for name, rows in zip(PARTS, (split.train, split.validation, split.test))
    ]
    if not frames:
        raise OptionError("there is no split to save")
    with atomic_path(path) as temporary:
        pl.concat(frames).write_parquet(temporary)


def load(path: str | Path) -> list[Split]:
    """Splits that `save` wrote, or any such table, as long as each fold is a partition."""
    check_process()
    with parsing(f"{path} as splits"):
        return _loaded(path)


def _loaded(path: str | Path) -> list[Split]:
    try:
        frame = read_parquet(path).select(
            pl.col("row", "fold").cast(pl.Int64), pl.col("part").cast(pl.String)
        )
    except (pl.exceptions.PolarsError, DataError) as error:
        raise DataError(f"{path} is no file of splits: {str(error).splitlines()[0]}") from error
    if not len(frame) or any(frame.null_count().row(0)):
        raise DataError(f"{path} is no file of splits: it has no rows, or gaps in them")
    found = []
    for fold, rows in sorted(frame.partition_by("fold", as_dict=True).items()):
        if not np.array_equal(np.sort(rows["row"].to_numpy()), np.arange(len(rows))):
            raise DataError(f"{path}: fold {fold[0]} does not have every row exactly once")
        if not rows["part"].is_in(PARTS).all():
            raise DataError(f"{path}: a part must be one of {', '.join(PARTS)}")
        found.append(split_of(*(rows.filter(part=name)["row"].to_numpy() for name in PARTS)))
    return found
