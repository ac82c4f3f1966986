"""Cornac's BPR. A draw whose negative the user knows is skipped; skipped draws do not count."""

import time

from cornac.data import Dataset
from cornac.models import BPR
from events import matrix
from serve import serve


class Timed(BPR):
    """BPR that notes the seconds and skipped draws of every epoch."""

    def _fit_sgd(self, *arguments):
        began = time.perf_counter()
        correct, skipped = super()._fit_sgd(*arguments)
        self.epochs.append((time.perf_counter() - began, skipped))
        return correct, skipped


def train(folder, factors, threads, epochs):
    """Seconds and effective updates of each epoch."""
    events = matrix(folder)
    model = Timed(
        k=factors, max_iter=epochs, learning_rate=0.05, lambda_reg=0.01, num_threads=threads
    )
    model.epochs = []
    model.fit(_dataset(events))
    seconds, skipped = zip(*model.epochs)
    return {"seconds": seconds, "updates": [events.nnz - n for n in skipped]}


def _dataset(events):
    users, items = events.shape
    coo = events.tocoo()
    names = [{n: n for n in range(size)} for size in (users, items)]
    return Dataset(users, items, *names, (coo.row, coo.col, coo.data))


serve(train=train)
