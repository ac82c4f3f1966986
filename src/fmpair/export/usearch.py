"""An index of nearest neighbours for USearch, which finds the best items without scoring all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fmpair.bridges.requirement import Requirement
from fmpair.export.vectors import items_of
from fmpair.files import atomic_path
from fmpair.fitted.recommender import Recommender
from fmpair.threads import all_threads

USEARCH = Requirement("usearch", "usearch", "usearch")
NEIGHBOURS, TRIED = 32, 256  # twice USearch's own: the file is made once, and asked often


def write_usearch(model: Recommender, path: str | Path) -> None:
    """An index by inner product of vectors [factors + 1]; keys are rows of `item_ids`."""
    index = USEARCH.load("index").Index(
        ndim=model.item_vectors.shape[1] + 1,
        metric="ip",
        dtype="f32",
        connectivity=NEIGHBOURS,
        expansion_add=TRIED,
    )
    vectors = items_of(model).vectors
    index.add(np.arange(len(vectors), dtype=np.uint64), vectors, threads=all_threads())
    with atomic_path(path) as part:
        index.save(str(part))
