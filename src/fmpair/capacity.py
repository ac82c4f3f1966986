"""Checks that data and models fit into memory, before it is allocated."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fmpair.errors import OptionError

COPIES = 3  # of every vector during training: itself, its optimizer state, the best model
LARGEST = 1 << 100  # bytes, shown at most; options may have any number of digits
UNKNOWN = 8 << 30  # bytes, where the system does not tell
GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


def memory() -> int:
    """Return the bytes of memory this process may use: of the machine, or a lower limit."""
    limits = [UNKNOWN]
    with suppress(AttributeError, ValueError, OSError):
        limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(ValueError, OSError):  # "max" where there is no limit
        limits.append(int(GROUP_LIMIT.read_text()))
    with suppress(ImportError):  # Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits += [limit] if limit != resource.RLIM_INFINITY else []
    return min(limits)


def check_memory(what: str, size: str, needed: int, most_gb: float | None, remedy: str) -> None:
    """Raise if `needed` bytes for data of a size, such as `20,000 items`, exceed most_gb or all
    memory."""
    allowed = memory() / 2**30 if most_gb is None else most_gb
    gigabytes = min(needed, LARGEST) / 2**30
    if gigabytes > allowed:
        limit = f"{allowed:,.3g} GB are {'available' if most_gb is None else 'allowed'}"
        raise OptionError(f"{what} needs {gigabytes:,.1f} GB for {size}, but {limit}: {remedy}")


def check_vectors(rows: int, factors: int, machines: int = 1) -> None:
    """Raise if vectors of `rows` ids and values do not fit; machines: kept at once, for a mean."""
    needed = 4 * (COPIES + machines - 1) * rows * (factors + 1)
    size = f"{rows:,} vectors of {factors:,} factors" + f", {machines:,} times" * (machines > 1)
    remedy = "lower factors" + ", starts or samples" * (machines > 1)
    check_memory("training", size, needed, None, remedy)


def check_negatives(n_negatives: int, factors: int, threads: int) -> None:
    """Raise if the lists of negatives do not fit."""
    needed = 4 * threads * n_negatives * (factors + 10)
    size = f"{n_negatives:,} negatives of {factors:,} factors on {threads:,} threads"
    check_memory("training", size, needed, None, "lower n_negatives or factors")


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """Raise if a table of all pairs of items is larger than allowed."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
