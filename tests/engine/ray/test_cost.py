"""What a round on a cluster costs, by its sizes."""

import pytest

from fmpair.engine.ray.cost import Size, Speed, cost_of_round

SIZE = Size(users=1_000, items=800, events=64_000, factors=32, blocks=16)


def test_bytes_are_those_of_the_rows_that_move():
    cost = cost_of_round(SIZE, Speed(0, 0, 0), workers=4)
    row = 32 * 4
    assert cost.passed == 4 * 50 * (row + 4)  # a block of items from every worker
    assert cost.kept == (1_000 * row + 800 * (row + 4)) / 2  # a checkpoint every other round


def test_workers_share_the_learning_and_blocks_that_do_not_divide_cost_more():
    seconds = {
        workers: cost_of_round(SIZE, Speed(1e-3, 0, 0), workers).seconds for workers in (1, 4, 5)
    }
    assert seconds[1] == pytest.approx(4.0)  # 4,000 events a round
    assert seconds[4] == pytest.approx(1.0)
    assert seconds[5] == pytest.approx(1.0)  # one of five has four blocks, as each of four has


def test_more_workers_than_cores_do_not_learn_more_quickly():
    cost = cost_of_round(SIZE, Speed(1e-3, 0, 0.1), workers=4, cores=2)
    assert cost.seconds == pytest.approx(2.1)
