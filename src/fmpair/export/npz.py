"""Arrays for NumPy, and for all else that reads .npy: items, users, and values of the context."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fmpair.export.vectors import contexts_of, items_of, users_of, usual_user
from fmpair.files import atomic_path
from fmpair.fitted.recommender import Recommender


def write_npz(model: Recommender, path: str | Path) -> None:
    """One .npz without pickles: ids and vectors [rows, factors + 1] of each, in the same order."""
    items, users, contexts = items_of(model), users_of(model), contexts_of(model)
    with atomic_path(path) as part, part.open("wb") as file:
        np.savez(
            file,
            item_ids=items.labels,
            item_vectors=items.vectors,
            user_ids=users.labels,
            user_vectors=users.vectors,
            context_labels=contexts.labels,
            context_vectors=contexts.vectors,
            usual_user=usual_user(model),
        )
