import pytest
from paper_runs import by_factors, timed

from fmpair.config.experiment import Candidate
from fmpair.reproduction.summary import contexts, factors, line


def test_a_straight_line_is_found_with_slope_start_and_a_perfect_fit():
    found = line(by_factors(0.002, start=0.05, sizes=(16, 32, 64, 128)), factors)
    assert (found.slope, found.start, found.r2) == pytest.approx((0.002, 0.05, 1.0))
    assert found.points["x"].to_list() == [16, 32, 64, 128]
    assert found.shortest == pytest.approx(0.082)


def test_times_that_bend_fit_worse():
    assert line(by_factors(0.0, bend=1e-6), factors).r2 < 0.98


def test_the_first_epoch_of_a_fit_does_not_count():
    assert timed({"FM-Pair": 0.25}).epoch_seconds()["seconds"].to_list() == [0.25]


def test_contexts_are_counted_by_what_a_model_is_shown():
    models = [Candidate(str(n), "fm-pair", context=("a", "b", "c")[:n]) for n in range(4)]
    found = line(timed({str(n): 0.1 + 0.03 * n for n in range(4)}, models), contexts)
    assert found.slope == pytest.approx(0.03)
