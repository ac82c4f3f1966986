"""A model in service: it takes in events as they come, with nothing learned and nothing copied.

`Recommender.extended` makes a new model of all events; here a user's row is put aside and grows.
"""

from __future__ import annotations

import numpy as np

from fmpair.arrays import Rows, starts
from fmpair.data.times import timelines
from fmpair.fitted.extension import with_events, with_pairs
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recent_events import Recent, most_recent
from fmpair.fitted.recommender import Recommender
from fmpair.fitted.scorer import Follows

LiveModel = Recommender | Ranker

NONE = np.zeros(0, np.int32)


class LiveRows(Rows):
    """Rows of which some have grown since: `take` and `row` give these as they are now."""

    newer: dict[int, np.ndarray]

    @classmethod
    def of(cls, rows: Rows) -> LiveRows:
        own = cls(*rows)
        own.newer = {}
        return own

    def row(self, number: int) -> np.ndarray:
        found = self.newer.get(number)
        return Rows.row(self, number) if found is None else found

    def take(self, rows: np.ndarray) -> Rows:
        if self.newer.keys().isdisjoint(rows.tolist()):
            return Rows.take(self, rows)
        parts = [self.row(number) for number in rows.tolist()]
        start = starts(np.array([len(part) for part in parts]))
        return Rows(start, np.concatenate(parts), np.ones(start[-1], np.float32))

    def add(self, number: int, columns: np.ndarray) -> None:
        """Let a sorted row have these columns too."""
        self.newer[number] = np.union1d(self.row(number), columns).astype(np.int32)


class LiveRecent(Recent):
    """The latest events of users, some of whom have had further ones since."""

    newer: dict[int, tuple[np.ndarray, np.ndarray]]
    latest: int

    @classmethod
    def of(cls, recent: Recent) -> LiveRecent:
        own = cls(*recent)
        own.newer, own.latest = {}, recent.now
        return own

    @property
    def now(self) -> int:
        return self.latest

    def line(self, user: int) -> tuple[np.ndarray, np.ndarray]:
        found = self.newer.get(user)
        return Recent.line(self, user) if found is None else found

    def take(self, users: np.ndarray) -> Recent:
        users = np.asarray(users, np.int64)
        if self.newer.keys().isdisjoint(users.tolist()):
            return Recent.take(self, users)
        lines = [self.line(user) for user in users.tolist()]
        start = starts(np.array([len(item) for item, _ in lines]))
        item, moment = (np.concatenate([line[side] for line in lines]) for side in (0, 1))
        return Recent(start, item, moment)

    def add(self, user: int, item: np.ndarray, moment: np.ndarray, last: int) -> None:
        """Put events in their places by time, where they are not there yet; keep the last."""
        items, moments = self.line(user)
        pairs = zip([*moments.tolist(), *moment.tolist()], [*items.tolist(), *item.tolist()])
        # each once; those of one moment stay in the order they came in
        kept = sorted(dict.fromkeys(pairs), key=_moment)[-last:]
        self.newer[user] = (
            np.array([number for _, number in kept], np.int32),
            np.array([when for when, _ in kept], np.int64),
        )
        self.latest = max(self.latest, int(moment.max()))


def _moment(event: tuple[int, int]) -> int:
    return event[0]


def in_service(
    model: LiveModel, user: np.ndarray = NONE, item: np.ndarray = NONE, moment: np.ndarray = NONE
) -> LiveModel:
    """A model that takes in events, beginning with these: int [events], numbers and microseconds.

    Those it has learned from already, or that are told twice, count once.
    """
    changes: dict[str, object] = {"seen": LiveRows.of(with_pairs(model.seen, user, item))}
    if isinstance(model, Recommender):
        if model.recent is not None:
            new = _new(model.recent, user, item, moment)
            events = user[new], item[new], moment[new].astype(np.int64)
            own = with_events(model.recent, *events, most_recent(model.space))
            changes["recent"] = LiveRecent.of(own)
    elif isinstance(model.scorer, Follows) and len(user):
        changes["scorer"] = _followed(model, user, item, moment)
    return _with(model, changes)


def take_in(model: LiveModel, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> LiveModel:
    """The model, in service, with few further events: the same one unless its scorer is another."""
    assert isinstance(model.seen, LiveRows)
    for one in np.unique(user).tolist():
        own = user == one
        model.seen.add(one, item[own])
        if isinstance(model, Recommender) and isinstance(model.recent, LiveRecent):
            model.recent.add(one, item[own], moment[own], most_recent(model.space))
    if isinstance(model, Ranker) and isinstance(model.scorer, Follows) and len(user):
        return _with(model, {"scorer": _followed(model, user, item, moment)})
    return model


def _with(model: LiveModel, changes: dict[str, object]) -> LiveModel:
    """The model with other parts, and all that was worked out of it once."""
    live = model.replaced(**changes)
    vars(live).update({name: own for name, own in vars(model).items() if name not in vars(live)})
    return live


def _new(recent: Recent, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> np.ndarray:
    """bool [events]: those that the model does not know yet, the first of each alike."""
    users, number = np.unique(user, return_inverse=True)
    own = recent.take(users)
    owner = np.concatenate([own.owner, number])
    items, moments = np.append(own.item, item), np.append(own.moment, moment)
    order = np.lexsort((items, moments, owner))  # stable: what is known comes first
    alike = np.zeros(len(order), bool)
    for part in (owner, items, moments):
        alike[1:] |= part[order][1:] != part[order][:-1]
    alike[1:] = ~alike[1:]
    repeated = np.empty(len(order), bool)
    repeated[order] = alike
    return ~repeated[len(own.item) :]


def _followed(model: Ranker, user: np.ndarray, item: np.ndarray, moment: np.ndarray) -> object:
    """The scorer with further events known."""
    assert isinstance(model.scorer, Follows)
    return model.scorer.extended(timelines(user, item, len(model.space.users), moment))
