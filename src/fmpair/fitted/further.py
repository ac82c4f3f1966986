"""Further events for a fitted model, read as those it learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fmpair import checks
from fmpair.data import Dataset, as_dataset
from fmpair.data.frame import to_polars
from fmpair.data.roles import STANDARD, find_column
from fmpair.errors import UnknownError, named, notice
from fmpair.features import FeatureSpace
from fmpair.features.calendar import TIME
from fmpair.fitted.lookup import number_of
from fmpair.fitted.query import check_columns, column_of
from fmpair.fitted.recipe import can_go_on

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
