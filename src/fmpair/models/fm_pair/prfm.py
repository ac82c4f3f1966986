"""PRFM: FM-Pair with adaptive negatives, the pairwise ranking factorization machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fmpair.features import Field
from fmpair.models.fm_pair.recipe import FMPair


@dataclass(frozen=True)
class PRFM(FMPair):
    """FM-Pair that learns from unchosen items it now ranks high.

    A factor that matters to the query is drawn, then an item that stands high by it, so negatives
    are hard and regularisation is stronger. The options are those of FM-Pair, with other defaults.
    """

    regularization: float | Mapping[str, float] | None = field(
        default_factory=lambda: {"user": 0.06, "item": 0.03}
    )
    epochs: int = 60
    negative_sampler: str = "adaptive"
    loss: str = "bpr"
    history: int | str | Mapping[str, Any] | Field | None = 0
