"""Memory asked about before it is taken."""

from __future__ import annotations

from fmpair.capacity import check_memory

COPIES = 3  # of every vector while it is learned: itself, its pace, and the model that is kept


def check_vectors(rows: int, factors: int, machines: int = 1) -> None:
    """Refuse vectors that cannot fit: of `rows` users, items and values of fields.

    machines: how many of all of them are kept at once, where a model is the mean of several.
    """
    needed = 4 * (COPIES + machines - 1) * rows * (factors + 1)
    size = f"{rows:,} vectors of {factors:,} factors" + f", {machines:,} times" * (machines > 1)
    remedy = "lower factors" + ", starts or samples" * (machines > 1)
    check_memory("training", size, needed, None, remedy)


def check_candidates(candidates: int, factors: int, threads: int) -> None:
    """Refuse lists of candidates that no thread can hold."""
    needed = 4 * threads * candidates * (factors + 10)
    size = f"{candidates:,} candidates of {factors:,} factors on {threads:,} threads"
    check_memory("training", size, needed, None, "lower candidates or factors")


def check_item_pairs(what: str, items: int, bytes_each: int, max_gb: float) -> None:
    """Refuse a table of all pairs of items that is larger than allowed."""
    remedy = "raise max_gb, or filter the events to a denser core first"
    check_memory(what, f"{items:,} items", bytes_each * items**2, max_gb, remedy)
