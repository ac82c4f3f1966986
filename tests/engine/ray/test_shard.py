"""Events on their way to workers: none is lost, and each user's stay in their order."""

import numpy as np
from engine.problems import problem_of, with_histories

from fmpair.engine.ray import ray_worker as shards
from fmpair.engine.ray.ray_worker import shards_of, split


def test_a_problem_is_cut_into_shards_that_are_all_of_it(monkeypatch):
    monkeypatch.setattr(shards, "SHARD", 25)
    problem = problem_of("c", weights=True)
    found = list(shards_of(problem, numbered=True))
    assert [len(one.user) for one in found] == [25, 25, 25, 15]
    for name in ("user", "item", "weight", "situation"):
        whole = np.concatenate([getattr(one, name) for one in found])
        np.testing.assert_array_equal(whole, getattr(problem, name))
    np.testing.assert_array_equal(np.concatenate([one.number for one in found]), np.arange(90))


def test_a_shard_has_nothing_that_nobody_goes_by():
    [found] = shards_of(problem_of(""), numbered=False)
    assert [len(part) for part in found] == [90, 90, 0, 0, 0, 0, 0]


def test_events_go_to_the_workers_of_their_users_in_their_order():
    problem = problem_of("")
    [shard] = shards_of(problem, numbered=True)
    owner = (np.arange(12) % 3).astype(np.int16)
    parts = split(shard, owner, 3)
    for worker, part in enumerate(parts):
        assert (owner[part.user] == worker).all()
        assert (np.diff(part.number) > 0).all()
        np.testing.assert_array_equal(part.item, problem.item[part.number])
    assert sum(len(part.user) for part in parts) == 90


def test_places_in_a_time_line_are_counted_from_its_begin():
    problem = with_histories(problem_of(""))
    [shard] = shards_of(problem, numbered=False)
    start = problem.history.start[problem.user]
    np.testing.assert_array_equal(shard.until + start, problem.history.until)
    assert (shard.until >= 0).all()
