"""`FMPair()` as it stands, beside every classic model, on logs with a known rule."""

import pytest

from fmpair import Dataset, FMPair, Protocol, evaluate, testing
from fmpair.data import leave_last_out
from fmpair.models import catalog

pytestmark = pytest.mark.thorough

CLASSIC = ("popularity", "popular-lately", "markov-chain", "ease", "item-knn", "user-knn",
           "implicit-als", "pure-svd", "v-sknn")  # fmt: skip


def value(model, train, test):
    return evaluate(model, train, test, Protocol(seen="none"), ["ndcg@10"]).means["ndcg@10"]


@pytest.mark.parametrize(
    ("log", "ahead"),
    [
        ("shop_log", ()),
        ("session_log", ()),
        ("daytime_log", ()),
        # Neighbours remember each chain of view, cart and buy as it was: V-SKNN stays ahead.
        ("purchase_log", ("v-sknn",)),
    ],
)
def test_the_defaults_beat_the_classic_models(log, ahead):
    data = Dataset.from_frame(getattr(testing, log)())
    train, _, test = leave_last_out(data).parts(data)
    reached = value(FMPair().fit(train), train, test)
    others = {kind: value(catalog.find(kind)().fit(train), train, test) for kind in CLASSIC}
    assert {kind for kind, other in others.items() if other >= reached} == set(ahead), others
