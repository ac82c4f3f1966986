"""Products of large dense matrices: on one BLAS thread, or on the device of a fit (`layout_on`).

On one thread they have the same bits on any number of threads. A device gives the same bits again
for the same shapes; they equal those of the thread but for rounding.
"""

from __future__ import annotations

import numpy as np

from fmpair.arrays import DeviceColumns, columns_device
from fmpair.threads import blas_on

LARGE = 1 << 24  # multiplications that are worth sending to a device


def product(
    left: np.ndarray, right: np.ndarray, transposed: bool = False, keep: bool = False
) -> np.ndarray:
    """Return left @ right, or left.T @ right if transposed.

    keep: whether the device keeps `left` until the end of `layout_on`; it must not change.
    """
    if device := _device(left.size * right.shape[1]):
        return device.product(left, right, transposed, keep)
    with blas_on(1):
        return (left.T if transposed else left) @ right


def product_of_squares(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left**2 @ right; the device keeps `left`, see `product`."""
    if device := _device(left.size):
        return device.product_of_squares(left, right)
    with blas_on(1):
        return left**2 @ right


def solved(square: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the solution X [rows, k] of X @ square = rows, for a symmetric matrix [k, k]."""
    if device := _device(rows.size * len(square)):
        return device.solved(square, rows)
    with blas_on(1):
        return np.linalg.solve(square, rows.T).T


def _device(multiplications: int) -> DeviceColumns | None:
    return columns_device() if multiplications >= LARGE else None
