"""implicit's BPR. A draw whose negative the user knows is skipped; skipped draws do not count."""

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from events import matrix
from implicit.cpu.bpr import BayesianPersonalizedRanking
from serve import serve


def train(folder, factors, threads, epochs):
    """Seconds and effective updates of each epoch, as implicit itself reports them."""
    seconds, updates = [], []
    events = matrix(folder)

    def note(epoch, elapsed, correct, skipped):
        seconds.append(elapsed)
        updates.append(events.nnz - skipped)

    _model(factors, threads, epochs).fit(events, show_progress=False, callback=note)
    return {"seconds": seconds, "updates": updates}


def curve(folder, factors, threads, epochs, rate, penalty, out):
    """Seconds of each epoch; after each the score's factors are written, outside the clock."""
    seconds = []
    model = _model(factors, threads, epochs, rate, penalty)

    def note(epoch, elapsed, correct, skipped):
        seconds.append(elapsed)
        np.save(Path(out) / f"{len(seconds)}-queries.npy", model.user_factors)
        np.save(Path(out) / f"{len(seconds)}-items.npy", model.item_factors)

    model.fit(matrix(folder), show_progress=False, callback=note)
    return {"seconds": seconds}


def top(folder, factors, n):
    """Seconds to list the n best unseen items of every user, on all threads."""
    events, model = matrix(folder), _fitted(folder, factors)
    users = np.arange(events.shape[0])
    began = time.perf_counter()
    model.recommend(users, events, N=n)
    return {"recommend": time.perf_counter() - began}


@lru_cache(maxsize=1)
def _fitted(folder, factors):
    model = _model(factors, 0, 3)
    model.fit(matrix(folder), show_progress=False)
    return model


def _model(factors, threads, epochs, rate=0.05, penalty=0.01):
    return BayesianPersonalizedRanking(
        factors=factors, learning_rate=rate, regularization=penalty, iterations=epochs,
        num_threads=threads, random_state=0,
    )  # fmt: skip


serve(train=train, curve=curve, top=top)
