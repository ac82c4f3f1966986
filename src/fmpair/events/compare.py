"""Online comparison (A/B test) of two served models.

Users who were shown lists while both models were served are compared. A hash of the user id
assigns each user to an arm, so the arms differ only by model and chance. An event follows a list
if the same user causes it within `within` after the list. Measures:

lists per user      how often lists were shown
users who follow    share of users with such an event on an item of one of their lists
hits per user       such events on listed items, per user
events per user     all events of a user after their first list
lists with a hit    share of lists with such an event
hits per list       such events on listed items, per list

Events are all events (clicks), or purchases only. For revenue, the values of purchases are added
up instead of counted.

Intervals and p-values are from permutation tests over users. Values are adjusted for the events of
the users before the comparison (CUPED). If the arms differ in lists per user, the other measures
per user differ for that reason alone, so only the measures per list are tested.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from fmpair.checks import one_of
from fmpair.data.event_types import SIGNS, strengths_of
from fmpair.errors import DataError, listing, notice
from fmpair.evaluation.clusters import Clusters
from fmpair.evaluation.statistics import permuted
from fmpair.events.store import EventStore, pages

ARMS = ("current", "candidate")
WITHIN = 86_400_000_000  # microseconds: a day
SHOWN = "lists per user"
COLUMNS = (
    # column to sum over users, column to divide by; None: the number of users
    ("lists", None),
    ("follows", None),
    ("hits", None),
    ("events", None),
    ("hit_lists", "lists"),
    ("hits", "lists"),
)
CLICKS, PURCHASES, REVENUE = "clicks", "purchases", "revenue"
MEASURES = {  # by outcome, in the order of COLUMNS
    CLICKS: (
        *(SHOWN, "users who follow", "hits per user", "events per user"),
        *("lists with a hit", "hits per list"),
    ),
    PURCHASES: (
        *(SHOWN, "users who buy from lists", "purchases from lists per user"),
        *("purchases per user", "lists with a purchase", "purchases per list"),
    ),
    REVENUE: (
        *(SHOWN, "users who buy from lists", "revenue from lists per user"),
        *("revenue per user", "lists with a purchase", "revenue per list"),
    ),
}
UNEQUAL = 0.01  # p of lists per user below which the arms differ in them
TO_ADJUST = 20  # users; with fewer, values are not adjusted for earlier events
WORTH = 0.3  # relative difference that a comparison should be able to find
FOUND = 2.8 / 1.96  # difference found in four of five comparisons, by half the width of an interval


def compared(
    store: EventStore, within: int = WITHIN, since: int | None = None, outcome: str = CLICKS
) -> pl.DataFrame:
    """Return one row per measure: (measure, current, candidate, difference, low, high, p, users).

    The user counts of the two arms are in two columns. within: microseconds; since:
    microseconds since 1970. outcome: clicks (all events), purchases, or revenue (the values of
    purchases). Notices say if users are too few, or lists not equally many.
    """
    one_of("outcome", outcome, tuple(MEASURES))
    lists = pl.DataFrame(
        [
            (str(shown.user), shown.arm, shown.time, [str(item) for item in shown.items])
            for page in pages(store.impressions)
            for shown in page
        ],
        {"user": pl.String, "arm": pl.String, "time": pl.Int64, "items": pl.List(pl.String)},
        orient="row",
    )
    lists, later, earlier = _in_common(lists, _events_of(store, outcome), since)
    users = by_user(lists, later, within).join(earlier, on="user", how="left")
    frame = measured(users.with_columns(pl.col("before").fill_null(0)), outcome)
    _report(frame)
    return frame


def _events_of(store: EventStore, outcome: str) -> pl.DataFrame:
    """Return (user, item, time, amount) of the events that count for an outcome."""
    events = [event for page in pages(store.after) for event in page]
    if outcome != CLICKS:
        types = {event.event for event in events if event.event is not None}
        strengths = zip(sorted(types), strengths_of(sorted(types)))
        bought = {kind for kind, strength in strengths if strength == len(SIGNS) - 1}
        if not bought:
            raise DataError(
                f"no event of the store is a purchase (types: {listing(sorted(types)) or 'none'}): "
                f"send purchases with the event type 'buy', one of {listing(SIGNS[-1])}"
            )
        events = [event for event in events if event.event in bought]
        if outcome == REVENUE and all(event.value is None for event in events):
            raise DataError("no purchase of the store has a value: send it with the events")
    rows = [
        (str(e.user), str(e.item), e.time, (e.value or 0.0) if outcome == REVENUE else 1.0)
        for e in events
    ]
    names = {"user": pl.String, "item": pl.String, "time": pl.Int64, "amount": pl.Float64}
    return pl.DataFrame(rows, names, orient="row")


def _in_common(
    lists: pl.DataFrame, events: pl.DataFrame, since: int | None
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return lists and events from when both arms were served, and (user, before): events earlier.

    Users who changed arms are dropped.
    """
    starts = lists.group_by("arm").agg(pl.col("time").min())
    missing = [arm for arm in ARMS if arm not in starts["arm"]]
    if missing:
        raise DataError(
            f"no lists of the {missing[0]} model are stored: `fmpair serve --candidate FILE` "
            "stores those of both models"
        )
    start = max(starts.filter(pl.col("arm").is_in(ARMS))["time"].to_list())
    earlier = (
        events.filter(pl.col("time") < start).group_by("user").agg(before=pl.col("amount").sum())
    )
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
    return lists, events.filter(pl.col("time") >= start), earlier


def by_user(lists: pl.DataFrame, events: pl.DataFrame, within: int) -> pl.DataFrame:
    """Return (user, arm, lists, hit_lists, hits, events, follows), one row per user with a list.

    lists: (user, arm, time, items); events: (user, item, time, amount); hits and events are sums
    of amounts.
    """
    lists = lists.with_row_index("list")
    events = events.with_row_index("event")
    after = pl.col("time_right").is_between(pl.col("time"), pl.col("time") + within, closed="right")
    following = (
        lists.explode("items")
        .rename({"items": "item"})
        .join(events, on=["user", "item"], how="inner")
        .filter(after)
    )
    once = following.unique("event")  # an event may follow several lists
    hits = (
        following.group_by("user")
        .agg(hit_lists=pl.col("list").n_unique())
        .join(once.group_by("user").agg(hits=pl.col("amount").sum()), on="user")
    )
    users = lists.group_by("user", maintain_order=True).agg(
        pl.col("arm").first(), first=pl.col("time").min(), lists=pl.len()
    )
    counts = (
        events.join(users, on="user")
        .filter(pl.col("time") > pl.col("first"))
        .group_by("user")
        .agg(events=pl.col("amount").sum())
    )
    joined = users.join(hits, on="user", how="left").join(counts, on="user", how="left")
    joined = joined.with_columns(pl.col("hit_lists", "hits", "events").fill_null(0))
    return joined.with_columns(follows=(pl.col("hit_lists") > 0).cast(pl.Int64)).drop("first")


def measured(users: pl.DataFrame, outcome: str = CLICKS) -> pl.DataFrame:
    """Return the measures of both arms and their difference.

    users: from `by_user`, maybe with the column `before`, the amount of earlier events.
    """
    candidate = (users["arm"] == ARMS[1]).to_numpy()
    rows, per_list_only = [], False
    for name, (column, per) in zip(MEASURES[outcome], COLUMNS):
        total, size = _adjusted(users, column, per)
        arms = [Clusters(total[chosen], size[chosen]) for chosen in (~candidate, candidate)]
        test = permuted(arms[1], arms[0])
        if name == SHOWN:
            per_list_only = test.p < UNEQUAL
        elif per is None and per_list_only:
            test = test._replace(low=math.nan, high=math.nan, p=math.nan)
        rows.append((name, *(arm.mean for arm in arms), *test, *(len(arm.total) for arm in arms)))
    columns = ["measure", *ARMS, "difference", "low", "high", "p"]
    return pl.DataFrame(rows, [*columns, *(f"{arm}_users" for arm in ARMS)], orient="row")


def _adjusted(users: pl.DataFrame, column: str, per: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return (totals, sizes), float64 [users]; totals less what earlier events predict (CUPED).

    The prediction is fitted to the users of both arms together, so it cannot favour one of them.
    """
    total = users[column].cast(pl.Float64).to_numpy()
    size = np.ones(len(users)) if per is None else users[per].cast(pl.Float64).to_numpy()
    if "before" not in users.columns or len(users) < TO_ADJUST:
        return total, size
    before = users["before"].cast(pl.Float64).to_numpy()
    known = np.column_stack([before, np.sign(before) * np.log1p(np.abs(before))])
    known -= known.mean(axis=0)
    left = total - total.sum() / size.sum() * size
    predicted = known @ np.linalg.lstsq(known, left, rcond=None)[0]
    return np.round(total - predicted, 9), size  # what is left of equal values is no variance


def _report(frame: pl.DataFrame) -> None:
    """Say if the arms differ in lists per user, and if users are too few for a useful answer."""
    shown = frame.row(0, named=True)
    if shown["p"] < UNEQUAL:
        means = f"{shown['candidate']:.3g} and {shown['current']:.3g}"
        notice(
            f"users of the candidate and the current model were shown {means} lists: measures per "
            "user differ for that reason alone and are not tested; compare those per list"
        )
    hits = frame.row(-1, named=True)  # per list
    detectable, wanted = (hits["high"] - hits["low"]) / 2 * FOUND, WORTH * abs(hits["current"])
    arm = min(ARMS, key=lambda arm: hits[f"{arm}_users"])
    if wanted > 0 and detectable > wanted:
        users = hits[f"{arm}_users"]
        more = users * (detectable / wanted) ** 2
        needed = f"about {more:,.0f}" if math.isfinite(more) else "more"
        notice(
            f"{users:,} users of the {arm} model are too few to find a difference of {WORTH:.0%} "
            f"in {hits['measure']} in four of five comparisons: {needed} would be enough"
        )
