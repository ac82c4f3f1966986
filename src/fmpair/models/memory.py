"""Memory asked about before it is taken."""

from __future__ import annotations

from fmpair.capacity import check_memory

COPIES = 3  # of every vector while it is learned: itself, its pace, and the model that is kept


def check_vectors(rows: int, factors: int) -> None:
    """Refuse vectors that cannot fit: `rows` users, items and values of fields."""
    needed = 4 * COPIES * rows * (factors + 1)
    size = f"vectors of {factors:,} factors for {rows:,} users, items and values"
    check_memory("training", size, needed, None, "lower factors")


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """Refuse a table of all pairs of items that is larger than allowed."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
