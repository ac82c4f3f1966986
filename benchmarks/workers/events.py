"""A set of events from its folder, as the peers want it."""

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sparse


@lru_cache(maxsize=1)
def matrix(folder):
    """csr float32 [users, items] of ones; the events are distinct, so it holds one entry each."""
    user, item = (np.load(Path(folder) / f"{name}.npy") for name in ("user", "item"))
    size = json.loads((Path(folder) / "size.json").read_text())
    ones = np.ones(len(user), np.float32)
    return sparse.csr_matrix((ones, (user, item)), shape=(size["users"], size["items"]))


def one_hot(folder, name, columns):
    """csr float32 [ids, ids + values]: each id's own feature, then the values of its attributes."""
    codes = np.load(Path(folder) / f"{name}.npy")[:, :columns]
    offsets = np.concatenate([[0], np.cumsum(codes.max(axis=0) + 1)])
    place = (codes + offsets[:-1]).ravel()
    owner = np.repeat(np.arange(len(codes)), columns)
    ones = np.ones(len(place), np.float32)
    values = sparse.csr_matrix((ones, (owner, place)), shape=(len(codes), offsets[-1]))
    return sparse.hstack([sparse.identity(len(codes), np.float32), values], format="csr")
