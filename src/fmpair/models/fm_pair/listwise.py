"""ListwiseFM: a factorization machine that learns to tell one item from many at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fmpair.features import Field
from fmpair.models.fm_pair.recipe import FMPair


@dataclass(frozen=True)
class ListwiseFM(FMPair):
    """FM-Pair with a softmax over the cosines of the chosen item and several others.

    The options are those of FM-Pair, with other defaults.
    """

    epochs: int = 60
    init_std: float = 0.1
    loss: str = "softmax"
    temperature: float | None = 0.2
    history: int | str | Mapping[str, Any] | Field | None = 0
