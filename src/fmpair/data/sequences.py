"""Sequence files: lines of a user and their items, oldest first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fmpair.data.dataset import Dataset
from fmpair.data.histories import histories
from fmpair.data.lightgcn import lightgcn_lines, read_lightgcn
from fmpair.data.parts import by_time_order
from fmpair.data.source import Contents


def read_sequences(path: str | Path) -> Contents:
    """One event per item of a line ``user item item ...``, oldest first.

    Of a user with several lines the later ones are later. Nothing is known of the order of events
    of different users.
    """
    return replace(read_lightgcn(path), roles={"order": "per-user"})


def sequence_lines(data: Dataset) -> bytes:
    """The events as lines of a user and all items, oldest first; users by first appearance."""
    oldest_first = histories(data.user, by_time_order(data)).row
    return lightgcn_lines(data.take(oldest_first))
