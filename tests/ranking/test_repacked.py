"""Few changed items among compressed ones: the lists are those of compressing all of them."""

import numpy as np
import pytest

from fmpair.arrays import empty_rows
from fmpair.fitted.large_catalogue import cells
from fmpair.ranking.compressed import pack, top
from fmpair.ranking.repacked import repacked

ITEMS, NEW, FACTORS, N = 3_000, 40, 48, 10


def generated(count, seed):
    """Vectors whose spread falls from axis to axis, so that codes leave some axes out."""
    draw = np.random.default_rng(seed)
    spread = np.exp(-np.arange(FACTORS) / 6)
    return (draw.standard_normal((count, FACTORS)) * spread).astype(np.float32)


@pytest.mark.parametrize("in_cells", [False, True])
@pytest.mark.parametrize("new", [0, NEW])
def test_lists_with_changed_and_new_items_are_those_of_all_scores(in_cells, new):
    vectors, constants = generated(ITEMS, 0), generated(ITEMS, 1)[:, 0]
    arranged = cells(vectors, constants, 50) if in_cells else (None, None)
    before = pack(vectors, constants, *arranged)
    kept = [array.copy() for array in before[:9]]
    moved = np.arange(0, ITEMS, 60)
    after = np.concatenate([vectors, 3 * generated(new, 2)])
    after[moved] = 3 * generated(len(moved), 3)  # longer, so that many are on the lists
    constants = np.concatenate([constants, np.ones(new, np.float32)])
    packed = repacked(before, after, constants, np.append(moved, np.arange(ITEMS, ITEMS + new)))
    queries = generated(30, 4)
    scores = queries.astype(np.float64) @ after.T.astype(np.float64) + constants
    wanted = np.argsort(-scores, axis=1)[:, :N]
    assert np.isin(wanted, moved).mean() > 0.2 and (not new or (wanted >= ITEMS).any())
    item, _, _ = top(queries, after, packed, empty_rows(30), N, reach=1.0 if in_cells else None)
    np.testing.assert_array_equal(item, wanted)
    for array, same in zip(before, kept):  # others may still be answered by them
        np.testing.assert_array_equal(array, same)
