"""Sparse rows on a device, and weighted sums of a table's rows whose gradients are always alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import embedding_bag

from fmpair.arrays import Rows

NARROW = 32  # entries of a row up to which all rows are taken to be as long as the longest
UNEVEN = 4  # or up to so many times the mean


class DeviceRows(NamedTuple):
    """`Rows` on a device. width: of the longest row, or 0 where rows are too uneven to be padded;
    longest: the same, however uneven they are.

    start, column: int64 [rows + 1], [entries]; value: float32 [entries].
    """

    start: torch.Tensor
    column: torch.Tensor
    value: torch.Tensor
    width: int
    longest: int

    @property
    def filled(self) -> bool:
        return len(self.column) > 0


class Bags(NamedTuple):
    """Which rows of a table are summed: [bags, width], or flat with the start of each bag."""

    column: torch.Tensor
    value: torch.Tensor
    start: torch.Tensor | None = None


def on_device(rows: Rows, device: torch.device) -> DeviceRows:
    """The rows, copied."""
    lengths = np.diff(rows.start)
    longest = int(lengths.max(initial=0))
    even = longest <= max(NARROW, UNEVEN * float(lengths.mean() if len(lengths) else 0))
    arrays = (rows.start, rows.column.astype(np.int64), rows.value)
    start, column, value = (
        torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays
    )
    return DeviceRows(start, column, value, longest if even else 0, longest)


def whole(rows: DeviceRows) -> Bags:
    """A bag for every row."""
    return Bags(rows.column, rows.value, rows.start)


def taken(rows: DeviceRows, which: torch.Tensor) -> Bags:
    """A bag for each row that is asked for; which: int64 [bags]."""
    first = rows.start[which]
    length = rows.start[which + 1] - first
    if rows.width:  # sizes are known beforehand, so the device need not be waited for
        step = torch.arange(rows.width, device=which.device)
        entry = (first[:, None] + step).clamp(max=len(rows.column) - 1)
        return Bags(rows.column[entry], rows.value[entry] * (step < length[:, None]))
    start = torch.cat([length.new_zeros(1), length.cumsum(0)])
    entry = torch.repeat_interleave(first - start[:-1], length)
    entry = entry + torch.arange(len(entry), device=which.device)
    return Bags(rows.column[entry], rows.value[entry], start)


def merged(bags: Bags) -> Bags:
    """Padded bags in which no column stands twice: its values are added up, in its last place."""
    column, order = torch.sort(bags.column, dim=1, stable=True)
    total = bags.value.gather(1, order).double().cumsum(1)
    last = torch.ones_like(column, dtype=torch.bool)
    last[:, :-1] = column[:, 1:] != column[:, :-1]
    place = torch.arange(column.shape[1], device=column.device).expand_as(column)
    end = torch.where(last, place, -1).cummax(1).values  # of the latest run of equal columns
    end = torch.cat([torch.full_like(end[:, :1], -1), end[:, :-1]], 1)
    before = torch.where(end >= 0, total.gather(1, end.clamp(min=0)), 0.0)
    return Bags(column, torch.where(last, total - before, 0.0).float())


def sums(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """Sum of value * table[column] of every bag: [bags, columns of the table].

    Gradients are summed by sorting, so that they have the same bits every time.
    """
    return embedding_bag(
        bags.column,
        table,
        bags.start,
        mode="sum",
        per_sample_weights=bags.value,
        include_last_offset=bags.start is not None,
    )


def sums_of_squares(table: torch.Tensor, bags: Bags) -> torch.Tensor:
    """The same of the squares: sum of (value * table[column])^2."""
    return sums(table.square(), bags._replace(value=bags.value.square()))
