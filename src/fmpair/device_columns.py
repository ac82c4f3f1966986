"""Long columns of events counted and sorted by PyTorch on the device of a fit, and products.

The results are those of `arrays`, which calls these functions inside `layout_on`. Sums of whole
numbers do not depend on their order, so that the same columns always give the same arrays. The
products of dense matrices (`matrices`) are those of NumPy but for rounding.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from fmpair.arrays import Rows, columns_device, long_columns_on, starts

AT_ONCE = 1 << 27  # entries counted or sorted at a time; sorting takes some 40 bytes each


def layout_on(device: str) -> AbstractContextManager[None]:
    """Count and sort long columns on a device of PyTorch inside the block."""
    return long_columns_on(TorchColumns(torch.device(device)))


class TorchColumns:
    """Operations on columns of a device. Columns are copied to it once, while the object lives."""

    def __init__(self, device: torch.device):
        self.device = device
        self._kept: dict[tuple[Any, ...], tuple[np.ndarray, torch.Tensor]] = {}

    def moved(self, column: np.ndarray) -> torch.Tensor:
        """Return a column on the device; it must not change afterwards."""
        if _key(column) not in self._kept:
            self.keep(column, tensor_of(column).to(self.device))
        return self._kept[_key(column)][1]

    def keep(self, column: np.ndarray, tensor: torch.Tensor) -> None:
        """Take a tensor of the device as the copy of a column."""
        self._kept[_key(column)] = column, tensor

    def tally(
        self, numbers: np.ndarray, size: int, weights: np.ndarray | None = None
    ) -> np.ndarray | None:
        """See `arrays.tally`; None for weights whose sums would depend on their order."""
        if weights is None:
            return counts(self.moved(numbers), size).cpu().numpy()
        whole = self.moved(weights).long()
        if not torch.equal(whole.to(self.moved(weights).dtype), self.moved(weights)):
            return None
        total = torch.zeros(size, dtype=torch.int64, device=self.device)
        total.index_add_(0, self.moved(numbers).long(), whole)
        return total.double().cpu().numpy()

    def distinct_pairs(self, owner: np.ndarray, index: np.ndarray, count: int) -> Rows:
        """See `arrays.distinct_pairs`."""
        owners, indices = self.moved(owner), self.moved(index)
        column, value = (room(len(owner), kind) for kind in (torch.int32, torch.float32))
        last = first = 0
        lengths, done = [], 0
        for first, last in self._ranges(owners, count):
            mine = slice(None) if last - first == count else (owners >= first) & (owners < last)
            key = (owners[mine].long() - first << 32) | indices[mine]
            pairs, times = torch.unique(key, return_counts=True)
            lengths.append(counts(pairs >> 32, last - first).cpu().numpy())
            part = slice(done, done + len(pairs))
            index, times = (pairs & 0xFFFFFFFF).to(torch.int32), times.to(torch.float32)
            column[part].copy_(index)
            value[part].copy_(times)
            done = part.stop
        columns, values = column[:done].numpy(), value[:done].numpy()
        if done and last - first == count:
            self.keep(columns, index)
            self.keep(values, times)
        return Rows(starts(np.concatenate(lengths)), columns, values)

    def _ranges(self, owners: torch.Tensor, count: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of owners with at most AT_ONCE entries each, or one owner."""
        if len(owners) <= AT_ONCE:
            yield 0, count
            return
        start = starts(counts(owners, count).cpu().numpy())
        first = 0
        while first < count:
            last = int(np.searchsorted(start, start[first] + AT_ONCE, "right")) - 1
            last = min(max(last, first + 1), count)
            yield first, last
            first = last

    def multiples(self, numbers: np.ndarray, step: int) -> np.ndarray:
        """See `arrays.multiples`."""
        return torch.nonzero(self.moved(numbers) % step == 0)[:, 0].cpu().numpy()

    def order(self, major: np.ndarray, minor: np.ndarray) -> np.ndarray:
        """See `arrays.order_by`."""
        owners, keys = self.moved(major), tensor_of(minor).to(self.device)
        out, done = room(len(major), torch.int32), 0
        for first, last in self._ranges(owners, int(owners.max()) + 1):
            mine = torch.nonzero((owners >= first) & (owners < last))[:, 0]
            order = mine[torch.argsort(keys[mine], stable=True)]
            order = order[torch.argsort(owners[order], stable=True)]
            out[done : done + len(order)].copy_(order)
            done += len(order)
        return out.numpy()

    def latest_true(self, flags: np.ndarray) -> np.ndarray:
        """See `arrays.latest_true`."""
        places = torch.arange(len(flags), device=self.device, dtype=torch.int32)
        places = places.mul_(tensor_of(flags).to(self.device))
        return places.cummax(0).values.cpu().numpy()

    def product(
        self, left: np.ndarray, right: np.ndarray, transposed: bool, keep: bool
    ) -> np.ndarray:
        """See `matrices.product`."""
        if right is left and transposed and not keep:
            return in_main_memory(sum(piece.T @ piece for piece in self._pieces(left, False)))
        other = tensor_of(right).to(self.device)
        if not transposed:
            return _joined([piece @ other for piece in self._pieces(left, keep)])
        parts = other.split(_rows_at_once(left))
        return in_main_memory(sum(a.T @ b for a, b in zip(self._pieces(left, keep), parts)))

    def product_of_squares(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """See `matrices.product_of_squares`."""
        other = tensor_of(right).to(self.device)
        return _joined([piece.square() @ other for piece in self._pieces(left, True)])

    def solved(self, square: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """See `matrices.solved`."""
        wanted = tensor_of(rows).to(self.device)
        return in_main_memory(torch.linalg.solve(tensor_of(square).to(self.device), wanted.T).T)

    def _pieces(self, matrix: np.ndarray, keep: bool) -> Iterator[torch.Tensor]:
        """Yield the rows of a matrix on the device; keep: what fits into a single piece."""
        most = _rows_at_once(matrix)
        if keep and len(matrix) <= most:
            yield self.moved(matrix)
            return
        for piece in tensor_of(matrix).split(most):
            yield piece.to(self.device)


def stored(column: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return a column on a device, that of the layout if it is there already."""
    layout = columns_device()
    if isinstance(layout, TorchColumns) and layout.device == device:
        return layout.moved(column)
    return tensor_of(column).to(device)


def tensor_of(column: np.ndarray) -> torch.Tensor:
    """Return a column as a tensor in main memory that must not be changed.

    It is copied only if it has gaps or is broadcast.
    """
    column = column if column.flags.c_contiguous else np.array(column)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(column)


def in_main_memory(tensor: torch.Tensor) -> np.ndarray:
    """Return a copy of a tensor in main memory, C-contiguous."""
    return room(tensor.shape, tensor.dtype).copy_(tensor).numpy()


def room(shape: int | torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """Allocate a column in main memory, whose pages all threads touch: one takes far longer."""
    return torch.empty(shape, dtype=dtype).zero_()


def _rows_at_once(matrix: np.ndarray) -> int:
    """Return how many rows of a matrix are multiplied at a time."""
    return max(AT_ONCE // max(matrix.shape[1], 1), 1)


def _joined(parts: list[torch.Tensor]) -> np.ndarray:
    """Return rows of a device in main memory."""
    return in_main_memory(parts[0] if len(parts) == 1 else torch.cat(parts))


def counts(numbers: torch.Tensor, size: int) -> torch.Tensor:
    """Count each number below `size`: int64 [size]."""
    total = torch.zeros(size, dtype=torch.int64, device=numbers.device)
    for piece in numbers.split(AT_ONCE):
        total += torch.bincount(piece, minlength=size)
    return total


def kept(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor as a column in main memory, and keep it for the layout of its device."""
    column = in_main_memory(tensor)
    layout = columns_device()
    if isinstance(layout, TorchColumns) and layout.device == tensor.device:
        layout.keep(column, tensor)
    return column


def _key(column: np.ndarray) -> tuple[Any, ...]:
    """Return what identifies a column in memory."""
    return column.__array_interface__["data"][0], column.shape, column.strides, column.dtype
