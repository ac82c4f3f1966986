"""Features: how columns of users, items and events become sparse rows."""

from fmpair.features.encoder import Encoder
from fmpair.features.field import Field
from fmpair.features.layouts import joined, with_histories, with_sources, without_columns
from fmpair.features.space import FeatureSpace, Pairing, Side, situations

__all__ = [
    "Encoder", "FeatureSpace", "Field", "Pairing", "Side", "joined", "situations", "with_histories",
    "with_sources", "without_columns",
]  # fmt: skip
