"""The strength of regularisation of every table and every feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fmpair.errors import OptionError, unknown
from fmpair.features import FeatureSpace, Side
from fmpair.models.option import GROUPS

# Defaults found on validation parts, see docs/defaults.md.
CONTEXT = 0.05
USER_FEATURES = 0.05
ITEM_FEATURES = 0.05


class Penalties(NamedTuple):
    """user, positive, negative, bias: numbers; query, features: float32 [features of a side]."""

    user: float
    positive: float
    negative: float
    bias: float
    query: np.ndarray
    features: np.ndarray


def penalties(given: float | Mapping[str, float], space: FeatureSpace, default: float) -> Penalties:
    """Every penalty, from what the recipe gives and the fields' own options."""
    named: Mapping[str, float] = given if isinstance(given, Mapping) else {}
    base = default if isinstance(given, Mapping) else float(given)
    sides = (space.query, space.item)
    fields = [e.name for side in sides for e in side.encoders]
    for name in named:
        if name not in GROUPS and name not in fields:
            raise OptionError(unknown("regularization", name, [*GROUPS, *fields]))
    item = named.get("item", base)
    return Penalties(
        named.get("user", base), item, named.get("negative", item), named.get("bias", 0.0),
        _by_feature(space.query, named), _by_feature(space.item, named),
    )  # fmt: skip


def _by_feature(side: Side, named: Mapping[str, float]) -> np.ndarray:
    """float32 [features]: the field's own, else by field name, else by role, else the default."""
    values = [_of_field(encoder, named) for encoder in side.encoders]
    sizes = [encoder.size for encoder in side.encoders]
    return np.repeat(np.asarray(values, np.float32), sizes)


def _of_field(encoder: Any, named: Mapping[str, float]) -> float:
    if encoder.field.regularization is not None:
        return encoder.field.regularization
    group, default = {
        "context": ("context", CONTEXT),
        "user": ("user_features", USER_FEATURES),
        "item": ("item_features", ITEM_FEATURES),
    }[encoder.role]
    return named.get(encoder.name, named.get(group, default))
