"""Compressed items of which a few have changed, or are new: only these are compressed again."""

from __future__ import annotations

import numpy as np

from fmpair.ranking.compressed import Packed, lengths, with_constants, write_codes


def repacked(
    packed: Packed, vectors: np.ndarray, constants: np.ndarray, changed: np.ndarray
) -> Packed:
    """Return the items with other vectors, float32 [items, factors], and constants [items].

    changed: the items whose vectors differ from those that `packed` was made of, and the new ones,
    whose numbers follow. Axes and centres stay; a changed item stays in its cell, a new one is put
    into the last, and the radius of a cell grows where it must. So bounds hold as before.
    """
    old, items = len(packed.order), len(vectors)
    new, width = items - old, packed.codes.shape[1]
    order = np.concatenate([packed.order, np.arange(old, items, dtype=np.int32)])
    codes = np.concatenate([packed.codes, np.zeros((new, width), np.int8)])
    facts = np.concatenate([packed.facts, np.zeros((3, new), np.float32)], axis=1)
    start = np.append(packed.start[:-1], items)
    place = np.empty(items, np.int64)
    place[order] = np.arange(items)
    row, exact = place[changed], vectors[changed].astype(np.float64)
    turned = exact @ packed.axes
    own_codes, own_facts = np.zeros((len(row), width), np.int8), np.zeros((3, len(row)), np.float32)
    own_facts[1], own_facts[2] = lengths(exact, turned)
    write_codes(turned, 0, own_codes, own_facts)
    codes[row], facts[:, row] = own_codes, own_facts
    radius = packed.radius.copy()
    if len(radius) > 1:
        cell = np.searchsorted(start, row, "right") - 1
        distance = np.linalg.norm(exact - packed.centre[cell], axis=1) * (1 + 1e-6)
        np.maximum.at(radius, cell, distance.astype(np.float32))
    moved = packed._replace(order=order, codes=codes, facts=facts, start=start, radius=radius)
    return with_constants(moved, constants)
