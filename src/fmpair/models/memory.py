"""Memory asked about before it is taken."""

from __future__ import annotations

from fmpair.errors import OptionError


def check_memory(what: str, size: str, needed: int, most_gb: float, remedy: str) -> None:
    """Refuse what cannot fit before it is begun.

    needed: bytes for data of the size, such as `20,000 items`; remedy: what would help.
    """
    gigabytes = needed / 2**30
    if gigabytes > most_gb:
        raise OptionError(
            f"{what} needs {gigabytes:,.1f} GB for {size}, and {most_gb:,.3g} GB are allowed: "
            f"{remedy}"
        )


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """The same for a table of all pairs of items."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
