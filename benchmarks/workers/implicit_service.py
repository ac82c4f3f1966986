"""Recommendations over HTTP by FastAPI and implicit, as users of the two write it.

    MODEL=vectors.npz [INDEX=vectors.faiss CELLS=20] uvicorn implicit_service:app --workers 2

vectors.npz: user and item vectors, and the items that users have seen. INDEX: implicit's own index,
of `implicit_index.py`; CELLS: how many of its cells a search visits.
"""

import os

import numpy as np
from fastapi import FastAPI
from implicit.cpu.als import AlternatingLeastSquares
from pydantic import BaseModel
from scipy.sparse import csr_matrix

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # implicit warns where it is not so

held = np.load(os.environ["MODEL"])
model = AlternatingLeastSquares(factors=held["items"].shape[1])
model.user_factors, model.item_factors = held["users"], held["items"]
if "INDEX" in os.environ:
    import faiss
    from implicit.ann.faiss import FaissModel

    faiss.omp_set_num_threads(1)  # each worker has its own requests
    model = FaissModel(model, approximate_similar_items=False, use_gpu=False)
    model.recommend_index = faiss.read_index(os.environ["INDEX"], faiss.IO_FLAG_MMAP)
    model.recommend_index.nprobe = int(os.environ["CELLS"])
shape = (len(held["users"]), len(held["items"]))
user_items = csr_matrix((np.ones(len(held["column"])), held["column"], held["start"]), shape)
user_index = {str(user): number for number, user in enumerate(held["user_ids"].tolist())}
item_ids = held["item_ids"].tolist()
app = FastAPI()


class Question(BaseModel):
    user: int | str
    n: int = 10


class Ranked(BaseModel):
    item: int | str
    score: float
    rank: int


class Answer(BaseModel):
    items: list[Ranked]


@app.post("/v1/recommend")
def recommend(question: Question) -> Answer:
    number = user_index[str(question.user)]
    items, scores = model.recommend(number, user_items[number], N=question.n)
    found = zip(items.tolist(), scores.tolist())
    return Answer(
        items=[Ranked(item=item_ids[i], score=s, rank=r) for r, (i, s) in enumerate(found, 1)]
    )
