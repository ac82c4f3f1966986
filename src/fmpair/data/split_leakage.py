"""Leakage between the parts of a split: times out of order, repeats, unseen ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.threads import check_process

PAIR, ROW = "__pair__", "__row__"  # columns beside those of the events, which have any name


@dataclass(frozen=True)
class Crossing:
    """What events of one part (`before`) say about those of another (`after`), in counts.

    events, users, items: of `after`. older: events older than the latest of `before`;
    older_for_user: than their own user's latest; tied_for_user: at the very time of that, so that
    only a draw says which came first. later: events of `before`, `earlier_events` in
    all, that are later than the first of `after`: who learns from them knows the future;
    later_for_user: than their own user's first. All five are None without times. unseen_users,
    unseen_items: ids without an event in `before`; unseen_user_events, unseen_item_events: their
    events. same_pair: events whose user and item are an event of `before` too; same_situation: in
    the same context too; same_event: with every column alike. The latter are None where the parts
    do not have the same columns.
    """

    before: str
    after: str
    events: int
    users: int
    items: int
    earlier_events: int
    older: int | None
    older_for_user: int | None
    tied_for_user: int | None
    later: int | None
    later_for_user: int | None
    unseen_users: int
    unseen_user_events: int
    unseen_items: int
    unseen_item_events: int
    same_pair: int
    same_situation: int | None
    same_event: int | None

    def shares(self) -> Iterator[tuple[str, int | None, int]]:
        """(figure, count, of how many)."""
        for name, (noun, _) in FIGURES.items():
            yield name, getattr(self, name), getattr(self, noun)


# Of what it is the count, and what is said of them.
FIGURES = {
    "older": ("events", "are older than the latest event of {before}"),
    "older_for_user": ("events", "are older than their user's latest event of {before}"),
    "tied_for_user": ("events", "have the time of their user's latest event of {before}: a tie"),
    "later": (
        "earlier_events",
        "are later than the first event of {after}: learning from later events",
    ),
    "later_for_user": (
        "earlier_events",
        "are later than their user's first event of {after}: learning from later events",
    ),
    "unseen_users": ("users", "have no event in {before}"),
    "unseen_user_events": ("events", "are of users without one in {before}"),
    "unseen_items": ("items", "have no event in {before}"),
    "unseen_item_events": ("events", "are of items without one in {before}"),
    "same_pair": ("events", "repeat a user and item of {before}"),
    "same_situation": ("events", "repeat a user, item and context of {before}"),
    "same_event": ("events", "are in {before} too, every column alike"),
}


@dataclass(frozen=True)
class Leakage:
    """Each pair of parts, the earlier first: train to test, and through validation if there is."""

    crossings: tuple[Crossing, ...]

    def frame(self) -> pl.DataFrame:
        """(before, after, figure, count, share): share of the events, users or items of `after`."""
        rows = [
            (crossing.before, crossing.after, name, count, _share(count, total))
            for crossing in self.crossings
            for name, count, total in crossing.shares()
        ]
        kinds = [pl.String, pl.String, pl.String, pl.Int64, pl.Float64]
        names = ["before", "after", "figure", "count", "share"]
        return pl.DataFrame(rows, dict(zip(names, kinds)), orient="row")

    def lines(self) -> list[str]:
        """What was found as sentences; a figure that is 0 or unknown has none."""
        found = []
        for crossing in self.crossings:
            for name, count, total in crossing.shares():
                # Models are not trained on the validation set: ids that it lacks say nothing.
                if count and not (crossing.before == "validation" and name.startswith("unseen")):
                    found.append(_sentence(crossing, name, count, total))
        return found or ["no leakage between the parts was found"]


def _sentence(crossing: Crossing, name: str, count: int, total: int) -> str:
    noun, said = FIGURES[name]
    own = noun == "earlier_events"
    noun, part = ("events", crossing.before) if own else (noun, crossing.after)
    said = said.format(before=crossing.before, after=crossing.after)
    return f"{count:,} of {total:,} {noun} of {part} ({count / total:.1%}) {said}"


def report(train: Dataset, test: Dataset, validation: Dataset | None = None) -> Leakage:
    """What the parts of a split have in common that may help or hurt a model."""
    check_process()
    pairs = [("train", train, "test", test)]
    if validation is not None and len(validation):
        pairs += [("train", train, "validation", validation)]
        pairs += [("validation", validation, "test", test)]
    return Leakage(tuple(_crossing(*pair) for pair in pairs))


def _crossing(before: str, first: Dataset, after: str, second: Dataset) -> Crossing:
    user, item = _numbers(first, second)
    no_user, no_item = ~np.isin(user, first.user), ~np.isin(item, first.item)
    older, older_for_user = older_events(first, second)
    later, later_for_user = later_events(first, second)
    repeats = _Repeats.of(first, second, user, item)
    return Crossing(
        before,
        after,
        events=len(second),
        users=len(np.unique(second.user)),
        items=len(np.unique(second.item)),
        earlier_events=len(first),
        older=older,
        older_for_user=older_for_user,
        tied_for_user=_tied(first, second),
        later=later,
        later_for_user=later_for_user,
        unseen_users=len(np.unique(second.user[no_user])),
        unseen_user_events=int(no_user.sum()),
        unseen_items=len(np.unique(second.item[no_item])),
        unseen_item_events=int(no_item.sum()),
        same_pair=len(repeats.later),
        same_situation=repeats.alike(first.context, second.context),
        same_event=repeats.alike(first.columns.columns, second.columns.columns),
    )


def _numbers(first: Dataset, second: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """User and item of the second's events as the first numbers them, -1 where it does not."""
    user, item = second.user, second.item
    if first.users is not second.users:
        user = first.users.numbers(second.users.ids)[user]
    if first.items is not second.items:
        item = first.items.numbers(second.items.ids)[item]
    return user, item


def older_events(first: Dataset, second: Dataset) -> tuple[int | None, int | None]:
    """How many events of the second are older than the latest of the first: all, or their user's.

    None where it cannot be known.
    """
    return _beyond(first, second, pl.col("time") < pl.col("bound"), pl.Expr.max)


def later_events(first: Dataset, second: Dataset) -> tuple[int | None, int | None]:
    """How many events of the first are later than the earliest of the second, in the same way."""
    return _beyond(second, first, pl.col("time") > pl.col("bound"), pl.Expr.min)


def _tied(first: Dataset, second: Dataset) -> int | None:
    """How many events of the second have the time of their user's latest of the first."""
    return _beyond(first, second, pl.col("time") == pl.col("bound"), pl.Expr.max)[1]


def _beyond(
    bounds: Dataset, events: Dataset, beyond: pl.Expr, edge: Callable[[pl.Expr], pl.Expr]
) -> tuple[int | None, int | None]:
    """How many events are beyond the edge of those of `bounds`, of everyone and of their user."""
    if not comparable_times(bounds, events):
        return None, None
    user = events.user
    if bounds.users is not events.users:
        user = bounds.users.numbers(events.users.ids)[user]
    times = pl.DataFrame({"user": bounds.user, "bound": bounds.columns["timestamp"]})
    frame = pl.DataFrame({"user": user.astype(np.int32), "time": events.columns["timestamp"]})
    own = frame.join(times.group_by("user").agg(edge(pl.col("bound"))), on="user", how="left")
    of_user = int(own.select(beyond.sum()).item())
    if "per-user" in (bounds.order, events.order):
        return None, of_user
    everyone = frame.join(times.select(edge(pl.col("bound"))), how="cross")
    return int(everyone.select(beyond.sum()).item()), of_user


def comparable_times(first: Dataset, second: Dataset) -> bool:
    """Whether the times of two parts can be compared: rows have an order within one data set."""
    parts = (first, second)
    if not all("timestamp" in part.columns.columns for part in parts) or not all(map(len, parts)):
        return False
    if first.order is not None or second.order is not None:
        return first.order == second.order and first.users is second.users
    kinds = [part.columns["timestamp"].dtype.is_temporal() for part in parts]
    return kinds[0] == kinds[1]


@dataclass(frozen=True, eq=False)
class _Repeats:
    """Events of either part whose pair of user and item the other part has too.

    earlier, later: frames of their columns, with the pair's number.
    """

    earlier: pl.DataFrame
    later: pl.DataFrame

    @classmethod
    def of(cls, first: Dataset, second: Dataset, user: np.ndarray, item: np.ndarray) -> _Repeats:
        pairs = (_pairs(first.user, first.item), _pairs(user, item))
        frames = []
        for part, own, other in ((first, *pairs), (second, *pairs[::-1])):
            there = pl.Series(own).is_in(pl.Series(other).implode())  # by hash: no long sort
            rows = there.arg_true().to_numpy()
            columns = list(part.take(rows).columns.iter_columns())
            frames.append(pl.DataFrame({PAIR: own[rows]}).hstack(columns))
        return cls(*frames)

    def alike(self, names: Sequence[str], others: Sequence[str]) -> int | None:
        """How many of the later are alike in these columns, None where the parts' differ."""
        if set(names) != set(others):
            return None
        parts = [frame.select(PAIR, *names) for frame in (self.earlier, self.later)]
        both = pl.concat(parts, how="vertical_relaxed").with_row_index(ROW)
        known = pl.col(ROW).min().over(PAIR, *names) < len(self.earlier)
        return int(both.select(known.alias("known"))["known"].slice(len(self.earlier)).sum())


def _pairs(user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """int64 [events]: one number per pair; below 0 where either is unknown."""
    known = (user >= 0) & (item >= 0)
    return np.where(known, (user.astype(np.int64) << 32) | item, -1)


def _share(count: int | None, total: int) -> float | None:
    return None if count is None or not total else count / total
