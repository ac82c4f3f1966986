"""The parts of a data set: what a split is, its hash, and its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import polars as pl

from fmpair.data.border import parsing
from fmpair.data.dataset import Dataset
from fmpair.data.parquet import read_parquet
from fmpair.errors import DataError, OptionError, named
from fmpair.files import atomic_path
from fmpair.forked import check_process

PARTS = ("train", "validation", "test")


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

    @property
    def hash(self) -> str:
        """SHA-256 of the three parts, 64 digits; the same on every machine."""
        return hash_of([self])


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
    if "timestamp" not in data.columns.columns:
        raise DataError(f"the data have no times: name their column with {named('timestamp', ...)}")
    times = data.columns["timestamp"]
    if times.null_count():
        raise DataError(f"{times.null_count()} events have no time: drop them first")
    values = times.to_physical().to_numpy()
    if seed is None:
        return np.argsort(values, kind="stable")
    return np.lexsort((np.random.default_rng(seed).permutation(len(values)), values))


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
