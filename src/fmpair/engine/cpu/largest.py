"""The largest number of a table, in one pass: it is asked after every epoch."""

from __future__ import annotations

import numpy as np

from fmpair.jit import kernel

VALUE = np.uint32(0x7FFFFFFF)  # all bits of a float32 but its sign


def largest(table: np.ndarray) -> float:
    """The largest absolute value of a float32 table in one piece; NaN if there is one."""
    bits = _largest_bits(table.reshape(-1).view(np.uint32))
    return float(np.uint32(bits).view(np.float32))


@kernel
def _largest_bits(bits):
    """Without the sign, bits stand in the order of the numbers; after all of them NaN."""
    most = np.uint32(0)
    for n in range(len(bits)):
        value = np.uint32(bits[n] & VALUE)
        most = value if value > most else most
    return most
