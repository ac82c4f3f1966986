"""Two models in service beside each other: which of them does its users more good.

Compared are users who were shown a list while both models were in service, each in the arm that a
draw by their id put them into: what differs between the arms is the model, and chance. Follows
means: an event of the same user, no longer than `within` after a list. Measures:

users who follow    the share of the users with such an event on an item of a list of theirs
hits per user       such events on items of lists, for each user
events per user     all events of a user from the first list on
lists with a hit    the share of the lists with such an event; how many lists there are may itself
                    depend on the model, so that this one says less than the others

Users count, not lists: intervals are those of means over users, by Welch's t.
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
    # name: (what is summed up for each user, what it is a share of; None: of the users)
    "users who follow": ("follows", None),
    "hits per user": ("hits", None),
    "events per user": ("events", None),
    "lists with a hit": ("hit_lists", "lists"),
}


def compared(store: EventStore, within: int = WITHIN, since: int | None = None) -> pl.DataFrame:
    """(measure, current, candidate, difference, low, high, p, and the users of both), a row each.

    within, since: microseconds, the latter since 1970.
    """
    shown = pl.DataFrame(
        [
            (str(one.user), one.arm, one.time, [str(item) for item in one.items])
            for page in pages(store.impressions)
            for one in page
        ],
        {"user": pl.String, "arm": pl.String, "time": pl.Int64, "items": pl.List(pl.String)},
        orient="row",
    )
    events = pl.DataFrame(
        [(str(e.user), str(e.item), e.time) for page in pages(store.after) for e in page],
        {"user": pl.String, "item": pl.String, "time": pl.Int64},
        orient="row",
    )
    return measured(by_user(*_in_common(shown, events, since), within))


def by_user(shown: pl.DataFrame, events: pl.DataFrame, within: int) -> pl.DataFrame:
    """(user, arm, lists, hit_lists, hits, events, follows): a row for each user who was shown one.

    shown: user, arm, time, items; events: user, item, time.
    """
    shown = shown.with_row_index("list")
    events = events.with_row_index("event")
    after = pl.col("time_right").is_between(pl.col("time"), pl.col("time") + within, closed="right")
    follows = (
        shown.explode("items")
        .rename({"items": "item"})
        .join(events, on=["user", "item"], how="inner")
        .filter(after)
        .group_by("user")
        .agg(hit_lists=pl.col("list").n_unique(), hits=pl.col("event").n_unique())
    )
    users = shown.group_by("user", maintain_order=True).agg(
        pl.col("arm").first(), first=pl.col("time").min(), lists=pl.len()
    )
    since = (
        events.join(users, on="user")
        .filter(pl.col("time") > pl.col("first"))
        .group_by("user")
        .agg(events=pl.len())
    )
    found = users.join(follows, on="user", how="left").join(since, on="user", how="left")
    counts = found.with_columns(pl.col("hit_lists", "hits", "events").fill_null(0))
    return counts.with_columns(follows=(pl.col("hits") > 0).cast(pl.Int64)).drop("first")


def measured(users: pl.DataFrame) -> pl.DataFrame:
    """The measures of both arms and what lies between them; users: as `by_user` gives them."""
    arms = [users.filter(pl.col("arm") == arm) for arm in ARMS]
    rows = []
    for name, (total, size) in MEASURES.items():
        current, candidate = (_clusters(arm, total, size) for arm in arms)
        found = unpaired(candidate, current)
        rows.append((name, current.mean, candidate.mean, *found, *map(len, arms)))
    columns = ["measure", *ARMS, "difference", "low", "high", "p"]
    return pl.DataFrame(rows, [*columns, *(f"{arm}_users" for arm in ARMS)], orient="row")


def _clusters(users: pl.DataFrame, total: str, size: str | None) -> Clusters:
    values = users.select(pl.col(total), pl.lit(1).alias("one") if size is None else pl.col(size))
    sums, sizes = (values.to_series(place).cast(pl.Float64).to_numpy() for place in (0, 1))
    return Clusters(sums, sizes)


def _in_common(
    shown: pl.DataFrame, events: pl.DataFrame, since: int | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What happened while both arms were in service, of users who were in one arm only."""
    begins = shown.group_by("arm").agg(pl.col("time").min())
    missing = [arm for arm in ARMS if arm not in begins["arm"]]
    if missing:
        raise DataError(
            f"no list of the {missing[0]} model is kept: `fmpair serve --candidate FILE` keeps "
            "those of both"
        )
    both = int(begins.filter(pl.col("arm").is_in(ARMS))["time"].max())  # type: ignore[arg-type]
    start = both if since is None else max(both, since)
    shown = shown.filter(pl.col("arm").is_in(ARMS) & (pl.col("time") >= start))
    moved = shown.group_by("user").agg(pl.col("arm").n_unique()).filter(pl.col("arm") > 1)["user"]
    if len(moved):
        notice(
            f"{len(moved):,} users were moved from one model to the other, and are left out: keep "
            "the share as it is while models are compared"
        )
        shown = shown.filter(~pl.col("user").is_in(moved.implode()))
    for arm in ARMS:
        if arm not in shown["arm"]:
            raise DataError(f"nobody was shown a list of the {arm} model in that time")
    return shown, events.filter(pl.col("time") >= start)
