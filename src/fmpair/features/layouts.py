"""Features with which a factorization machine mimics another, named model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data import Dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError, OptionError, listing, named, unknown

# Source-domain items as features of a user: the cross-domain layout of FM-Pair.


CHOICES = ("random", "popular", "rated")
SOURCE = "source_"  # what the column of a source domain begins with


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
    """The events of the target domain, with each user's items of every other domain as attributes.

    Each source domain becomes a multi-valued user column `source_<domain>` of at most `most` items:
    random ones, the most popular, or the highest rated. The values of those listed sum to one
    per domain; Field(normalize=False) makes them binary.
    everyone: users without an event in the target stay too, known by their attributes.
    share_of_all: the items come with the paper's weight, one by the number of *all* the user's
        items of the domain, listed or not; Field(normalize=False) keeps it as it is.
    """
    if "domain" not in data.columns.columns:
        raise DataError("cross-domain features need a domain column, and the data have none")
    if choose not in CHOICES:
        raise OptionError(f"choose must be one of {listing(CHOICES)}, not {choose!r}")
    if choose == "rated" and "rating" not in data.columns.columns:
        raise DataError(f"{named('choose', 'rated')} needs a rating column, and the data have none")
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
    """The events and items of one domain, and its users; everyone: all users."""
    kept = data.take(_where(data.columns["domain"], domain))
    small = kept.compact()
    if not everyone:
        return small
    return replace(small, users=kept.users, user=kept.user, user_table=kept.user_table)


def _where(values: pl.Series, value: str) -> np.ndarray:
    return np.flatnonzero((values == value).fill_null(False).to_numpy())


def _lists(data: Dataset, picked: pl.DataFrame, weighted: bool) -> pl.Series:
    """The picked items' ids as one list per user of the data, null where there are none.

    weighted: each id as a struct with its `weight`.
    """
    ids = pl.Series("id", data.items.take(picked["item"].to_numpy()))
    named = picked.select("user", ids, weight=1 / pl.col("of"))
    lists = named.group_by("user").agg(pl.struct("id", "weight") if weighted else pl.col("id"))
    every = pl.DataFrame({"user": np.arange(len(data.users), dtype=np.int32)})
    return every.join(lists, on="user", how="left", maintain_order="left").to_series(1)


def _picked(source: Dataset, most: int, choose: str, seed: int) -> pl.DataFrame:
    """At most `most` distinct items per user of one source domain: numbers, the best first.

    Column `of`: how many distinct items of the domain the user has in all.
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
