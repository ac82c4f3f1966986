"""lightfm-next's BPR: negatives are drawn again until unseen, so every event is an update."""

import time

import lightfm.lightfm
from events import matrix, one_hot
from lightfm import LightFM
from serve import serve

native_epoch = lightfm.lightfm.fit_bpr
clock = []


def timed_epoch(*arguments):
    """The native loop alone: LightFM converts its matrices anew in every epoch."""
    began = time.perf_counter()
    native_epoch(*arguments)
    clock.append(time.perf_counter() - began)


lightfm.lightfm.fit_bpr = timed_epoch


def train(folder, factors, threads, epochs, user_columns=0, item_columns=0):
    """Seconds and effective updates of each epoch, with so many attributes of either side."""
    events = matrix(folder)
    features = {}
    if user_columns:
        features["user_features"] = one_hot(folder, "user_codes", user_columns)
    if item_columns:
        features["item_features"] = one_hot(folder, "item_codes", item_columns)
    clock.clear()
    model = LightFM(no_components=factors, loss="bpr", random_state=0)
    model.fit(events, epochs=epochs, num_threads=threads, **features)
    return {"seconds": list(clock), "updates": [events.nnz] * epochs}


serve(train=train)
