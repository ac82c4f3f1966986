"""`FMPair()` as it stands, beside every classic model, on logs with a known rule: means of logs."""

import numpy as np
import pytest

from fmpair import Dataset, FMPair, Protocol, evaluate, testing
from fmpair.data import leave_last_out
from fmpair.models import catalog

pytestmark = pytest.mark.thorough

SEEDS = 6  # logs of each kind: one has 300 to 600 held-out events
CLASSIC = ("popularity", "popular-lately", "markov-chain", "ease", "item-knn", "user-knn",
           "implicit-als", "pure-svd", "v-sknn")  # fmt: skip


def value(model, train, test):
    return evaluate(model, train, test, Protocol(seen="none"), ["ndcg@10"]).means["ndcg@10"]


@pytest.mark.parametrize("log", ["shop_log", "session_log", "daytime_log", "purchase_log"])
def test_the_defaults_beat_the_classic_models(log):
    reached, others = [], {kind: [] for kind in CLASSIC}
    for seed in range(SEEDS):
        data = Dataset.from_frame(getattr(testing, log)(seed=seed))
        train, _, test = leave_last_out(data).parts(data)
        reached.append(value(FMPair().fit(train), train, test))
        for kind, values in others.items():
            values.append(value(catalog.find(kind)().fit(train), train, test))
    means = {kind: np.mean(values) for kind, values in others.items()}
    assert np.mean(reached) > max(means.values()), means
