"""Fitting to Parquet files on one device: files are read in pieces, PyTorch numbers the ids.

At most two pieces are in memory as frames: one is numbered while the next is read. A numbered event
takes 8 bytes of main memory, 4 more with context, 4 more with weights and 8 more with times. Ids,
contexts and weights take as many bytes on the device if all events fit there.
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
from fmpair.training.visits import are_visits

ROWS = 1 << 24  # rows of a file that are read at a time
SPREAD = 4  # a lookup table of integer ids has at most this number of slots per event
FOOTER = 1 << 16  # bytes at the end of a file that its fingerprint includes
NEVER = np.iinfo(np.int32).max  # the first event of an id that has none
OTHERS = ("weight", "timestamp")  # columns with one value per event, which are not numbered


class PartColumns(NamedTuple):
    """The names of the columns of the parts, by role."""

    user: str
    item: str
    context: tuple[str, ...] = ()
    weight: str | None = None
    timestamp: str | None = None

    @property
    def others(self) -> dict[str, str]:
        """The columns of weights and times, by role."""
        return {role: name for role in OTHERS if (name := getattr(self, role)) is not None}

    @property
    def names(self) -> list[str]:
        return [self.user, self.item, *self.context, *self.others.values()]


class PartTables(NamedTuple):
    """The attribute tables of users and of items; None if there is none."""

    users: Any = None
    items: Any = None


NO_TABLES = PartTables()


class PartEvents(NamedTuple):
    """The numbered events of all parts.

    user, item, situation: int32 [events], the numbers of the user, the item and the context. frame:
    the distinct contexts, in the order of their numbers. columns: the weight and the timestamp of
    each event, if their columns are named.
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
    """Read the events and return a training run on them, before the first epoch."""
    device = torch.device(CUDA if resolve_device(options.device) == CUDA else "cpu")
    with layout_on(options.device):
        events = read(paths, columns, device)
        sized = replace(options, factors=factors_of(options, len(events.user)))
        task = _task(recipe, sized, events, columns, tables)
        return started(task.with_more_factors() if options.factors is None else task)


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
    recent, visits = recent_of(space, past), space.history is not None and are_visits(data)
    return Task(recipe, options, space, problem, data.frame_kind, recent=recent, visits=visits)


def _space(options: FMPairOptions, data: Dataset, frame: pl.DataFrame) -> FeatureSpace:
    """Return the feature space, fitted to the distinct contexts (frame) instead of all events."""
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
    """Return a hash of the tables, and of the names, sizes and last bytes of the files.

    A Parquet file ends with a description of its contents.
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
    """Yield the rows of all files, ROWS at a time; a thread reads the next piece meanwhile."""
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
    """Return integers on the device, in a type that PyTorch supports."""
    if values.dtype.is_unsigned_integer() and values.dtype != pl.UInt8:
        values = values.cast(pl.Int64)
    return tensor_of(values.to_numpy()).to(device)


class _Ids:
    """Numbers the ids of a column. Integer ids are numbered after all pieces have been read.

    pieces: integer ids on the device; the numbers of other ids, in main memory.
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
        slot_of, size, ids = self._slots()
        first = torch.full((size,), NEVER, dtype=torch.int32, device=self.device)
        events = 0
        for piece in self.pieces:
            at = torch.arange(events, events + len(piece), dtype=torch.int32, device=self.device)
            first.scatter_reduce_(0, slot_of(piece), at, "amin")
            events += len(piece)
        used = torch.nonzero(first < NEVER)[:, 0]
        used = used[torch.argsort(first[used])]
        first[used] = torch.arange(len(used), dtype=torch.int32, device=self.device)
        numbers = torch.empty(events, dtype=torch.int32, device=self.device)
        for part, piece in zip(numbers.split([len(p) for p in self.pieces]), self.pieces):
            part.copy_(first[slot_of(piece)])
        self.pieces.clear()
        values = pl.Series(ids(used).cpu().numpy()).cast(self.dtype or pl.Int64)
        return Vocabulary(values), kept(numbers)

    def _slots(self) -> tuple[Callable[[Any], Any], int, Callable[[Any], Any]]:
        """Return a lookup table of integer ids: (slots of ids, number of slots, ids of slots).

        The table has a slot for every integer from the lowest to the highest id. If ids are too
        sparse for that (SPREAD), it has a slot for every distinct id.
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
    """Collects weights and times, which are not numbered. names: the columns, by role."""

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
        """Return one frame of all events, with a column per role."""
        columns = {role: pl.concat(pieces).rechunk() for role, pieces in self.pieces.items()}
        if "timestamp" in columns:
            columns["timestamp"] = read_times(columns["timestamp"])
        return pl.DataFrame([values.alias(role) for role, values in columns.items()])


def _check_type(values: pl.Series, known: pl.DataType) -> None:
    """Raise DataError if the type of a column differs between parts."""
    if values.dtype != known:
        raise DataError(
            f"column {values.name!r} holds {values.dtype} in one part and {known} in "
            "another: write all parts with the same types"
        )


class _Situations:
    """Numbers the distinct contexts of events. values: the distinct values of each column."""

    def __init__(self, names: list[str], device: torch.device):
        self.names, self.device, self.pieces = names, device, list[torch.Tensor]()
        self.values: list[Vocabulary | None] = [None for _ in names]
        self.known: dict[tuple[int, ...], int] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Number the contexts of a piece; new contexts are numbered by first appearance."""
        if not self.names:
            return
        codes = [self._codes(number, frame[name]) for number, name in enumerate(self.names)]
        group = torch.zeros_like(codes[0])  # for each event, the row of `rows` with its context
        rows: list[tuple[int, ...]] = [()]
        for code in codes:
            pairs, group = torch.unique(group << 32 | (code + 1), return_inverse=True)
            rows = [(*rows[pair >> 32], (pair & 0xFFFFFFFF) - 1) for pair in pairs.cpu().tolist()]
        first = torch.full((len(rows),), len(group), dtype=torch.int64, device=self.device)
        at = torch.arange(len(group), device=self.device)
        first.scatter_reduce_(0, group, at, "amin")
        for row in torch.argsort(first).tolist():
            self.known.setdefault(rows[row], len(self.known))
        number = torch.tensor([self.known[row] for row in rows], dtype=torch.int32)
        self.pieces.append(number.to(self.device)[group])

    def _codes(self, number: int, values: pl.Series) -> torch.Tensor:
        """Return the code of each value of a column, -1 if it is missing: int64 on the device."""
        if values.dtype.is_float() or values.dtype.is_temporal() or values.dtype.is_nested():
            raise OptionError(
                f"{named('context')} of parts must be text, integer or Boolean columns, but "
                f"{values.name!r} holds {values.dtype}: convert it, for example to an hour or a bin"
            )
        if values.dtype.is_integer() and not values.null_count():
            distinct, position = torch.unique(_moved(values, self.device), return_inverse=True)
            codes = self._extended(
                number, pl.Series(values.name, distinct.cpu().numpy(), values.dtype)
            )
            return torch.from_numpy(codes).to(self.device).long()[position]
        return torch.from_numpy(self._extended(number, values)).to(self.device).long()

    def _extended(self, number: int, values: pl.Series) -> np.ndarray:
        """Add the new values of a column to its vocabulary; return the codes of all values."""
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
            known_codes = pl.Series(code).replace(-1, None)
            columns.append(vocabulary.ids.gather(known_codes).alias(name))
        return kept(torch.cat(self.pieces)), pl.DataFrame(columns)
