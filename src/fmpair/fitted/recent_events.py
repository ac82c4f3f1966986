"""The latest events of each user that a model knows: where its histories come from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fmpair.arrays import Rows, stack_rows, starts
from fmpair.data.times import Timelines
from fmpair.features import FeatureSpace, Field
from fmpair.features.field import duration
from fmpair.features.history_fields import history_rows, history_weights


class Recent(NamedTuple):
    """Per user the latest events, oldest first.

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
        """int64 [events]: whose each is."""
        return np.repeat(np.arange(self.users), np.diff(self.start))

    @property
    def now(self) -> int:
        """The latest moment of all, 0 where there is none."""
        return int(self.moment.max(initial=0))

    def line(self, user: int) -> tuple[np.ndarray, np.ndarray]:
        """(item, moment) of one user's latest events; none for number -1."""
        own = slice(self.start[user], self.start[user + 1]) if user >= 0 else slice(0, 0)
        return self.item[own], self.moment[own]

    def take(self, users: np.ndarray) -> Recent:
        """Those of the given users, in that order; none for number -1."""
        users = np.asarray(users, np.int64)
        first = self.start[:-1][users]
        lengths = np.where(users < 0, 0, self.start[1:][users] - first)
        start = starts(lengths)
        places = np.repeat(first - start[:-1], lengths) + np.arange(start[-1])
        return Recent(start, self.item[places], self.moment[places])

    def items(
        self, users: np.ndarray, within: int | None = None, now: np.ndarray | None = None
    ) -> Rows:
        """Per user the items, oldest first, each of value 1; none for number -1.

        now: int64 [users], only what is strictly before; the latest moment of all unless given.
        within: no more than so many microseconds before that.
        """
        own = self.take(users)
        owner, kept = own.owner, np.ones(len(own.item), bool)
        if now is not None:
            kept = own.moment < now[owner]
        if within is not None:
            kept &= own.moment >= (self.now if now is None else now[owner]) - within
        owner = owner[kept]
        count = np.bincount(owner, minlength=own.users)
        return Rows(starts(count), own.item[kept], np.ones(len(owner), np.float32))

    def one(self, user: int, within: str | None = None, now: int | None = None) -> np.ndarray:
        """int32: the items of one user, as `items` gives them; within: such as 30d."""
        item, moment = self.line(user)
        if now is not None:
            item, moment = item[moment < now], moment[moment < now]
        if within is not None:
            item = item[moment >= (self.now if now is None else now) - duration(within)]
        return item


class Given(NamedTuple):
    """What a question says of what came before.

    history: per query item numbers, oldest first; told: bool [queries], whether it says so at all.
    now: int64 [queries], the moment of the question. None where nothing is said.
    """

    history: Rows | None = None
    told: np.ndarray | None = None
    now: np.ndarray | None = None


NOTHING = Given()


def features_before(
    field: Field, recent: Recent, features: Rows, user: np.ndarray, given: Given
) -> Rows:
    """Per query the features of what came before: what is given, else what is known of the user.

    user: int32 [queries], -1 where unknown. features: per item, as one that came before.
    """
    within = None if field.within is None else duration(field.within)
    items = recent.items(user, within, given.now)
    if given.history is not None and given.told is not None:
        place = np.arange(len(user))
        items = stack_rows(items, given.history).take(place + len(user) * given.told)
    return history_rows(items, history_weights(field), features)


def one_before(
    weight: np.ndarray, items: np.ndarray, features: Rows
) -> tuple[np.ndarray, np.ndarray]:
    """(column, value) of the features of one query's earlier items, oldest first: `history_rows`
    of one row, for which somebody waits.
    """
    weight = weight[: len(items)]
    own = features.take(items[len(items) - len(weight) :])
    return own.column, np.repeat(weight[::-1], np.diff(own.start)) * own.value


def latest(lines: Timelines, last: int, first: np.ndarray | None = None) -> Recent:
    """The last so many events of each time line; first: int64 [users], none before these places."""
    end = lines.start[1:]
    begin = np.maximum(lines.start[:-1] if first is None else first, end - last)
    lengths = np.maximum(end - begin, 0)
    start = starts(lengths)
    places = np.repeat(end - start[1:], lengths) + np.arange(start[-1])
    return Recent(start, lines.item[places], lines.moment[places])


def remembers(space: FeatureSpace) -> bool:
    """Whether queries of a model depend on what their users did last."""
    return space.history is not None or space.since


def most_recent(space: FeatureSpace) -> int:
    """How many events of a user are ever asked for."""
    return space.history.last if space.history is not None else 1


def stacked(first: Recent, second: Recent) -> Recent:
    """The users of the one and then those of the other."""
    start = np.append(first.start, second.start[1:] + first.start[-1])
    item = np.concatenate([first.item, second.item])
    return Recent(start, item, np.concatenate([first.moment, second.moment]))
