"""Feature layouts with which a factorization machine equals other models.

`with_sources`: cross-domain FM; `with_histories`: SVD++; `joined`: joint matrix factorization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, listing, named, unknown
from fmpair.features.history_fields import HISTORY

CHOICES = ("random", "popular", "rated")
SOURCE = "source_"  # prefix of the column of a source domain


def with_sources(
    data: Dataset,
    target: str,
    *,
    most: int = 20,
    choose: str = "random",
    seed: int = 0,
    everyone: bool = False,
    share_of_all: bool = False,
) -> Dataset:
    """Return the events of the target domain, with users' items of other domains as attributes.

    Each source domain becomes a multi-valued user column `source_<domain>` of at most `most` items:
    random ones, the most popular, or the highest rated. Their values sum to one per domain;
    Field(normalize=False) makes them binary.
    everyone: keep users without events in the target domain.
    share_of_all: weight the items as in the paper, by one over the number of *all* items of the
        user in the domain; use it with Field(normalize=False).
    """
    if "domain" not in data.columns.columns:
        raise DataError(
            "cross-domain features need a domain column: name it with " + named("domain", ...)
        )
    if choose not in CHOICES:
        raise OptionError(f"choose must be one of {listing(CHOICES)}, not {choose!r}")
    if choose == "rated" and "rating" not in data.columns.columns:
        raise DataError(f"{named('choose', 'rated')} needs a rating column, but there is none")
    if not (isinstance(most, int) and most >= 1):
        raise OptionError(f"most must be a whole number of at least 1, not {most!r}")
    domain_of = data.columns["domain"]
    domains = domain_of.drop_nulls().unique(maintain_order=True).to_list()
    if target not in domains:
        raise DataError(unknown("domain", target, domains))
    table = data.user_table
    for domain in sorted(d for d in domains if d != target):
        source = data.take(_where(domain_of, domain))
        picked = _picked(source, most, choose, seed)
        lists = _lists(data, picked, share_of_all).alias(f"{SOURCE}{domain}")
        if lists.name in table.columns:
            raise DataError(f"the user table has a column {lists.name!r} already: rename it")
        table = table.with_columns(lists) if table.width else lists.to_frame()
    return only_domain(replace(data, user_table=table), target, everyone)


def only_domain(data: Dataset, domain: str, everyone: bool = False) -> Dataset:
    """Return the events, items and users of one domain; everyone: keep all users."""
    part = data.take(_where(data.columns["domain"], domain))
    small = part.compact()
    if not everyone:
        return small
    return replace(small, users=part.users, user=part.user, user_table=part.user_table)


def _where(values: pl.Series, value: str) -> np.ndarray:
    return np.flatnonzero((values == value).fill_null(False).to_numpy())


def _lists(data: Dataset, picked: pl.DataFrame, weighted: bool) -> pl.Series:
    """Return the ids of the picked items as a list per user, null if there are none.

    weighted: each id is a struct with its `weight`.
    """
    ids = pl.Series("id", data.items.take(picked["item"].to_numpy()))
    named = picked.select("user", ids, weight=1 / pl.col("of"))
    lists = named.group_by("user").agg(pl.struct("id", "weight") if weighted else pl.col("id"))
    every = pl.DataFrame({"user": np.arange(len(data.users), dtype=np.int32)})
    return every.join(lists, on="user", how="left", maintain_order="left").to_series(1)


def _picked(source: Dataset, most: int, choose: str, seed: int) -> pl.DataFrame:
    """Return at most `most` distinct item numbers per user of one source domain, best first.

    Column `of`: the number of all distinct items of the user in the domain.
    """
    events = pl.DataFrame({"user": source.user, "item": source.item})
    if choose == "rated":
        events = events.with_columns(source.columns["rating"])
    pairs = events.group_by("user", "item", maintain_order=True).agg(pl.all().max())
    worth = {"random": pl.lit(0), "popular": pl.len().over("item"), "rated": pl.col("rating")}
    chance = np.random.default_rng(seed).random(len(pairs))
    pairs = pairs.with_columns(
        worth[choose].alias("worth"), pl.Series("chance", chance), of=pl.len().over("user")
    )
    ordered = pairs.sort("user", "worth", "chance", descending=[False, True, True])
    return ordered.group_by("user", maintain_order=True).head(most)


def feature_columns(data: Dataset) -> dict[str, tuple[str, str]]:
    """Return all columns that become features as role.name -> (role, name)."""
    roles = {
        "context": data.context,
        "user": data.user_table.columns,
        "item": data.item_table.columns,
    }
    return {f"{role}.{name}": (role, name) for role, names in roles.items() for name in names}


def named_columns(data: Dataset, names: Sequence[str]) -> list[str]:
    """Return the columns with these names as role.name; a bare name must be unambiguous."""
    columns, keys = feature_columns(data), []
    for name in names:
        matches = [key for key, (_, column) in columns.items() if name in (key, column)]
        if not matches:
            raise DataError(unknown("column", name, [column for _, column in columns.values()]))
        if len(matches) > 1:
            raise DataError(f"column {name!r} is ambiguous: write {' or '.join(matches)}")
        keys += matches
    return keys


def without_columns(data: Dataset, names: Sequence[str]) -> Dataset:
    """Return the data without some context columns or attributes."""
    dropped: dict[str, list[str]] = {"context": [], "user": [], "item": []}
    for key in set(named_columns(data, names)):
        role, name = feature_columns(data)[key]
        dropped[role].append(name)
    return replace(
        data,
        columns=data.columns.drop(dropped["context"]),
        context=tuple(name for name in data.context if name not in dropped["context"]),
        user_table=data.user_table.drop(dropped["user"]),
        item_table=data.item_table.drop(dropped["item"]),
    )


def with_histories(
    data: Dataset, seen: Rows | None = None, items: Vocabulary | None = None, power: float = 0.5
) -> Dataset:
    """Return the data with each user's n items as user attribute `history`, of value n^-power.

    With a vector of the user this is SVD++ (power 0.5), without one the factorised item
    neighbourhood.
    seen, items: distinct items of each user and their vocabulary; by default of the events.
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
    """Return the events of several relations of the same users as one, with their names as domain.

    Users have one vector in all relations: joint matrix factorization. Items are separate, with
    ids `relation:id`.
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
