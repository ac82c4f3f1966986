"""How much memory there is, asked before it is taken."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fmpair.errors import OptionError

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
