"""Online comparison (A/B test) of two served models.

Users who were shown lists while both models were served are compared. A hash of the user id
assigns each user to an arm, so the arms differ only by model and chance. An event follows a list
if the same user causes it within `within` after the list. Measures:

users who follow    share of users with such an event on an item of one of their lists
hits per user       such events on listed items, per user
events per user     all events of a user after their first list
lists with a hit    share of lists with such an event; the number of lists may itself depend on
                    the model, so this measure says less than the others

Intervals and p-values are Welch's, over users.
"""

from __future__ import annotations

import polars as pl

from fmpair.errors import DataError, notice
from fmpair.evaluation.clusters import Clusters
from fmpair.evaluation.statistics import unpaired
from fmpair.events.store import EventStore, pages

ARMS = ("current", "candidate")
WITHIN = 86_400_000_000  # microseconds: a day
MEASURES = {
    # name: (column to sum over users, column to divide by; None: the number of users)
    "users who follow": ("follows", None),
    "hits per user": ("hits", None),
    "events per user": ("events", None),
    "lists with a hit": ("hit_lists", "lists"),
}


def compared(store: EventStore, within: int = WITHIN, since: int | None = None) -> pl.DataFrame:
    """Return one row per measure: (measure, current, candidate, difference, low, high, p, users).

    The user counts of the two arms are in two columns. within: microseconds; since:
    microseconds since 1970.
    """
    lists = pl.DataFrame(
        [
            (str(shown.user), shown.arm, shown.time, [str(item) for item in shown.items])
            for page in pages(store.impressions)
            for shown in page
        ],
        {"user": pl.String, "arm": pl.String, "time": pl.Int64, "items": pl.List(pl.String)},
        orient="row",
    )
    events = pl.DataFrame(
        [(str(e.user), str(e.item), e.time) for page in pages(store.after) for e in page],
        {"user": pl.String, "item": pl.String, "time": pl.Int64},
        orient="row",
    )
    return measured(by_user(*_in_common(lists, events, since), within))


def _in_common(
    lists: pl.DataFrame, events: pl.DataFrame, since: int | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keep lists and events from when both arms were served; drop users who changed arms."""
    starts = lists.group_by("arm").agg(pl.col("time").min())
    missing = [arm for arm in ARMS if arm not in starts["arm"]]
    if missing:
        raise DataError(
            f"no lists of the {missing[0]} model are stored: `fmpair serve --candidate FILE` "
            "stores those of both models"
        )
    start = max(starts.filter(pl.col("arm").is_in(ARMS))["time"].to_list())
    start = start if since is None else max(start, since)
    lists = lists.filter(pl.col("arm").is_in(ARMS) & (pl.col("time") >= start))
    moved = lists.group_by("user").agg(pl.col("arm").n_unique()).filter(pl.col("arm") > 1)["user"]
    if len(moved):
        notice(
            f"excluded {len(moved):,} users who moved between the models: keep the share constant "
            "during a comparison"
        )
        lists = lists.filter(~pl.col("user").is_in(moved.implode()))
    for arm in ARMS:
        if arm not in lists["arm"]:
            raise DataError(f"no user was shown a list of the {arm} model in that time")
    return lists, events.filter(pl.col("time") >= start)


def by_user(lists: pl.DataFrame, events: pl.DataFrame, within: int) -> pl.DataFrame:
    """Return (user, arm, lists, hit_lists, hits, events, follows), one row per user with a list.

    lists: (user, arm, time, items); events: (user, item, time).
    """
    lists = lists.with_row_index("list")
    events = events.with_row_index("event")
    after = pl.col("time_right").is_between(pl.col("time"), pl.col("time") + within, closed="right")
    hits = (
        lists.explode("items")
        .rename({"items": "item"})
        .join(events, on=["user", "item"], how="inner")
        .filter(after)
        .group_by("user")
        .agg(hit_lists=pl.col("list").n_unique(), hits=pl.col("event").n_unique())
    )
    users = lists.group_by("user", maintain_order=True).agg(
        pl.col("arm").first(), first=pl.col("time").min(), lists=pl.len()
    )
    counts = (
        events.join(users, on="user")
        .filter(pl.col("time") > pl.col("first"))
        .group_by("user")
        .agg(events=pl.len())
    )
    joined = users.join(hits, on="user", how="left").join(counts, on="user", how="left")
    joined = joined.with_columns(pl.col("hit_lists", "hits", "events").fill_null(0))
    return joined.with_columns(follows=(pl.col("hits") > 0).cast(pl.Int64)).drop("first")


def measured(users: pl.DataFrame) -> pl.DataFrame:
    """Return the measures of both arms and their difference; users: from `by_user`."""
    arms = [users.filter(pl.col("arm") == arm) for arm in ARMS]
    rows = []
    for name, (total, size) in MEASURES.items():
        current, candidate = (_clusters(arm, total, size) for arm in arms)
        test = unpaired(candidate, current)
        rows.append((name, current.mean, candidate.mean, *test, *map(len, arms)))
    columns = ["measure", *ARMS, "difference", "low", "high", "p"]
    return pl.DataFrame(rows, [*columns, *(f"{arm}_users" for arm in ARMS)], orient="row")


def _clusters(users: pl.DataFrame, total: str, size: str | None) -> Clusters:
    sizes = pl.repeat(1.0, len(users), eager=True) if size is None else users[size]
    return Clusters(users[total].cast(pl.Float64).to_numpy(), sizes.cast(pl.Float64).to_numpy())
