"""Recent events of users: as features, received by a model in service, read from new data.

Users and items are numbers, and times are microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, one_start, ordered_rows, pieces, stack_rows, starts
from fmpair.data import Dataset, as_dataset
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.data.frame import to_polars
from fmpair.data.times import Timelines, moments, timelines
from fmpair.errors import OptionError, UnknownError, named, notice
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.id_lookup import number_of, shown_first
from fmpair.fitted.question import check_columns, column_of

ONES = np.ones(64, np.float32)
ITEMS = ("ignore", "error")  # what may be done with events of unknown items


class Recent(NamedTuple):
    """The latest events of each user, oldest first.

    start: int64 [users + 1]; item: int32 [events]; moment: int64 [events].
    """

    start: np.ndarray
    item: np.ndarray
    moment: np.ndarray

    @property
    def users(self) -> int:
        return len(self.start) - 1

    @property
    def owner(self) -> np.ndarray:
        """int64 [events]: the user of each event."""
        return np.repeat(np.arange(self.users), np.diff(self.start))

    @property
    def latest(self) -> int:
        """The time of the latest event of all, 0 without events."""
        return int(self.moment.max(initial=0))

    def line(self, user: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (item, moment) of the events of one user; no events for user -1."""
        events = slice(self.start[user], self.start[user + 1]) if user >= 0 else slice(0, 0)
        return self.item[events], self.moment[events]

    def take(self, users: np.ndarray) -> Recent:
        """Return the events of the given users, in that order; no events for user -1."""
        if len(users) == 1:  # faster, for single requests
            item, moment = self.line(int(users[0]))
            return Recent(one_start(len(item)), item, moment)
        users = np.asarray(users, np.int64)
        first = self.start[:-1][users]
        lengths = np.where(users < 0, 0, self.start[1:][users] - first)
        start, entries = pieces(first, lengths)
        return Recent(start, self.item[entries], self.moment[entries])

    def items(self, latest: int, within: int | None, now: np.ndarray | None) -> Rows:
        """Return the items of each user, oldest first, with value 1.

        now: int64 [users], only events strictly before it. within: only events at most this many
        microseconds before it, or before `latest` if now is None.
        """
        if now is None and within is None:
            few = len(self.item) <= len(ONES)
            value = ONES[: len(self.item)] if few else np.ones(len(self.item), np.float32)
            return Rows(self.start, self.item, value)
        owner, counted = self.owner, np.ones(len(self.item), bool)
        if now is not None:
            counted = self.moment < now[owner]
        if within is not None:
            counted &= self.moment >= (latest if now is None else now[owner]) - within
        owner = owner[counted]
        return ordered_rows(owner, self.item[counted], np.ones(len(owner), np.float32), self.users)


def _of_lines(lines: list[tuple[np.ndarray, np.ndarray]]) -> Recent:
    """Return the (item, moment) pairs of several users as one."""
    item, moment = (np.concatenate([line[side] for line in lines]) for side in (0, 1))
    return Recent(starts(np.array([len(line[0]) for line in lines])), item, moment)


def latest(lines: Timelines, last: int, first: np.ndarray | None = None) -> Recent:
    """Return the last `last` events of each time line.

    first: int64 [users], leave out the events before these positions.
    """
    end = lines.start[1:]
    begin = np.maximum(lines.start[:-1] if first is None else first, end - last)
    start, entries = pieces(begin, np.maximum(end - begin, 0))
    return Recent(start, lines.item[entries], lines.moment[entries])


def remembers(space: FeatureSpace) -> bool:
    """Return whether the queries of a model depend on the last events of their users."""
    return space.history is not None or space.since


def most_recent(space: FeatureSpace) -> int:
    """Return how many events of a user the features can depend on."""
    return space.history.last if space.history is not None else 1


def stacked(first: Recent, second: Recent) -> Recent:
    """Return the users of both, those of `first` before those of `second`."""
    start = np.append(first.start, second.start[1:] + first.start[-1])
    item = np.concatenate([first.item, second.item])
    return Recent(start, item, np.concatenate([first.moment, second.moment]))


def days_since_last(events: Recent, now: np.ndarray, day: int) -> np.ndarray:
    """Return the days between `now` and the last event before it: float64 [users], NaN if none.

    now: int64 [users]; day: microseconds of a day.
    """
    past = np.full(len(now), -1, np.int64)
    earlier = events.moment < now[events.owner]
    np.maximum.at(past, events.owner[earlier], events.moment[earlier])
    return np.where(past >= 0, (now - past) / day, np.nan)


# New events besides the training events


def moments_after(recent: Recent, data: Dataset) -> np.ndarray:
    """Return the times of events, int64 [events].

    Where only an order is known, it starts after all events of `recent`.
    """
    times = moments(data)
    if times is None:
        times = np.arange(len(data), dtype=np.int64)
    if data.order is not None or "timestamp" not in data.columns.columns:
        times = times - times.min(initial=0) + recent.latest + 1
    return times


def with_events(
    recent: Recent, user: np.ndarray, item: np.ndarray, moment: np.ndarray, last: int
) -> Recent:
    """Add events to `recent` and keep the last `last` of each user; arrays: int [events]."""
    users = np.unique(user)
    known = recent.take(users)
    lines = timelines(
        np.concatenate([known.owner, np.searchsorted(users, user)]).astype(np.int32),
        np.concatenate([known.item, item]).astype(np.int32),
        len(users),
        np.concatenate([known.moment, moment]),
    )
    new = latest(lines, last)
    before = np.diff(recent.start)
    lengths, stays = before.copy(), np.ones(recent.users, bool)
    stays[users], lengths[users] = False, np.diff(new.start)
    old, unchanged = np.repeat(stays, lengths), np.repeat(stays, before)
    item = _interleaved(old, recent.item[unchanged], new.item)
    return Recent(starts(lengths), item, _interleaved(old, recent.moment[unchanged], new.moment))


def with_pairs(seen: Rows, user: np.ndarray, item: np.ndarray) -> Rows:
    """Return sorted rows of seen items with these pairs added, each counted once more."""
    pair, times = np.unique((user.astype(np.int64) << 32) | item, return_counts=True)
    owner, column = pair >> 32, (pair & 0xFFFFFFFF).astype(np.int32)
    position = _places(seen, owner, column)
    inside = position < seen.start[owner + 1]
    known = inside & (seen.column[np.minimum(position, len(seen.column) - 1)] == column)
    value = seen.value.copy()
    value[position[known]] += times[known]
    new = ~known
    added = np.bincount(owner[new], minlength=seen.size)
    return Rows(
        seen.start + starts(added),
        np.insert(seen.column, position[new], column[new]),
        np.insert(value, position[new], times[new].astype(np.float32)),
    )


def new_to(recent: Recent, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """Return which events are not in `recent` yet, the first only of equal ones: bool [events]."""
    users, number = np.unique(user, return_inverse=True)
    known = recent.take(users)
    owner = np.concatenate([known.owner, number])
    items, times = np.append(known.item, item), np.append(known.moment, moment)
    order = np.lexsort((items, times, owner))  # stable: known events come first
    differs = np.arange(len(order)) == 0
    for part in (owner, items, times):
        differs[1:] |= part[order][1:] != part[order][:-1]
    new = np.empty(len(order), bool)
    new[order] = differs
    return new[len(known.item) :]


def _places(rows: Rows, owner: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Return where each column is, or would be, in its owner's sorted row: int64."""
    low, high = rows.start[owner], rows.start[owner + 1]
    while (low < high).any():  # a binary search for all pairs at once: rows may be millions
        middle = (low + high) // 2
        open_, less = low < high, rows.column[np.minimum(middle, len(rows.column) - 1)] < column
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low


def _interleaved(first: np.ndarray, at_first: np.ndarray, elsewhere: np.ndarray) -> np.ndarray:
    """Return two arrays as one; first: bool, where the elements of `at_first` go."""
    out = np.empty(len(first), at_first.dtype)
    out[first], out[~first] = at_first, elsewhere
    return out


# A model in service


@dataclass
class LiveState:
    """The events that a model in service has received: the only part of a model that changes.

    seen: user -> all items seen, sorted; recent: user -> (item, moment), oldest first, both only
    for users with new events. latest: the time of the latest event of all. scorer: in a `Ranker`
    whose scores follow the last events, the scorer that knows them. catalogue: with changes if any.
    removed: int32, the items that are in no answer.
    """

    seen: dict[int, np.ndarray] = field(default_factory=dict)
    recent: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    latest: int = 0
    scorer: Any = None
    catalogue: Catalogue | None = None
    removed: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int32))

    def seen_rows(self, rows: Rows, users: np.ndarray) -> Rows | None:
        """Return the items seen by users, None if none of them has new events."""
        if self.seen.keys().isdisjoint(users.tolist()):
            return None
        parts = [self.seen_row(rows, user) for user in users.tolist()]
        start = starts(np.array([len(part) for part in parts]))
        return Rows(start, np.concatenate(parts), np.ones(start[-1], np.float32))

    def seen_row(self, rows: Rows, user: int) -> np.ndarray:
        """Return the items seen by one user; none for user -1."""
        items = self.seen.get(user)
        if items is not None:
            return items
        return rows.row(user) if user >= 0 else rows.column[:0]

    def recent_of(self, recent: Recent, users: np.ndarray) -> Recent:
        """Return the latest events of users, the new ones among them."""
        if self.recent.keys().isdisjoint(users.tolist()):
            return recent.take(users)
        return _of_lines([self.recent.get(user) or recent.line(user) for user in users.tolist()])

    def add(
        self,
        seen: Rows,
        recent: Recent | None,
        events: tuple[np.ndarray, np.ndarray, np.ndarray],
        last: int,
    ) -> None:
        """Add events (user, item, moment); keep the last `last` of each user as recent."""
        users, item, moment = events
        order = np.argsort(users, kind="stable")
        distinct, first = np.unique(users[order], return_index=True)
        for user, rows in zip(distinct.tolist(), np.split(order, first[1:])):
            row = self.seen_row(seen, user)
            self.seen[user] = np.union1d(row, item[rows]).astype(np.int32)
            if recent is not None:
                line = self.recent.get(user) or recent.line(user)
                self.recent[user] = _with_line(line, item[rows], moment[rows], last)
                self.latest = max(self.latest, int(moment[rows].max()))


def _with_line(
    line: tuple[np.ndarray, np.ndarray], item: np.ndarray, moment: np.ndarray, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a user's (item, moment) with more events in order of time, each event once."""
    times, items = [*line[1].tolist(), *moment.tolist()], [*line[0].tolist(), *item.tolist()]
    # events of one time stay in the order they came in
    events = sorted(dict.fromkeys(zip(times, items)), key=itemgetter(0))[-last:]
    return (
        np.array([number for _, number in events], np.int32),
        np.array([time for time, _ in events], np.int64),
    )


def recent_events(recent: Recent, live: LiveState | None, user: np.ndarray) -> Recent:
    """Return the latest events of users, among them those that a model in service has received."""
    return recent.take(user) if live is None else live.recent_of(recent, user)


def past_items(
    recent: Recent,
    live: LiveState | None,
    within: int | None,
    user: np.ndarray,
    history: Rows | None,
    given: np.ndarray,
    now: np.ndarray | None,
) -> Rows:
    """Return the earlier items of each query: its history if given, else the user's last items.

    user: int32 [queries], -1 if unknown; given: bool [queries]; now: int64 [queries].
    """
    if history is not None and given.all():
        return history
    events = recent_events(recent, live, user)
    latest_of_all = 0
    if within is not None and now is None:  # looked for only where it counts
        latest_of_all = recent.latest if live is None else live.latest
    items = events.items(latest_of_all, within, now)
    if history is not None:
        items = stack_rows(items, history).take(np.arange(len(user)) + len(user) * given)
    return items


# New events, read with the columns the model was trained on


def new_events(space: FeatureSpace, recipe: Any, data: Any) -> Dataset:
    """Return events as a Dataset; of a frame, only the columns that the model uses."""
    if isinstance(data, Dataset) or hasattr(data, "tocoo"):
        return as_dataset(data)
    columns = to_polars(data).columns
    options = roles_as_learned(space, columns)
    level = getattr(recipe, "level", None)  # an option of FMPairLevels
    if level in columns and level not in STANDARD:
        options["context"] = options["leaks"] = [*options["context"], level]
    return as_dataset(data, **options)


def roles_as_learned(
    space: FeatureSpace, columns: Sequence[str], event_type: str | None = None
) -> dict[str, Any]:
    """Return the options of `Dataset.from_frame` that give columns the roles they had in training.

    event_type: the column of event types, if it has another name now.
    """
    user, item = (column_of(space, role, columns) for role in ("user", "item"))
    check_columns(space, columns, user)
    context = [name for name in space.context if name in columns and name != TIME]
    described = list(dict.fromkeys(encoder.source for encoder in space.item.encoders))
    attributes = [name for name in described if name in columns and name not in context]
    roles = {
        "user": user, "item": item, "context": context, "item_columns": attributes,
        "leaks": context,
    }  # fmt: skip
    roles["refunds"] = space.refunds.choice
    return roles | _types_as_learned(space, columns, event_type)


def _types_as_learned(
    space: FeatureSpace, columns: Sequence[str], event_type: str | None
) -> dict[str, Any]:
    """Return the column and weights of event types, if the model and the events have them."""
    if space.event_weights is None:
        known = space.refunds.column
        return {"event_type": known} if known in columns and event_type is None else {}
    name, weights = space.event_weights
    types = event_type or (name if name in columns else find_column("event_type", columns, None))
    return {} if types is None else {"event_type": types, "event_weights": dict(weights)}


def check_weights(space: FeatureSpace, data: Dataset) -> None:
    """Warn if the model was fitted with event weights and the new events have no event types."""
    if space.event_weights is not None and "weight" not in data.columns.columns:
        notice(
            f"the model was fitted with event_weights ({space.event_weights.column!r}), and the "
            f"new events have no event types: all count the same; {named('event_type', ...)} names "
            "their column"
        )


def no_history() -> OptionError:
    """Return the error for new events given to a model that they would not change."""
    return OptionError(
        "the model does not use history: fit it with a history, or learn from the events with "
        "update or fold_in"
    )


def known_events(space: FeatureSpace, data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return user and item numbers of the events with known ids, and which these are.

    user, item: int32 [known events]; known: bool [events]. A notice counts the other events.
    """
    user = space.users.numbers(data.users.ids)[data.user]
    item = space.items.numbers(data.items.ids)[data.item]
    known = (user >= 0) & (item >= 0)
    if not known.all():
        notice(
            f"{len(known) - int(known.sum()):,} of {len(known):,} events have unknown users or "
            "items and are ignored: update learns from them"
        )
    return user[known], item[known], known


def of_known_items(space: FeatureSpace, data: Dataset, unknown: str) -> Dataset:
    """Return the events with known items; unknown="ignore" counts the others, "error" raises."""
    checks.one_of("unknown", unknown, ITEMS)
    missing = space.items.numbers(data.items.ids)[data.item] < 0
    if not missing.any():
        return data
    first = data.items.ids[int(data.item[np.argmax(missing)])]
    if unknown == "error":
        number_of("item", first, space.items)
    count, shown = int(missing.sum()), shown_first(first, space.items.ids)
    if count == len(data):
        raise UnknownError(
            f"none of the {count:,} events has an item that the model knows, the first has "
            f"{shown}: `update` learns new items, a fold-in only users"
        )
    notice(
        f"{count:,} of {len(data):,} events have unknown items and are ignored, the first has "
        f"{shown}; {named('unknown', 'error')} refuses them"
    )
    return data.take(~missing)
