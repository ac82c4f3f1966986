"""How much memory there is, asked before it is taken."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fmpair.errors import OptionError

COPIES = 3  # of every vector while it is learned: itself, its optimizer, the model that is kept
LARGEST = 1 << 100  # bytes that are told apart; a number may have any number of digits
UNKNOWN = 8 << 30  # bytes, where the system does not say
GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the container this process lives in


def memory() -> int:
    """Bytes of memory this process may take: the machine's, or less where a limit is set."""
    found = [UNKNOWN]
    with suppress(AttributeError, ValueError, OSError):
        found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(ValueError, OSError):  # "max" where there is no limit
        found.append(int(GROUP_LIMIT.read_text()))
    with suppress(ImportError):  # Windows
        import resource

        own = resource.getrlimit(resource.RLIMIT_AS)[0]
        found += [own] if own != resource.RLIM_INFINITY else []
    return min(found)


def check_memory(what: str, size: str, needed: int, most_gb: float | None, remedy: str) -> None:
    """Refuse what cannot fit before it is begun.

    needed: bytes for data of the size, such as `20,000 items`; most_gb: None for all there is;
    remedy: what would help.
    """
    allowed = memory() / 2**30 if most_gb is None else most_gb
    gigabytes = min(needed, LARGEST) / 2**30
    if gigabytes > allowed:
        there = "are there" if most_gb is None else "are allowed"
        raise OptionError(
            f"{what} needs {gigabytes:,.1f} GB for {size}, and {allowed:,.3g} GB {there}: {remedy}"
        )


def check_vectors(rows: int, factors: int, machines: int = 1) -> None:
    """Refuse vectors that cannot fit: of `rows` users, items and values of fields.

    machines: how many of all of them are kept at once, where a model is the mean of several.
    """
    needed = 4 * (COPIES + machines - 1) * rows * (factors + 1)
    size = f"{rows:,} vectors of {factors:,} factors" + f", {machines:,} times" * (machines > 1)
    remedy = "lower factors" + ", starts or samples" * (machines > 1)
    check_memory("training", size, needed, None, remedy)


def check_negatives(n_negatives: int, factors: int, threads: int) -> None:
    """Refuse lists of negatives that no thread can hold."""
    needed = 4 * threads * n_negatives * (factors + 10)
    size = f"{n_negatives:,} negatives of {factors:,} factors on {threads:,} threads"
    check_memory("training", size, needed, None, "lower n_negatives or factors")


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """Refuse a table of all pairs of items that is larger than allowed."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
