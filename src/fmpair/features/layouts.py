"""Features with which a factorization machine mimics another, named model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, unknown

HISTORY = "history"


def columns_of(data: Dataset) -> dict[str, tuple[str, str]]:
    """All columns that become features, as role.name -> (role, name); roles as in Field options."""
    places = [
        ("context", data.context),
        ("user", data.user_table.columns),
        ("item", data.item_table.columns),
    ]
    return {f"{role}.{name}": (role, name) for role, names in places for name in names}


def named_columns(data: Dataset, names: Sequence[str]) -> list[str]:
    """The columns meant by names, each as role.name; a bare name must be one column's."""
    every, found = columns_of(data), []
    for given in names:
        places = [key for key, (_, name) in every.items() if given in (key, name)]
        if not places:
            raise DataError(unknown("column", given, [name for _, name in every.values()]))
        if len(places) > 1:
            raise DataError(f"column {given!r} is ambiguous: say {' or '.join(places)}")
        found += places
    return found


def without_columns(data: Dataset, names: Sequence[str]) -> Dataset:
    """The data without some columns of context or attributes."""
    left_out = {columns_of(data)[key] for key in named_columns(data, names)}

    def gone(role: str) -> list[str]:
        return [name for r, name in left_out if r == role]

    return replace(
        data,
        columns=data.columns.drop(gone("context")),
        context=tuple(name for name in data.context if name not in gone("context")),
        user_table=data.user_table.drop(gone("user")),
        item_table=data.item_table.drop(gone("item")),
    )


def with_histories(
    data: Dataset, seen: Rows | None = None, items: Vocabulary | None = None, power: float = 0.5
) -> Dataset:
    """With each user's n items as the user's attribute `history`, each of value n^-power.

    Beside the user's own vector this is SVD++ (power 0.5); without one it is the factorised item
    neighbourhood.
    seen, items: per user the distinct items, as numbers of a vocabulary; those of the events
    unless given.
    """
    if HISTORY in data.user_table.columns:
        raise DataError(f"the user table has a column {HISTORY!r} already: rename it")
    seen, items = seen or data.seen, items or data.items
    value = np.maximum(np.diff(seen.start), 1.0) ** -power
    entries = pl.DataFrame(
        {"user": seen.owner, "name": items.take(seen.column), "weight": value[seen.owner]}
    )
    lists = entries.group_by("user").agg(pl.struct("name", "weight").alias(HISTORY))
    every = pl.DataFrame({"user": np.arange(len(data.users))})
    column = every.join(lists, on="user", how="left", maintain_order="left")[HISTORY]
    table = data.user_table
    table = table.with_columns(column) if table.width else column.to_frame()
    return replace(data, user_table=table)


def joined(relations: dict[str, Dataset]) -> Dataset:
    """The events of several relations of the same users as one, `domain` naming each.

    Users have one vector in all of them: joint matrix factorization. Items are separate by
    relation, as text `relation:id`.
    """
    frames = [
        data.frame().select(
            pl.col("user"),
            pl.concat_str(pl.lit(f"{name}:"), pl.col("item").cast(pl.String)).alias("item"),
            pl.lit(name).alias("domain"),
        )
        for name, data in relations.items()
    ]
    return Dataset.from_frame(pl.concat(frames))
