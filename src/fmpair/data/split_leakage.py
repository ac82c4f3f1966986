"""Split leakage: what the training part of a split reveals about its test part.

It counts test events older than training events, repeated events and unseen ids.
`fmpair.data.columns.context_leakage` looks for context columns that identify the item instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from fmpair.data.dataset import Dataset
from fmpair.threads import check_process

PAIR, ROW = "__pair__", "__row__"  # temporary columns, which must not clash with event columns
TIME, BOUND = pl.col("time"), pl.col("bound")  # of an event, and what it is compared with

LATER = "learning from later events"
# Figure -> (what its share is of, sentence about it).
FIGURES = {
    "older": ("events", "are older than the latest event of {before}"),
    "older_for_user": ("events", "are older than their user's latest event of {before}"),
    "tied_for_user": ("events", "have the time of their user's latest event of {before}: a tie"),
    "later": ("earlier_events", f"are later than the first event of {{after}}: {LATER}"),
    "later_for_user": (
        "earlier_events",
        f"are later than their user's first event of {{after}}: {LATER}",
    ),
    "unseen_users": ("users", "have no event in {before}"),
    "unseen_user_events": ("events", "belong to users with no event in {before}"),
    "unseen_items": ("items", "have no event in {before}"),
    "unseen_item_events": ("events", "belong to items with no event in {before}"),
    "same_pair": ("events", "repeat a user and item of {before}"),
    "same_situation": ("events", "repeat a user, item and context of {before}"),
    "same_event": ("events", "are in {before} too, equal in every column"),
}


@dataclass(frozen=True)
class PartComparison:
    """Counts of what the events of one part (`before`) reveal about those of another (`after`).

    counts: by the names of FIGURES. `later` and `later_for_user` count events of `before`, the
    others count events, users or items of `after`. Counts that compare times are None if the times
    cannot be compared. same_situation and same_event are None if the parts have different columns.
    totals: what the shares are of. events, users and items of `after`, earlier_events of `before`.
    """

    before: str
    after: str
    counts: dict[str, int | None]
    totals: dict[str, int]

    def shares(self) -> Iterator[tuple[str, int | None, int]]:
        """Yield (figure, count, total)."""
        for name, (noun, _) in FIGURES.items():
            yield name, self.counts[name], self.totals[noun]

    def _sentence(self, name: str, count: int, total: int) -> str:
        noun, text = FIGURES[name]
        noun, part = ("events", self.before) if noun == "earlier_events" else (noun, self.after)
        text = text.format(before=self.before, after=self.after)
        return f"{count:,} of {total:,} {noun} of {part} ({count / total:.1%}) {text}"


@dataclass(frozen=True)
class SplitLeakage:
    """The comparisons of a split: train with test, and both with validation if there is one."""

    comparisons: tuple[PartComparison, ...]

    def frame(self) -> pl.DataFrame:
        """Return (before, after, figure, count, share) with shares of the totals."""
        rows = [
            (comparison.before, comparison.after, name, count, share)
            for comparison in self.comparisons
            for name, count, total in comparison.shares()
            for share in [None if count is None or not total else count / total]
        ]
        schema = {"before": pl.String, "after": pl.String, "figure": pl.String,
                  "count": pl.Int64, "share": pl.Float64}  # fmt: skip
        return pl.DataFrame(rows, schema, orient="row")

    def lines(self) -> list[str]:
        """Return one sentence for each figure that is known and not 0."""
        sentences = []
        for comparison in self.comparisons:
            for name, count, total in comparison.shares():
                # Models are not trained on the validation part, so ids unseen in it do not matter.
                if count and not (comparison.before == "validation" and name.startswith("unseen")):
                    sentences.append(comparison._sentence(name, count, total))
        return sentences or ["no leakage between the parts was found"]


def report(train: Dataset, test: Dataset, validation: Dataset | None = None) -> SplitLeakage:
    """Count what the parts of a split have in common that may help or hurt a model."""
    check_process()
    pairs = [("train", train, "test", test)]
    if validation is not None and len(validation):
        pairs += [("train", train, "validation", validation)]
        pairs += [("validation", validation, "test", test)]
    return SplitLeakage(tuple(_compared(*pair) for pair in pairs))


def _compared(before: str, first: Dataset, after: str, second: Dataset) -> PartComparison:
    user, item = _numbers(first, second)
    no_user, no_item = ~np.isin(user, first.user), ~np.isin(item, first.item)
    older, older_for_user = older_events(first, second)
    later, later_for_user = _count_by_time(second, first, TIME > BOUND, pl.Expr.min)
    repeats = _Repeats.of(first, second, user, item)
    counts = {
        "older": older,
        "older_for_user": older_for_user,
        "tied_for_user": _count_by_time(first, second, TIME == BOUND, pl.Expr.max)[1],
        "later": later,
        "later_for_user": later_for_user,
        "unseen_users": len(np.unique(second.user[no_user])),
        "unseen_user_events": int(no_user.sum()),
        "unseen_items": len(np.unique(second.item[no_item])),
        "unseen_item_events": int(no_item.sum()),
        "same_pair": len(repeats.later),
        "same_situation": repeats.alike(first.context, second.context),
        "same_event": repeats.alike(first.columns.columns, second.columns.columns),
    }
    totals = {
        "events": len(second),
        "users": len(np.unique(second.user)),
        "items": len(np.unique(second.item)),
        "earlier_events": len(first),
    }
    return PartComparison(before, after, counts, totals)


def _numbers(first: Dataset, second: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Return user and item of the second's events as the first numbers them, -1 if unknown."""
    user, item = second.user, second.item
    if first.users is not second.users:
        user = first.users.numbers(second.users.ids)[user]
    if first.items is not second.items:
        item = first.items.numbers(second.items.ids)[item]
    return user, item


def older_events(first: Dataset, second: Dataset) -> tuple[int | None, int | None]:
    """Count events of the second part that are older than the latest event of the first.

    Returns two counts: against the latest event of all users, and of the event's own user. None if
    the times cannot be compared.
    """
    return _count_by_time(first, second, TIME < BOUND, pl.Expr.max)


def _count_by_time(
    bounds: Dataset, events: Dataset, condition: pl.Expr, extreme: Callable[[pl.Expr], pl.Expr]
) -> tuple[int | None, int | None]:
    """Count events whose TIME meets a condition on the BOUND: that of all users, of their user.

    The bound is the extreme (minimum or maximum) of the times of `bounds`.
    """
    if not comparable_times(bounds, events):
        return None, None
    user = events.user
    if bounds.users is not events.users:
        user = bounds.users.numbers(events.users.ids)[user]
    times = pl.DataFrame({"user": bounds.user, "bound": bounds.columns["timestamp"]})
    frame = pl.DataFrame({"user": user.astype(np.int32), "time": events.columns["timestamp"]})
    by_user = frame.join(times.group_by("user").agg(extreme(BOUND)), on="user", how="left")
    of_user = int(by_user.select(condition.sum()).item())
    if "per-user" in (bounds.order, events.order):
        return None, of_user
    everyone = frame.join(times.select(extreme(BOUND)), how="cross")
    return int(everyone.select(condition.sum()).item()), of_user


def comparable_times(first: Dataset, second: Dataset) -> bool:
    """Return whether the times of two parts can be compared; row orders need one data set."""
    parts = (first, second)
    if not all("timestamp" in part.columns.columns for part in parts) or not all(map(len, parts)):
        return False
    if first.order is not None or second.order is not None:
        return first.order == second.order and first.users is second.users
    temporal = [part.columns["timestamp"].dtype.is_temporal() for part in parts]
    return temporal[0] == temporal[1]


@dataclass(frozen=True, eq=False)
class _Repeats:
    """Events of either part whose pair of user and item the other part has too.

    earlier, later: frames of their columns, with the number of the pair.
    """

    earlier: pl.DataFrame
    later: pl.DataFrame

    @classmethod
    def of(cls, first: Dataset, second: Dataset, user: np.ndarray, item: np.ndarray) -> _Repeats:
        pairs = (_pairs(first.user, first.item), _pairs(user, item))
        frames = []
        for part, own_pairs, other_pairs in ((first, *pairs), (second, *pairs[::-1])):
            # by hash, without a sort
            shared = pl.Series(own_pairs).is_in(pl.Series(other_pairs).implode())
            rows = shared.arg_true().to_numpy()
            columns = list(part.take(rows).columns.iter_columns())
            frames.append(pl.DataFrame({PAIR: own_pairs[rows]}).hstack(columns))
        return cls(*frames)

    def alike(self, names: Sequence[str], others: Sequence[str]) -> int | None:
        """Count later events that equal an earlier one in these columns; None if they differ."""
        if set(names) != set(others):
            return None
        parts = [frame.select(PAIR, *names) for frame in (self.earlier, self.later)]
        both = pl.concat(parts, how="vertical_relaxed").with_row_index(ROW)
        known = pl.col(ROW).min().over(PAIR, *names) < len(self.earlier)
        return int(both.select(known.alias("known"))["known"].slice(len(self.earlier)).sum())


def _pairs(user: np.ndarray, item: np.ndarray) -> np.ndarray:
    """int64 [events]: one number per pair, -1 if the user or item is unknown."""
    known = (user >= 0) & (item >= 0)
    return np.where(known, (user.astype(np.int64) << 32) | item, -1)
