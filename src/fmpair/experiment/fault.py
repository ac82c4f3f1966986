"""Whether a failure is a model's own word about its options, or a fault of the machine.

A model that diverges would do so again, wherever it is run. A process that was killed, a full disk
or too little memory say nothing of the model: what they end must never count as its result.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from fmpair.errors import FmpairError, MachineError

OWN_WORD = (FmpairError, ArithmeticError, np.linalg.LinAlgError)
# Polars tells of a full disk or a missing file by errors of its own.
FAULTS = (MachineError, MemoryError, OSError, pl.exceptions.PolarsError)


def by_model(error: BaseException) -> bool:
    """Whether the model said so of itself, and no fault of the machine is behind it."""
    return isinstance(error, OWN_WORD) and not any(isinstance(e, FAULTS) for e in _behind(error))


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from or while handling, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
