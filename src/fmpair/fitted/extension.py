"""A fitted model that knows further events, with nothing learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from fmpair import checks
from fmpair.arrays import Rows, starts
from fmpair.data import Dataset, as_dataset
from fmpair.data.columns.roles import STANDARD, find_column
from fmpair.data.frame import to_polars
from fmpair.data.times import moments, timelines
from fmpair.errors import OptionError, UnknownError, named, notice
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME
from fmpair.fitted.id_lookup import number_of
from fmpair.fitted.question import check_columns, column_of
from fmpair.fitted.recent_events import Recent, latest, most_recent
from fmpair.fitted.recipe import can_go_on
from fmpair.fitted.scorer import Follows

# What was worked out of the tables, which stay as they are.
STAYS = (
    "known",
    "item_ids",
    "_item_side",
    "item_norms",
    "_earlier_items",
    "_history_weights",
    "triples",
)
STAYS_UNDAMPED = ("item_constants", "taken_off", "item_matrix")


class Extensible(Protocol):
    @property
    def space(self) -> FeatureSpace: ...
    @property
    def seen(self) -> Rows: ...
    @property
    def recent(self) -> Recent | None: ...
    @property
    def damping(self) -> float: ...

    def replaced(self, **changes: object) -> Self: ...


class Scored(Protocol):
    @property
    def space(self) -> FeatureSpace: ...
    @property
    def scorer(self) -> object: ...
    @property
    def seen(self) -> Rows: ...

    def replaced(self, **changes: object) -> Self: ...


Model = TypeVar("Model", bound=Extensible)
Ranked = TypeVar("Ranked", bound=Scored)


def extended(model: Model, data: Dataset) -> Model:
    """The model with the events known: histories go by them, and lists leave their items out.

    Events of unknown users or items are passed over and counted.
    """
    if model.recent is None:
        raise goes_by_nothing()
    user, item, known = known_events(model.space, data)
    moment = moments_after(model.recent, data)[known]
    own = with_events(model.recent, user, item, moment, most_recent(model.space))
    new = model.replaced(seen=with_pairs(model.seen, user, item), recent=own)
    names = STAYS if model.damping else STAYS + STAYS_UNDAMPED
    vars(new).update({name: vars(model)[name] for name in names if name in vars(model)})
    return new


def goes_by_nothing() -> OptionError:
    """The error of a model that further events would not change."""
    return OptionError(
        "the model does not go by what came before: fit it with a history, or let it learn "
        "from the events by update or fold_in"
    )


def known_events(space: FeatureSpace, data: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(user, item: of the events that are of known ones; known: bool [events], which these are)."""
    user = space.users.numbers(data.users.ids)[data.user]
    item = space.items.numbers(data.items.ids)[data.item]
    known = (user >= 0) & (item >= 0)
    if not known.all():
        notice(
            f"{len(known) - int(known.sum()):,} of {len(known):,} events are of unknown users or "
            "items and are passed over: update learns from them"
        )
    return user[known], item[known], known


def following(model: Ranked, data: Dataset) -> Ranked:
    """The same of a model whose scorer goes by what came last; rows without times are in order."""
    if not isinstance(model.scorer, Follows):
        raise goes_by_nothing()
    user, item, known = known_events(model.space, data)
    moment = moments(data)
    moment = np.arange(len(data), dtype=np.int64) if moment is None else moment
    lines = timelines(user, item, len(model.space.users), moment[known])
    return model.replaced(
        scorer=model.scorer.extended(lines), seen=with_pairs(model.seen, user, item)
    )


def goes_by_past(model: object) -> bool:
    """Whether a fitted model can be extended: whether it goes by what its users did last."""
    follows = isinstance(getattr(model, "scorer", None), Follows)
    return follows or getattr(model, "recent", None) is not None


def moments_after(recent: Recent, data: Dataset) -> np.ndarray:
    """int64 [events]: moments; where only an order is known, it begins after all that is known."""
    found = moments(data)
    if found is None:
        found = np.arange(len(data), dtype=np.int64)
    if data.order is not None or "timestamp" not in data.columns.columns:
        found = found - found.min(initial=0) + recent.now + 1
    return found


def with_events(
    recent: Recent, user: np.ndarray, item: np.ndarray, moment: np.ndarray, last: int
) -> Recent:
    """The last so many events of each user, with these among them: int [events] each."""
    users = np.unique(user)
    own = recent.take(users)
    lines = timelines(
        np.concatenate([own.owner, np.searchsorted(users, user)]).astype(np.int32),
        np.concatenate([own.item, item]).astype(np.int32),
        len(users),
        np.concatenate([own.moment, moment]),
    )
    new = latest(lines, last)
    before = np.diff(recent.start)
    lengths, stays = before.copy(), np.ones(recent.users, bool)
    stays[users], lengths[users] = False, np.diff(new.start)
    old, kept = np.repeat(stays, lengths), np.repeat(stays, before)
    item = _woven(old, recent.item[kept], new.item)
    return Recent(starts(lengths), item, _woven(old, recent.moment[kept], new.moment))


def with_pairs(seen: Rows, user: np.ndarray, item: np.ndarray) -> Rows:
    """Sorted rows of items seen with further pairs among them, each counted once more."""
    pair, times = np.unique((user.astype(np.int64) << 32) | item, return_counts=True)
    owner, column = pair >> 32, (pair & 0xFFFFFFFF).astype(np.int32)
    place = _places(seen, owner, column)
    inside = place < seen.start[owner + 1]
    there = inside & (seen.column[np.minimum(place, len(seen.column) - 1)] == column)
    value = seen.value.copy()
    value[place[there]] += times[there]
    new = ~there
    added = np.bincount(owner[new], minlength=seen.size)
    return Rows(
        seen.start + starts(added),
        np.insert(seen.column, place[new], column[new]),
        np.insert(value, place[new], times[new].astype(np.float32)),
    )


def _places(rows: Rows, owner: np.ndarray, column: np.ndarray) -> np.ndarray:
    """int64: where each column stands in its owner's sorted row, or would stand."""
    low, high = rows.start[owner], rows.start[owner + 1]
    while (low < high).any():  # all are searched side by side: rows may be millions, pairs are few
        middle = (low + high) // 2
        open_, less = low < high, rows.column[np.minimum(middle, len(rows.column) - 1)] < column
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low


def _woven(first: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Two arrays in one, of the type of the first; first: bool, where its elements stand."""
    out = np.empty(len(first), one.dtype)
    out[first], out[~first] = one, other
    return out


# Further events for a fitted model, read as those it learned from.


ITEMS = ("ignore", "error")  # what may be done with events of unknown items


class Known(Protocol):
    @property
    def space(self) -> FeatureSpace: ...

    @property
    def recipe(self) -> Any: ...


def further_events(model: Known, data: Any) -> Dataset:
    """A Dataset or a sparse matrix as it is; of a frame the columns that the model knows."""
    if isinstance(data, Dataset) or hasattr(data, "tocoo"):
        return as_dataset(data)
    columns = to_polars(data).columns
    options = roles_as_learned(model.space, columns)
    level = getattr(getattr(model, "recipe", None), "level", None)  # of FMPairLevels
    if level in columns and level not in STANDARD:
        options["context"] = options["leaks"] = [*options["context"], level]
    return as_dataset(data, **options)


def updated(model: Known, data: Any, epochs: int | None, replay: Any) -> Any:
    """The model after an update by its recipe, which need not know of replay where none is asked.

    replay: earlier events, or how many of them for each new one.
    """
    options: dict[str, Any] = {}
    if not isinstance(replay, int | float):
        options["replay"] = further_events(model, replay)
    elif replay:
        options["replay"] = replay
    news = further_events(model, data)
    if model.space.event_weights is not None and "weight" not in news.columns.columns:
        column = model.space.event_weights.column
        notice(
            f"the model was fitted with weights by kind of event ({column!r}), and the new events "
            f"tell no kinds: all count alike; {named('event_type', ...)} names their column"
        )
    return can_go_on(model.recipe).update(model, news, epochs, **options)


def roles_as_learned(
    space: FeatureSpace, columns: Sequence[str], event_type: str | None = None
) -> dict[str, Any]:
    """The options of `Dataset.from_frame` by which columns play the parts they played before.

    Those that played none are left out. event_type: the column of kinds of events, where another.
    """
    user, item = (column_of(space, role, columns) for role in ("user", "item"))
    check_columns(space, columns, user)
    context = [name for name in space.context if name in columns and name != TIME]
    described = list(dict.fromkeys(encoder.source for encoder in space.item.encoders))
    own = [name for name in described if name in columns and name not in context]
    roles = {"user": user, "item": item, "context": context, "item_columns": own, "leaks": context}
    return roles | _weights_as_learned(space, columns, event_type)


def _weights_as_learned(
    space: FeatureSpace, columns: Sequence[str], event_type: str | None
) -> dict[str, Any]:
    """Kinds of events and what each weighs, where the model has weights and a column has kinds."""
    if space.event_weights is None:
        return {}
    own, weights = space.event_weights
    kinds = event_type or (own if own in columns else find_column("event_type", columns, None))
    return {} if kinds is None else {"event_type": kinds, "event_weights": dict(weights)}


def of_known_items(model: Known, data: Dataset, unknown: str) -> Dataset:
    """The events whose items the model knows; unknown: ignore passes over and counts the rest."""
    checks.one_of("unknown", unknown, ITEMS)
    missing = model.space.items.numbers(data.items.ids)[data.item] < 0
    if not missing.any():
        return data
    first = data.items.ids[int(data.item[np.argmax(missing)])]
    if unknown == "error":
        number_of("item", first, model.space.items)
    count = int(missing.sum())
    if count == len(data):
        raise UnknownError(
            f"none of the {count:,} events has an item that the model knows, the first has "
            f"{first!r}: `update` learns new items, a fold-in only users"
        )
    notice(
        f"{count:,} of {len(data):,} events have unknown items and are passed over, the first has "
        f"{first!r}; {named('unknown', 'error')} refuses them"
    )
    return data.take(~missing)
