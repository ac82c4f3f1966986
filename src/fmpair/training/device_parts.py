"""Fitting to Parquet files on one device: read part by part, ids numbered by PyTorch.

Only one part is a frame at a time. The numbered events take 12 bytes each in main memory, and as
many on the device where they fit.
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
from fmpair.data.vocabulary import Vocabulary
from fmpair.device import CUDA, layout_on, resolve_device
from fmpair.device_columns import kept, tensor_of
from fmpair.errors import DataError, OptionError, named
from fmpair.features import FeatureSpace
from fmpair.training.defaults import factors_of
from fmpair.training.loop import Task, TrainingRun, started
from fmpair.training.options import FMPairOptions
from fmpair.training.problem import check_trainable, problem_of

ROWS = 1 << 24  # of a part that are read at a time
SPREAD = 4  # a table of whole ids has at most so many places for each event
FOOTER = 1 << 16  # bytes at the end of a file that tell it from another
NEVER = np.iinfo(np.int32).max


class PartEvents(NamedTuple):
    """The events of all parts: int32 [events]. frame: the distinct contexts, in order."""

    users: Vocabulary
    items: Vocabulary
    user: np.ndarray
    item: np.ndarray
    situation: np.ndarray
    frame: pl.DataFrame


def run_of(
    recipe: Any,
    options: FMPairOptions,
    paths: Sequence[str],
    ids: tuple[str, str],
    context: Sequence[str],
) -> TrainingRun:
    """Read the events and return their training, before the first epoch."""
    device = torch.device(CUDA if resolve_device(options.device) == CUDA else "cpu")
    with layout_on(options.device):
        events = read(paths, ids, context, device)
        options = replace(options, factors=factors_of(options, len(events.user)))
        return started(_task(recipe, options, events, ids))


def _task(recipe: Any, options: FMPairOptions, events: PartEvents, ids: tuple[str, str]) -> Task:
    users, items, user, item, situation, frame = events
    data = Dataset(users, items, user, item, pl.DataFrame(), id_columns=ids)
    check_trainable(data)
    none = np.zeros(len(frame), np.int32)
    names = tuple(frame.columns)
    listed = Dataset(users, items, none, none, frame, names, id_columns=ids)
    codes = {name: "categorical" for name in names if frame[name].dtype.is_integer()}
    space = FeatureSpace.fit(listed, codes, options.normalize).with_pairing(options.pairing)
    rows = space.context_rows(frame)[0] if names else None
    problem = problem_of(options, space, data, None, None if rows is None else (rows, situation))
    return Task(recipe, options, space, problem, data.frame_kind)


def fingerprint(paths: Sequence[str], columns: Sequence[str]) -> str:
    """Return a hash of the names, sizes and last bytes of files, where Parquet describes them."""
    digest = sha256(repr(list(columns)).encode())
    for path in paths:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - FOOTER, 0))
            digest.update(f"{Path(path).name} {size}".encode() + file.read())
    return digest.hexdigest()


# Reading.


def read(
    paths: Sequence[str], ids: tuple[str, str], context: Sequence[str], device: torch.device
) -> PartEvents:
    """Read and number the events of all files; numbers follow the order of first appearance."""
    names = [*ids, *context]
    users, items = (_Ids(device) for _ in ids)
    contexts = _Situations(list(context), device)
    for frame in _frames(paths, names):
        users.add(frame[ids[0]])
        items.add(frame[ids[1]])
        contexts.add(frame)
    user_ids, user = users.numbered()
    item_ids, item = items.numbered()
    return PartEvents(user_ids, item_ids, user, item, *contexts.numbered(len(user)))


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
        if values.dtype != self.dtype:
            raise DataError(
                f"column {values.name!r} holds {values.dtype} in one part and {self.dtype} in "
                "another: write all parts with the same types"
            )
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
