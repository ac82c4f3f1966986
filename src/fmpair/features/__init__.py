"""Features: how columns of either side become sparse rows."""

from fmpair.features.domains import with_sources
from fmpair.features.field import Field
from fmpair.features.pairing import Pairing
from fmpair.features.space import FeatureSpace, Side, situations

__all__ = ["FeatureSpace", "Field", "Pairing", "Side", "situations", "with_sources"]
