"""Features: how columns of either side become sparse rows."""

from fmpair.features.field import Field
from fmpair.features.layouts import with_sources
from fmpair.features.space import FeatureSpace, Pairing, Side, situations

__all__ = ["FeatureSpace", "Field", "Pairing", "Side", "situations", "with_sources"]
