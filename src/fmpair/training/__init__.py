"""Training: from a recipe and a data set to fitted parameters.

`trainable` starts a fit: `epochs` splits off validation events and keeps the best epoch.
`loop` builds a `Task` from recipe and data and runs its epochs on an engine.
`problem` turns a data set into arrays, with `options`, `defaults` and `regularisation` as settings.
`update` and `growth` continue from a fitted model; `checkpoint` continues an interrupted fit.
`tuning` finds better options: `search` says what to try next, `tuned` stores the fits and shows the
result. `trials` decide about history, times and order of `FMPair()`.
`shards` fits to Parquet files on a cluster, `device_parts` on a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fmpair.lazy_names import lazy_names

if TYPE_CHECKING:
    from fmpair.training.checkpoint import Checkpoint
    from fmpair.training.epochs import Epoch, Validation
    from fmpair.training.shards import fit_parts
    from fmpair.training.tuned import Tuned

_MODULES = {
    "Checkpoint": "checkpoint",
    "Epoch": "epochs",
    "Tuned": "tuned",
    "Validation": "epochs",
    "fit_parts": "shards",
}
__all__ = ["Checkpoint", "Epoch", "Tuned", "Validation", "fit_parts"]

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
