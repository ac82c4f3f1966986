"""Build implicit's own index of item vectors, that of its FaissAlternatingLeastSquares.

    python implicit_index.py vectors.npz vectors.faiss RECALL

implicit builds it when a model is fitted, and cannot save it; so this fits a model that has its
vectors already, and saves the index inside. Prints JSON: the seconds that took, and by number of
cells that a search visits the share of the exact lists of 400 users that it finds, 10 items each:
for the number that is implicit's default, and for the least that reaches the recall wanted.
"""

import json
import sys
import time

import faiss
import numpy as np
from implicit.ann.faiss import FaissModel
from implicit.cpu.als import AlternatingLeastSquares

ASKED, LENGTH = 400, 10


class Given(AlternatingLeastSquares):
    """A model whose vectors are given."""

    def fit(self, *args, **options):
        pass


def main() -> None:
    held, target, wanted = np.load(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    model = Given()
    model.item_factors = items = held["items"]
    users = held["users"]
    users = users[np.random.default_rng(0).permutation(len(users))[:ASKED]]
    begun = time.perf_counter()
    indexed = FaissModel(model, approximate_similar_items=False, use_gpu=False)
    indexed.fit(None, show_progress=False)
    seconds, index = round(time.perf_counter() - begun), indexed.recommend_index
    faiss.write_index(index, target)
    scores = users @ items.T
    exact = np.argpartition(-scores, LENGTH, axis=1)[:, :LENGTH]

    def recall(cells: int) -> float:
        index.nprobe = cells
        found = index.search(users, LENGTH)[1]
        return sum(len({*a} & {*b}) for a, b in zip(found, exact)) / exact.size

    by_cells = {indexed.nprobe: recall(indexed.nprobe)}
    low, high = 0, indexed.nlist
    while high - low > 1:
        middle = (low + high) // 2
        by_cells[middle] = recall(middle)
        low, high = (low, middle) if by_cells[middle] >= wanted else (middle, high)
    found = {cells: by_cells.get(cells) or recall(cells) for cells in (indexed.nprobe, high)}
    print(json.dumps({"seconds": seconds, "recall": found}))


if __name__ == "__main__":
    main()
