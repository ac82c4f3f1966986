"""Earlier events that are learned again: which are drawn, and that they help not to forget."""

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.arrays import distinct_pairs
from fmpair.data import synthetic
from fmpair.data.splits import holdout
from fmpair.errors import OptionError, UnknownError
from fmpair.evaluation import Protocol, evaluate
from fmpair.testing import two_tastes
from fmpair.training.update import drawn, joined

SEEN = distinct_pairs(np.array([0, 0, 0, 2, 2]), np.array([3, 3, 5, 1, 3]), 3)  # 4 pairs, 5 events


def test_every_event_is_drawn_at_most_once():
    assert drawn(SEEN, 99, seed=0).tolist() == [0, 0, 1, 2, 3]
    times = np.bincount(np.concatenate([drawn(SEEN, 2, seed) for seed in range(500)]), minlength=4)
    np.testing.assert_allclose(times / 500, [0.8, 0.4, 0.4, 0.4], atol=0.1)


def test_nothing_is_drawn_where_nothing_was_seen():
    nothing = distinct_pairs(np.zeros(0, np.int64), np.zeros(0, np.int64), 3)
    assert len(drawn(nothing, 5, seed=0)) == 0
    assert len(drawn(SEEN, 0, seed=0)) == 0


def test_earlier_events_lack_what_only_the_new_ones_say():
    new = Dataset.from_frame({"user": ["a", "b"], "item": [1, 2], "weight": [2.0, 4.0]})
    old = Dataset.from_frame({"user": ["a", "b"], "item": [2, 1]})
    both = joined(new, old)
    assert both.weight.tolist() == [2.0, 4.0, 1.0, 1.0] and len(both) == 4


def test_replay_is_no_part_of_what_was_seen_anew():
    model = FMPair(factors=4, epochs=8).fit(two_tastes())
    more = pl.DataFrame({"user": ["u1"], "item": [2]})
    plain, again = model.update(more), model.update(more, replay=50)
    for one, other in zip(plain.seen, again.seen):
        np.testing.assert_array_equal(one, other)
    assert (plain.item_vectors != again.item_vectors).any()


def test_a_model_with_context_asks_for_the_events_themselves():
    data = synthetic.make(users=30, items=20, events=600).data
    model = FMPair(factors=4, epochs=2).fit(data)
    with pytest.raises(OptionError, match=r"keeps no context of earlier events .*daytime"):
        model.update(data.take(np.arange(5)), replay=1)
    with pytest.raises(OptionError, match="replay"):
        FMPair(factors=4, epochs=2).fit(two_tastes()).update(two_tastes(), replay=-1)


def test_events_to_replay_are_of_ids_that_the_model_knows():
    model = FMPair(factors=4, epochs=2).fit(two_tastes())
    with pytest.raises(UnknownError, match="unknown user 'nobody'"):
        model.update(two_tastes(), replay=pl.DataFrame({"user": ["nobody"], "item": [2]}))


def test_many_passes_over_few_events_forget_less_beside_earlier_ones_in_their_context():
    data = synthetic.make(users=200, items=120, events=8000).data
    train, _, test = holdout(data, test=0.2).parts(data)
    order = np.random.default_rng(0).permutation(len(train))
    old, new = train.take(np.sort(order[640:])), train.take(np.sort(order[:640]))
    model = FMPair(factors=8, epochs=24, threads=1).fit(old)

    def ndcg(one):
        return evaluate(one, train, test, Protocol(seen="none"), ["ndcg@10"]).means["ndcg@10"]

    alone, beside = (ndcg(model.update(new, epochs=24, replay=r)) for r in (0, old))
    assert alone < 0.95 * ndcg(model) and beside > 0.99 * ndcg(model)
