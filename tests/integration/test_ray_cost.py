"""What a round on a cluster costs, by its sizes: the cost model of benchmarks/scale_ray.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from ray_cost import Size, Speed, cost_of_round, speed_seen

SIZE = Size(users=1_000, items=800, events=64_000, factors=32, blocks=16)
FREE = Speed(0, 0, 0, 0)


def test_bytes_are_those_of_the_rows_that_move():
    cost = cost_of_round(SIZE, FREE, workers=4)
    row = 32 * 4
    assert cost.passed == 4 * 50 * (row + 4)  # a block of items from every worker
    assert cost.kept == 1_000 * row + 800 * (row + 4)


def test_a_checkpoint_is_shared_by_the_rounds_before_it():
    cost = cost_of_round(SIZE, FREE._replace(keep=1e-6, call=0.5), workers=4)
    assert cost.rounds == 2  # eight an epoch
    assert cost.bare == 0.5
    assert cost.seconds == pytest.approx(0.5 + cost.kept * 1e-6 / 2)


def test_workers_share_the_learning_and_blocks_that_do_not_divide_cost_more():
    speed = FREE._replace(step=1e-3)
    seconds = {workers: cost_of_round(SIZE, speed, workers).seconds for workers in (1, 4, 5)}
    assert seconds[1] == pytest.approx(4.0)  # 4,000 events a round
    assert seconds[4] == pytest.approx(1.0)
    assert seconds[5] == pytest.approx(1.0)  # one of five has four blocks, as each of four has


def test_more_workers_than_cores_do_not_learn_more_quickly():
    cost = cost_of_round(SIZE, FREE._replace(step=1e-3, call=0.1), workers=4, cores=2)
    assert cost.seconds == pytest.approx(2.1)


def test_a_speed_is_found_from_rounds_with_and_without_a_checkpoint():
    speed = Speed(step=1e-6, byte=1e-9, keep=2e-9, call=1e-3)
    cost = cost_of_round(SIZE, speed, workers=4, cores=2)
    found = speed_seen(
        SIZE, speed._replace(step=0, keep=0), cost.bare, cost.bare + cost.keeping, 4, 2
    )
    assert found == pytest.approx(speed)
