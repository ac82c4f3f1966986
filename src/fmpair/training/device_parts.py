"""Fitting to Parquet files on one device: read part by part, ids numbered by PyTorch.

Only one part is a frame at a time. The numbered events take 12 bytes each in main memory, and as
many on the device where they fit; weights take 4 bytes more and times 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch

from fmpair.data import Dataset
from fmpair.data.columns.roles import check_no_leak, check_weights
from fmpair.data.describe import table_fingerprint
from fmpair.data.frame import to_polars
from fmpair.data.times import read_times
from fmpair.data.vocabulary import Vocabulary
from fmpair.device import CUDA, layout_on, resolve_device
from fmpair.device_columns import kept, tensor_of
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.features.history_fields import history_field
from fmpair.training.defaults import factors_of
from fmpair.training.loop import Task, TrainingRun, started
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import check_trainable, past_of, problem_of, recent_of

ROWS = 1 << 24  # of a part that are read at a time
SPREAD = 4  # a table of whole ids has at most so many places for each event
FOOTER = 1 << 16  # bytes at the end of a file that tell it from another
NEVER = np.iinfo(np.int32).max
OTHERS = ("weight", "timestamp")  # columns that are kept by event


class PartColumns(NamedTuple):
    """The columns of the parts, by their use."""

    user: str
    item: str
    context: tuple[str, ...] = ()
    weight: str | None = None
    timestamp: str | None = None

    @property
    def others(self) -> dict[str, str]:
        """Those of single events, by role."""
        return {role: name for role in OTHERS if (name := getattr(self, role)) is not None}

    @property
    def names(self) -> list[str]:
        return [self.user, self.item, *self.context, *self.others.values()]


class PartTables(NamedTuple):
    """What is known of users and of items, None if nothing."""

    users: Any = None
    items: Any = None


NO_TABLES = PartTables()


class PartEvents(NamedTuple):
    """The events of all parts: int32 [events]. frame: the distinct contexts, in order.

    columns: weight and timestamp of each event, those that were asked for.
    """

    users: Vocabulary
    items: Vocabulary
    user: np.ndarray
    item: np.ndarray
    situation: np.ndarray
    frame: pl.DataFrame
    columns: pl.DataFrame


def run_of(
    recipe: Any,
    options: FMPairOptions,
    paths: Sequence[str],
    columns: PartColumns,
    tables: PartTables = NO_TABLES,
) -> TrainingRun:
    """Read the events and return their training, before the first epoch."""
    device = torch.device(CUDA if resolve_device(options.device) == CUDA else "cpu")
    with layout_on(options.device):
        events = read(paths, columns, device)
        sized = replace(options, factors=factors_of(options, len(events.user)))
        task = _task(recipe, sized, events, columns, tables)
        return started(task.for_content() if options.factors is None else task)


def _task(
    recipe: Any, options: FMPairOptions, events: PartEvents, names: PartColumns, tables: PartTables
) -> Task:
    users, items, user, item, situation, frame, columns = events
    data = Dataset(users, items, user, item, columns, id_columns=(names.user, names.item))
    data = data if tables.users is None else data.with_users(tables.users, names.user)
    data = data if tables.items is None else data.with_items(tables.items, names.item)
    check_trainable(data)
    space = _space(options, data, frame)
    past = past_of(space, data)
    rows = space.context_rows(frame)[0] if frame.width else None
    problem = problem_of(options, space, data, past, None if rows is None else (rows, situation))
    recent = recent_of(space, past)
    return Task(recipe, options, space, problem, data.frame_kind, None, recent)


def _space(options: FMPairOptions, data: Dataset, frame: pl.DataFrame) -> FeatureSpace:
    """Return the feature space. frame: the distinct contexts, which stand for the events."""
    check_no_leak(frame.columns, data.item_table, ())
    none = np.zeros(len(frame), np.int32)
    listed = replace(data, user=none, item=none, columns=frame, context=tuple(frame.columns))
    codes = {name: "categorical" for name in frame.columns if frame[name].dtype.is_integer()}
    space = FeatureSpace.fit(listed, codes, options.normalize, history_field(options.history))
    if "timestamp" in data.columns.columns and any(e.part == "age" for e in space.item.encoders):
        raise OptionError(
            "the age of items at the time of events is not supported with parts: leave dates out "
            f"of {named('items')}, or fit a frame"
        )
    return space.with_pairing(options.pairing)


def fingerprint(paths: Sequence[str], columns: PartColumns, tables: PartTables = NO_TABLES) -> str:
    """Return a hash of tables, and of the names, sizes and last bytes of files.

    Parquet describes its contents in the last bytes.
    """
    digest = sha256(repr(columns).encode())
    for table in tables:
        frame = pl.DataFrame() if table is None else to_polars(table)
        digest.update(table_fingerprint(frame).encode())
    for path in paths:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - FOOTER, 0))
            digest.update(f"{Path(path).name} {size}".encode() + file.read())
    return digest.hexdigest()


# Reading.


def read(paths: Sequence[str], columns: PartColumns, device: torch.device) -> PartEvents:
    """Read and number the events of all files; numbers follow the order of first appearance."""
    users, items = (_Ids(device) for _ in range(2))
    contexts, others = _Situations(list(columns.context), device), _Others(columns.others)
    for frame in _frames(paths, columns.names):
        users.add(frame[columns.user])
        items.add(frame[columns.item])
        contexts.add(frame)
        others.add(frame)
    user_ids, user = users.numbered()
    item_ids, item = items.numbered()
    situation, listed = contexts.numbered(len(user))
    return PartEvents(user_ids, item_ids, user, item, situation, listed, others.joined())


def _frames(paths: Sequence[str], names: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the rows of all files, ROWS at a time; the next ones are read meanwhile."""
    pieces = [(path, first) for path in paths for first in range(0, _height(path, names), ROWS)]

    def piece(path: str, first: int) -> pl.DataFrame:
        rows = pl.scan_parquet(path, glob=False).select(names).slice(first, ROWS)
        return rows.drop_nulls(names[:2]).collect().rechunk()

    with ThreadPoolExecutor(1) as pool:
        ahead = [pool.submit(piece, *each) for each in pieces[:1]]
        for each in [*pieces[1:], None]:
            frame = ahead.pop().result() if ahead else None
            if each is not None:
                ahead.append(pool.submit(piece, *each))
            if frame is not None and len(frame):
                yield frame


def _height(path: str, names: Sequence[str]) -> int:
    """Return the number of rows of a file; raise DataError if a column is missing."""
    try:
        table = pl.scan_parquet(path, glob=False)
        missing = [name for name in names if name not in table.collect_schema().names()]
        if missing:
            raise DataError(f"{path} has no column {missing[0]!r}")
        return int(table.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path} is not a Parquet file: {str(error).splitlines()[0]}") from error


def _moved(values: pl.Series, device: torch.device) -> torch.Tensor:
    """Return whole numbers on the device, of a type that PyTorch computes with."""
    if values.dtype.is_unsigned_integer() and values.dtype != pl.UInt8:
        values = values.cast(pl.Int64)
    return tensor_of(values.to_numpy()).to(device)


class _Ids:
    """Numbers the ids of a column. Whole numbers are kept as they are until all are known.

    pieces: of whole numbers, the ids on the device; else the numbers in main memory.
    """

    def __init__(self, device: torch.device):
        self.device, self.pieces = device, list[torch.Tensor]()
        self.dtype: pl.DataType | None = None
        self.vocabulary: Vocabulary | None = None

    def add(self, values: pl.Series) -> None:
        """Add the ids of a piece."""
        if self.dtype is None:
            self.dtype = values.dtype
        _check_type(values, self.dtype)
        if self.dtype.is_integer() and self.dtype != pl.UInt64:
            moved = _moved(values, self.device)
            low, high = (int(edge) for edge in moved.aminmax())
            short = max(-low, high) <= NEVER
            self.pieces.append(moved.to(torch.int32) if short else moved)
            return
        known = self.vocabulary
        self.vocabulary = Vocabulary.of(values) if known is None else known.extend(values)
        self.pieces.append(torch.from_numpy(self.vocabulary.numbers(values)))

    def numbered(self) -> tuple[Vocabulary, np.ndarray]:
        """Return the vocabulary and the numbers of all ids: int32 [events]."""
        if not self.pieces:
            raise DataError("the parts have no events")
        if self.vocabulary is not None:
            return self.vocabulary, torch.cat(self.pieces).numpy()
        number_of, size, ids = self._places()
        first = torch.full((size,), NEVER, dtype=torch.int32, device=self.device)
        events = 0
        for piece in self.pieces:
            at = torch.arange(events, events + len(piece), dtype=torch.int32, device=self.device)
            first.scatter_reduce_(0, number_of(piece), at, "amin")
            events += len(piece)
        there = torch.nonzero(first < NEVER)[:, 0]
        there = there[torch.argsort(first[there])]
        first[there] = torch.arange(len(there), dtype=torch.int32, device=self.device)
        numbers = torch.empty(events, dtype=torch.int32, device=self.device)
        for part, piece in zip(numbers.split([len(p) for p in self.pieces]), self.pieces):
            part.copy_(first[number_of(piece)])
        self.pieces.clear()
        values = pl.Series(ids(there).cpu().numpy()).cast(self.dtype or pl.Int64)
        return Vocabulary(values), kept(numbers)

    def _places(self) -> tuple[Callable[[Any], Any], int, Callable[[Any], Any]]:
        """Return (the place of ids in a table, its size, the ids of places).

        The table has a place for every number between the ids, or for every id if they are sparse.
        """
        edges = [tuple(int(edge) for edge in piece.aminmax()) for piece in self.pieces]
        low, high = min(low for low, _ in edges), max(high for _, high in edges)
        if high - low < max(SPREAD * sum(map(len, self.pieces)), ROWS):
            return lambda p: p.long() - low, high - low + 1, lambda at: at + low
        distinct = torch.unique(self.pieces[0].long())
        for piece in self.pieces[1:]:
            distinct = torch.unique(torch.cat([distinct, torch.unique(piece.long())]))
        return (
            lambda p: torch.searchsorted(distinct, p.long()),
            len(distinct),
            lambda at: distinct[at],
        )


class _Others:
    """Collects weights and times, which stay as they are. names: of the columns, by role."""

    def __init__(self, names: dict[str, str]):
        self.names = names
        self.pieces: dict[str, list[pl.Series]] = {role: [] for role in names}

    def add(self, frame: pl.DataFrame) -> None:
        """Add the values of a piece."""
        for role, name in self.names.items():
            values, pieces = frame[name], self.pieces[role]
            if role == "weight":
                check_weights(values)
                values = values.cast(pl.Float32)
            elif pieces:
                _check_type(values, pieces[0].dtype)
            pieces.append(values)

    def joined(self) -> pl.DataFrame:
        """Return the columns of all events by role."""
        columns = {role: pl.concat(pieces).rechunk() for role, pieces in self.pieces.items()}
        if "timestamp" in columns:
            columns["timestamp"] = read_times(columns["timestamp"])
        return pl.DataFrame([values.alias(role) for role, values in columns.items()])


def _check_type(values: pl.Series, known: pl.DataType) -> None:
    """Refuse a column whose type differs between parts."""
    if values.dtype != known:
        raise DataError(
            f"column {values.name!r} holds {values.dtype} in one part and {known} in "
            "another: write all parts with the same types"
        )


class _Situations:
    """Numbers the distinct contexts of events. values: by column, its values and their codes."""

    def __init__(self, names: list[str], device: torch.device):
        self.names, self.device, self.pieces = names, device, list[torch.Tensor]()
        self.values: list[Vocabulary | None] = [None for _ in names]
        self.known: dict[tuple[int, ...], int] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Number the contexts of a piece, new ones in their order."""
        if not self.names:
            return
        codes = [self._codes(number, frame[name]) for number, name in enumerate(self.names)]
        together = torch.zeros_like(codes[0])
        rows: list[tuple[int, ...]] = [()]
        for code in codes:
            pairs, together = torch.unique(together << 32 | (code + 1), return_inverse=True)
            rows = [(*rows[pair >> 32], (pair & 0xFFFFFFFF) - 1) for pair in pairs.cpu().tolist()]
        first = torch.full((len(rows),), len(together), dtype=torch.int64, device=self.device)
        at = torch.arange(len(together), device=self.device)
        first.scatter_reduce_(0, together, at, "amin")
        for row in torch.argsort(first).tolist():
            self.known.setdefault(rows[row], len(self.known))
        number = torch.tensor([self.known[row] for row in rows], dtype=torch.int32)
        self.pieces.append(number.to(self.device)[together])

    def _codes(self, number: int, values: pl.Series) -> torch.Tensor:
        """Return a code for each value of a column, -1 for a missing one: int64 on the device."""
        if values.dtype.is_float() or values.dtype.is_temporal() or values.dtype.is_nested():
            raise OptionError(
                f"{named('context')} of parts must be text, whole numbers or true and false, but "
                f"{values.name!r} holds {values.dtype}: write it as such, an hour or a bin"
            )
        if values.dtype.is_integer() and not values.null_count():
            distinct, position = torch.unique(_moved(values, self.device), return_inverse=True)
            codes = self._extended(
                number, pl.Series(values.name, distinct.cpu().numpy(), values.dtype)
            )
            return torch.from_numpy(codes).to(self.device).long()[position]
        return torch.from_numpy(self._extended(number, values)).to(self.device).long()

    def _extended(self, number: int, values: pl.Series) -> np.ndarray:
        """Add the values of a column that are new; return the codes of all."""
        known = self.values[number]
        vocabulary = Vocabulary.of(values) if known is None else known.extend(values)
        self.values[number] = vocabulary
        return vocabulary.numbers(values)

    def numbered(self, events: int) -> tuple[np.ndarray, pl.DataFrame]:
        """Return the number of each event's context, int32 [events], and the distinct contexts."""
        if not self.names:
            return np.broadcast_to(np.int32(0), events), pl.DataFrame()
        codes = np.array(list(self.known), np.int64)
        columns = []
        for name, vocabulary, code in zip(self.names, self.values, codes.T):
            assert vocabulary is not None
            places = pl.Series(code).replace(-1, None)
            columns.append(vocabulary.ids.gather(places).alias(name))
        return kept(torch.cat(self.pieces)), pl.DataFrame(columns)
