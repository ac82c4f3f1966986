"""Minibatches: which events they have, and how many blocks there are."""

import math

import numpy as np
import pytest
from engine.problems import problem_of

from fmpair.engine.strata import minibatches
from fmpair.engine.strata.partition import by_user, partition

ONCE = np.zeros(0, np.uint32)  # every event is learned from once


def cells(**sizes):
    """(problem, partition) of small random problems in two blocks."""
    problem = problem_of("", **{"users": 40, "items": 60, "events": 900, **sizes})
    return problem, partition(by_user(problem, numbered=True), 2, seed=0, number=1)


def events_of(parts, cell, visits=ONCE):
    """The events of a cell in their order, as `minibatches.events_of` returns them."""
    edge, column = parts.item_edge, cell % parts.blocks
    return minibatches.events_of(
        (int(parts.cell[cell]), int(parts.cell[cell + 1])),
        int(edge[column + 1] - edge[column]),
        parts.run_start,
        visits,
        np.uint64(7),
    )


def test_every_event_of_a_cell_is_learned_once_in_a_random_order():
    problem, parts = cells()
    events = []
    for cell in range(4):
        found = events_of(parts, cell)
        assert (np.diff(found.event) < 0).any()
        users = problem.user[parts.event[found.event]]
        np.testing.assert_array_equal(parts.user_at[parts.run_user[found.run]], users)
        events += found.event.tolist()
    assert sorted(events) == list(range(900))


def test_an_event_is_learned_as_often_as_it_is_visited():
    _, parts = cells()
    visits = np.arange(900, dtype=np.uint32) % 3
    found = events_of(parts, 0, visits)
    times = np.bincount(found.event, minlength=900)
    first, end = parts.run_start[parts.cell[0]], parts.run_start[parts.cell[1]]
    np.testing.assert_array_equal(times[first:end], visits[first:end])


@pytest.mark.parametrize(
    ("sizes", "most"),
    [({"users": 12}, 3), ({"items": 8}, 2), ({}, 10)],
)
def test_a_minibatch_has_at_most_half_an_event_per_user_and_per_item(sizes, most):
    size = events_of(cells(**sizes)[1], 0).size
    assert 1 <= size <= most


def test_the_most_active_user_has_at_most_two_events_in_a_minibatch_on_average():
    problem = problem_of("", users=40, items=60, events=900)
    problem.user[:600] = problem.user[0]
    parts = partition(by_user(problem, numbered=True), 1, seed=0, number=1)
    events = events_of(parts, 0)
    most = np.bincount(events.run).max()
    assert 0 < events.size * most / len(events.event) <= minibatches.MAX_OF_USER < 20 * most / 900


def test_items_of_a_block_stand_for_all_items():
    assert minibatches.raised_by(101, 11) == pytest.approx(math.log(10))
    assert minibatches.raised_by(101, 101) == 0
    assert minibatches.raised_by(0, 11) == 0


def test_blocks_grow_with_items_users_and_events():
    many = 10**9
    assert minibatches.choose_blocks(many, 190, many) == 1
    assert minibatches.choose_blocks(many, 3_416, many) == 32
    assert minibatches.choose_blocks(many, 10**6, many) == minibatches.MAX_BLOCKS
    assert minibatches.choose_blocks(600, 10**6, many) == 8
    assert minibatches.choose_blocks(many, 10**6, 131_413) == 32
    assert minibatches.choose_blocks(many, 10**6, 131_413, histories=True) == 16
