"""The arrays of fitted models in a file: what they must be, and models' parts made of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fmpair.arrays import Rows
from fmpair.engine.contract import Parameters
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace
from fmpair.features.encoder import FAR
from fmpair.features.history import history_weights
from fmpair.fitted.integrity import (
    Moments,
    Numbers,
    Places,
    Starts,
    Table,
    check,
    largest,
    longest,
    reach,
    refuse_overflow,
    sparse,
)
from fmpair.fitted.named_rows import rows_from
from fmpair.fitted.recent import Recent, remembers


def learned(
    arrays: Mapping[str, np.ndarray], space: FeatureSpace, damping: float
) -> tuple[Parameters, Rows, Rows, Rows, Recent | None]:
    """(parameters, user_rows, item_rows, seen, recent) of a Recommender that always answers."""
    found = check(arrays, {**_tables(space), **_seen_table(space), **_recent_table(space)})
    parameters = Parameters(*(found[name] for name in Parameters._fields))
    if space.pairing is not None and parameters.users.shape[1] <= space.pairing.factors:
        raise ModelFileError("its vectors have no room for pairs beside triples")
    user_rows, item_rows = rows_from(found, "user_rows"), rows_from(found, "item_rows")
    refuse_overflow(*_extremes(space, parameters, user_rows, item_rows, damping))
    recent = None
    if remembers(space):
        recent = Recent(*(found[f"recent.{part}"] for part in Recent._fields))
    return parameters, user_rows, item_rows, _summable(found), recent


def seen_rows(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Rows:
    """The seen items, where there is no other array."""
    return _summable(check(arrays, _seen_table(space)))


def _summable(found: Mapping[str, np.ndarray]) -> Rows:
    seen = rows_from(found, "seen")
    refuse_overflow(largest(seen.value) * len(seen.value))  # they are added up
    return seen


def _seen_table(space: FeatureSpace) -> Table:
    return sparse("seen", len(space.users), len(space.items))


def _recent_table(space: FeatureSpace) -> Table:
    if not remembers(space):
        return {}
    return {
        "recent.start": Starts((len(space.users) + 1,), "recent events"),
        "recent.item": Places(("recent events",), len(space.items)),
        "recent.moment": Moments(("recent events",)),
    }


def _tables(space: FeatureSpace) -> Table:
    """What the arrays of a Recommender must be, but `seen`."""
    users, items = len(space.users), len(space.items)
    query, features = space.query.size, space.item.size
    return {
        "users": Numbers((users, "factors")),
        "items": Numbers((items, "factors")),
        "item_bias": Numbers((items,)),
        "query": Numbers((query, "factors")),
        "features": Numbers((features, "factors")),
        "feature_bias": Numbers((features,)),
        **sparse("user_rows", users, query),
        **sparse("item_rows", items, features),
    }


def _extremes(
    space: FeatureSpace, p: Parameters, user_rows: Rows, item_rows: Rows, damping: float
) -> tuple[float, ...]:
    """More than the largest numbers that questions to the model can lead to."""
    scales = [encoder.field.scale for encoder in space.query.encoders]
    asked = FAR * sum(scales) * largest(p.query)
    query = largest(p.users) + reach(user_rows, p.query) + asked
    if space.history is not None:
        before = longest(space.earlier_items(item_rows)) * largest(p.query)
        query += float(history_weights(space.history).sum()) * before
    item = largest(p.items) + largest(p.features) + reach(item_rows, p.features)
    bias = largest(p.item_bias) + reach(item_rows, p.feature_bias[:, None])
    scores = p.users.shape[1] * (query + item) * (query + item) + bias
    if space.pairing is not None:
        scores += space.pairing.factors * query * item * (query + item)
    return scores * (1 + abs(damping)), largest(item_rows.value) * largest(item_rows.value)
