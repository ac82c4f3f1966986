"""Source-domain items as features of a user: the cross-domain layout of FM-Pair."""

from __future__ import annotations

import numpy as np
import polars as pl

from fmpair.data import Dataset
from fmpair.errors import DataError, OptionError, listing, unknown

CHOICES = ("random", "popular", "rated")


def with_sources(
    data: Dataset, target: str, *, most: int = 20, choose: str = "random", seed: int = 0
) -> Dataset:
    """The events of the target domain, with each user's items of every other domain as attributes.

    Each source domain becomes a multi-valued user column `source_<domain>` of at most `most` items:
    random ones, the most popular, or the highest rated. Their values sum to one per domain
    (the paper's 1/|I_j(u)|); Field(normalize=False) makes them binary.
    """
    if "domain" not in data.columns.columns:
        raise DataError("cross-domain features need a domain column, and the data have none")
    if choose not in CHOICES:
        raise OptionError(f"choose must be one of {listing(CHOICES)}, not {choose!r}")
    events = data.frame()
    domains = events["domain"].unique(maintain_order=True).drop_nulls().to_list()
    if target not in domains:
        raise DataError(unknown("domain", target, domains))
    table = pl.DataFrame({"user": data.users.ids}).hstack(data.user_table)
    for domain in sorted(d for d in domains if d != target):
        picked = _picked(events.filter(pl.col("domain") == domain), most, choose, seed)
        lists = picked.group_by("user").agg(pl.col("item").alias(f"source_{domain}"))
        table = table.join(lists, on="user", how="left", maintain_order="left")
    rows = np.flatnonzero((events["domain"] == target).fill_null(False).to_numpy())
    inside = data.take(rows).compact()
    kept = table.filter(pl.col("user").is_in(inside.users.ids.implode()))
    return inside.with_users(kept)


def _picked(events: pl.DataFrame, most: int, choose: str, seed: int) -> pl.DataFrame:
    """At most `most` distinct items per user of one source domain."""
    pairs = events.group_by("user", "item", maintain_order=True).agg(
        pl.col("rating").max() if "rating" in events.columns else pl.lit(0.0).alias("rating")
    )
    noise = np.random.default_rng(seed).random(len(pairs))
    pairs = pairs.with_columns(
        pl.Series("chance", noise), pl.len().over("item").alias("times")
    )
    first = {"random": ["chance"], "popular": ["times", "chance"], "rated": ["rating", "chance"]}
    ordered = pairs.sort("user", *first[choose], descending=[False] + [True] * len(first[choose]))
    return ordered.group_by("user", maintain_order=True).head(most)
