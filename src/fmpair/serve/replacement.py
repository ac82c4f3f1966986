"""Whether a new model file can take the place of the model in service."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from fmpair.errors import ModelFileError
from fmpair.models.catalog import Model

FEW = 20  # users; fewer say nothing
MIN_KNOWN = 0.1  # of the users whom the old model knows
SAMPLE = 1_000  # users of the old model, asked for if there were few requests
ANYWAY = "restart the service to use it anyway"


def check_regular(path: Path) -> None:
    """Refuse what is not a file: opening a pipe would wait for its writer, perhaps forever."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # who reads it says why
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a file"
        raise ModelFileError(f"cannot read model {str(path)!r}: it is {kind}")


def check_replacement(old: Model, new: Model, recent: Iterable[Any]) -> None:
    """Refuse a model for whom requests that are answered now would fail.

    recent: users of the last requests.
    """
    for what, mine, other in (
        ("user", old.space.users, new.space.users),
        ("item", old.space.items, new.space.items),
    ):
        before, after = _kind(mine.ids.dtype), _kind(other.ids.dtype)
        if before != after:
            raise ModelFileError(f"its {what} ids are {after}, not {before}; {ANYWAY}")
    missing = sorted(set(old.space.context) - set(new.space.context))
    if missing:
        raise ModelFileError(f"it does not know the context {', '.join(missing)}; {ANYWAY}")
    users = _known(old, dict.fromkeys(recent))
    if len(users) < FEW:
        ids = old.space.users.ids
        users = ids.gather_every(max(len(ids) // SAMPLE, 1)).to_list()
    known = len(_known(new, users))
    if len(users) >= FEW and known < MIN_KNOWN * len(users):
        raise ModelFileError(f"it knows {known} of the last {len(users)} users; {ANYWAY}")


def _known(model: Model, users: Iterable[Any]) -> list[Any]:
    asked = list(users)
    numbers = model.id_lookup.users.numbers(asked)
    return [user for user, number in zip(asked, numbers.tolist()) if number >= 0]


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_numeric():
        return "numbers"
    return "times" if dtype.is_temporal() else "texts"
