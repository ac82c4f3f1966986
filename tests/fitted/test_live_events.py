"""A model in service knows what its users did a moment ago, and nothing twice."""

import numpy as np
import polars as pl
import pytest

from fmpair.models import FMPair, MarkovChain

ITEMS = 20
START = 1_600_000_000


def walks(users=60, steps=8):
    """Users walk round a ring of items, one step a minute."""
    start = np.random.default_rng(0).integers(0, ITEMS, users)
    return pl.DataFrame(
        {
            "user": [f"u{u}" for u in range(users) for _ in range(steps)],
            "item": [f"i{(start[u] + t) % ITEMS}" for u in range(users) for t in range(steps)],
            "timestamp": [START + 60 * t for _ in range(users) for t in range(steps)],
        }
    )


@pytest.fixture(scope="module")
def model():
    return FMPair(factors=8, history=3, epochs=20, seed=1).fit(walks())


@pytest.fixture(scope="module")
def without():
    return FMPair(factors=8, history=0, epochs=3, seed=1).fit(walks())


def events(*rows):
    """(user, item, minute) of each."""
    return pl.DataFrame(rows, ["user", "item", "minute"], orient="row").select(
        "user", "item", timestamp=START + 60 * pl.col("minute")
    )


def arrays(model, frame):
    return (
        model.id_lookup.users.numbers(frame["user"].to_list()),
        model.id_lookup.items.numbers(frame["item"].to_list()),
        frame["timestamp"].to_numpy() * 1_000_000,
    )


NONE = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int64))


def in_service(model, *events):
    return model.in_service(*(events or NONE))


def take_in(live, *events):
    live.take_in(*events)
    return live


def line(live, user):
    return [part.tolist() for part in live.live.recent_of(live.recent, np.array([user]))[1:]]


def lists(model, *users):
    return model.recommend(list(users), 5).rows()


NEWS = [("u3", "i1", 100), ("u5", "i9", 100), ("u3", "i2", 101), ("u3", "i1", 99), ("u7", "i4", -5)]
USERS = ("u0", "u3", "u5", "u7")


def test_one_by_one_events_are_known_as_all_at_once(model):
    expected = lists(model.extended(events(*NEWS)), *USERS)
    live = in_service(model)
    for row in NEWS:
        live.take_in(*arrays(live, events(row)))
    assert lists(live, *USERS) == expected
    assert lists(in_service(model, *arrays(model, events(*NEWS))), *USERS) == expected
    assert lists(model, *USERS) != expected


def test_the_model_it_was_made_of_stays_as_it_was(model):
    before = lists(model, *USERS)
    take_in(in_service(model), *arrays(model, events(*NEWS)))
    assert lists(model, *USERS) == before


def test_what_is_told_twice_counts_once(model):
    once = take_in(in_service(model), *arrays(model, events(*NEWS)))
    twice = take_in(in_service(model), *arrays(model, events(*NEWS, *NEWS)))
    twice = take_in(twice, *arrays(model, events(*NEWS)))
    whole = in_service(model, *arrays(model, events(*NEWS, *NEWS)))
    for live in (twice, whole):
        assert line(live, 3) == line(once, 3)
    assert line(once, 3)[1] == [(START + 60 * m) * 10**6 for m in (99, 100, 101)]


def test_what_the_model_has_learned_from_counts_once(model):
    known = walks().filter(pl.col("user") == "u3")
    live = take_in(in_service(model, *arrays(model, known)), *arrays(model, known))
    assert line(live, 3) == [part.tolist() for part in model.recent.line(3)]


def test_after_an_update_its_events_change_nothing(model):
    grown = model.update(events(*NEWS), epochs=1)
    assert lists(in_service(grown, *arrays(grown, events(*NEWS))), *USERS) == lists(grown, *USERS)


def test_a_model_without_a_history_leaves_out_what_was_seen_since(without):
    user = "u3"
    best = without.recommend(user, 1)["item"][0]
    live = take_in(in_service(without), *arrays(without, events((user, best, 100))))
    assert best not in live.recommend(user, ITEMS)["item"].to_list()
    assert best in without.recommend(user, ITEMS)["item"].to_list()


def test_a_ranker_that_goes_by_what_came_last_follows():
    model = MarkovChain().fit(walks())
    news = events(("u3", "i11", 100), ("u3", "i12", 101))
    live = take_in(in_service(model), *arrays(model, news))
    assert lists(live, *USERS) == lists(model.extended(news), *USERS)
    assert lists(in_service(model, *arrays(model, news)), *USERS) == lists(live, *USERS)


def test_many_users_are_answered_at_once_some_of_whom_were_here_since(model):
    live = take_in(in_service(model), *arrays(model, events(*NEWS)))
    expected = model.extended(events(*NEWS))
    np.testing.assert_array_equal(live.user_vectors, expected.user_vectors)
    assert live.recommend(n=3).rows() == expected.recommend(n=3).rows()


def test_ids_of_several_types_are_found(model):
    users = model.id_lookup.users
    assert users.numbers(["u3", 7, "nobody", 2.5, "u0", 8]).tolist() == [3, -1, -1, -1, 0, -1]
    assert users.numbers([]).tolist() == []
