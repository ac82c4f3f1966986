"""Kernels: functions compiled when first called, and kept on disk for the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

# Not the flags that deny NaN: divergence must be seen.
FAST = {"reassoc", "contract", "arcp", "nsz", "afn"}


def kernel(function: Callable | None = None, **options: Any) -> Any:
    """A function compiled for the types it is called with; it does not hold the interpreter.

    options: those of numba.njit, such as fastmath.
    """
    make = njit(nogil=True, cache=True, **options)
    return make if function is None else make(function)


def inline(function: Callable) -> Any:
    """A small function that becomes a part of the kernels that call it."""
    return njit(nogil=True, inline="always")(function)
