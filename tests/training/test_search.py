"""The search for good options, on functions whose best setting is known."""

import math
from collections import Counter

import numpy as np
import pytest

from fmpair.errors import OptionError
from fmpair.training.search import (
    LEAST_SECONDS,
    UNSET,
    Budget,
    Job,
    Range,
    Search,
    Space,
    canonical,
)

SPACE = Space(
    {
        "rate": Range(low=0.001, high=10.0, log=True),
        "kind": Range(("a", "b", "c")),
        "size": Range(low=1, high=64),
    },
    {"rate": 1.0, "kind": "a", "size": 8},
)
COSTS = (0.2, 0.5, 1.0)


def goodness(setting):
    """Best for rate 0.05 and kind c; the size does not matter."""
    return -abs(math.log10(setting["rate"] / 0.05)) - (setting["kind"] != "c")


def run(search, value=goodness, seconds=lambda job: 1.0):
    """Run a search to its end; return its fits in order."""
    jobs = []
    while (job := search.ask()) is not None:
        jobs.append(job)
        found = value(search.settings[job.number])
        values = None if found is None else found + np.linspace(-1, 1, 50)
        search.tell(job, values, seconds(job))
    return jobs


def search(budget=Budget(trials=40), costs=COSTS, seed=0, space=SPACE, **options):  # noqa: B008
    return Search(space, budget, costs, seed, **options)


@pytest.mark.parametrize("seed", range(5))
def test_a_better_setting_is_found(seed):
    own = search(seed=seed)
    run(own)
    best = own.settings[own.best()]
    assert best["kind"] == "c" and 0.02 < best["rate"] < 0.12


def test_the_first_setting_is_the_start_and_runs_on_every_rung_first():
    own = search()
    assert run(own)[:3] == [Job(0, 0), Job(0, 1), Job(0, 2)]
    assert own.settings[0] == {"rate": 1.0, "kind": "a", "size": 8}


def test_the_same_results_lead_to_the_same_fits():
    one, other = search(), search()
    assert run(one) == run(other) and one.settings == other.settings
    assert search(seed=1).settings == one.settings[:1]
    another = search(seed=1)
    run(another)
    assert another.settings != one.settings


def test_a_larger_budget_continues_a_smaller_one():
    small, large = search(Budget(trials=10)), search(Budget(trials=30))
    run(small)
    run(large)
    assert large.settings[:10] == small.settings


def test_few_settings_reach_the_last_rung_and_no_setting_is_tried_twice():
    own = search()
    jobs = run(own)
    counts = Counter(job.rung for job in jobs)
    assert counts[0] == 40 and counts[1] <= 20 and counts[2] <= 10
    assert len(set(jobs)) == len(jobs)
    assert len({canonical(setting) for setting in own.settings}) == 40


def test_the_best_setting_of_a_rung_is_always_promoted():
    own = search(Budget(trials=7))
    run(own)
    lowest = max(range(7), key=lambda number: own.score(Job(number)))
    assert Job(lowest, 2) in own.results


def test_settings_that_fail_are_neither_promoted_nor_chosen():
    own = search()
    run(own, lambda setting: None if setting["kind"] == "c" else goodness(setting))
    assert own.settings[own.best()]["kind"] != "c"
    assert all(job.rung == 0 for job, values in own.results.items() if values is None)
    failing = search(Budget(trials=4))
    run(failing, lambda setting: None)
    assert failing.best() is None


def test_the_start_is_kept_unless_another_is_better_by_more_than_noise():
    draws = np.random.default_rng(0)
    for gain, chosen in ((0.001, 0), (0.5, 1)):
        own = search(Budget(trials=2), costs=(1.0,))
        first = draws.normal(0, 1, 400)
        own.tell(own.ask(), first, 1.0)
        own.tell(own.ask(), first + gain + draws.normal(0, 0.5, 400), 1.0)
        assert own.ask() is None and own.best() == chosen


def test_the_best_run_with_two_seeds_and_their_means_are_compared():
    own = search(Budget(trials=12), twice=True)
    jobs = run(own)
    twice = [job for job in jobs if job.repeat]
    assert twice == jobs[-len(twice) :] and 2 <= len(twice) <= 3
    assert twice[0] == Job(0, 2, 1) and all(job.rung == 2 for job in twice)
    assert own.best() in [job.number for job in twice]


def test_a_setting_that_the_time_keeps_from_the_last_rung_is_compared_where_both_ran():
    own = search(Budget(seconds=19.0))
    run(own, lambda setting: setting["kind"] == "b", lambda job: 10.0 if job.rung == 2 else 1.0)
    assert {job.number for job in own.results if job.rung == 2} == {0}
    assert own.compared == 1 and own.settings[own.best()]["kind"] == "b"


def test_a_setting_that_fails_on_a_higher_rung_is_not_chosen_on_a_lower_one():
    own = search(Budget(trials=2))
    for job in (Job(0, 0), Job(0, 1), Job(0, 2)):
        assert own.ask() == job
        own.tell(job, np.zeros(50), 1.0)
    for job, values in ((Job(1, 0), np.ones(50)), (Job(1, 1), None)):
        assert own.ask() == job
        own.tell(job, values, 1.0)
    assert own.ask() is None and own.best() == 0


def test_a_time_is_not_exceeded_by_more_than_a_wrong_guess():
    own = search(Budget(seconds=30.0))
    run(own, seconds=lambda job: COSTS[job.rung])
    assert 25 < own.spent <= 30
    assert len(own.settings) > 30


def test_where_a_whole_fit_takes_most_of_the_time_settings_are_compared_after_fewer_epochs():
    own = search(Budget(seconds=30.0))
    jobs = run(own, seconds=lambda job: 10 * COSTS[job.rung])
    assert own.top == 1 and max(job.rung for job in jobs) == 1
    assert own.spent <= 30 and own.best() is not None


def test_time_that_does_not_depend_on_epochs_does_not_end_a_search_before_whole_fits():
    own = search(Budget(seconds=30.0))
    run(own, seconds=lambda job: 2 + COSTS[job.rung])
    assert own.top == 2


def test_compiling_counts_as_time_but_not_as_work():
    own = search(Budget(seconds=100.0))
    job = own.ask()
    own.tell(job, np.ones(3), 60.0, 0.2)
    assert own.top == 2 and own.spent == 60.0


def test_several_fits_can_be_asked_for_at_a_time():
    own = search(Budget(trials=9))
    jobs = []
    while batch := [job for _ in range(4) if (job := own.ask()) is not None]:
        jobs += batch
        for job in batch:
            own.tell(job, np.array([goodness(own.settings[job.number])]), 1.0)
    assert len(own.settings) == 9 and len(set(jobs)) == len(jobs)
    assert own.best() != 0


def test_a_finite_space_is_tried_completely_and_then_the_search_ends():
    space = Space({"a": Range((1, 2, 2)), "b": Range(low=0, high=2)}, {"a": 1, "b": 0})
    own = search(Budget(trials=100), costs=(1.0,), space=space)
    run(own, lambda setting: setting["a"] * setting["b"])
    assert space.size == 6 and len(own.settings) == 6 and own.exhausted
    assert own.settings[own.best()] == {"a": 2, "b": 2}


def test_an_option_without_a_default_is_left_out_at_first():
    space = Space({"rate": Range(low=0.1, high=1.0)}, {"rate": UNSET})
    own = search(Budget(trials=5), costs=(1.0,), space=space)
    run(own, lambda setting: 0.0)
    assert own.settings[0] == {"rate": UNSET}
    assert all(0.1 <= setting["rate"] <= 1 for setting in own.settings[1:])


def test_a_start_outside_its_range_is_drawn():
    space = Space({"rate": Range(low=0.1, high=1.0)}, {"rate": 7.0})
    assert 0.1 <= search(space=space).settings[0]["rate"] <= 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("5 min", 300), ("1h30m", 5400), ("0.5h", 1800)]
)
def test_a_budget_is_a_time(text, seconds):
    assert Budget.of(text, None).seconds == seconds


@pytest.mark.parametrize("text", ["5 parsecs", "5", "", "m", "-5m", "0s", "5m and more", 5])
def test_a_budget_that_is_no_time_is_refused(text):
    with pytest.raises(OptionError, match=r"budget must be a time such as 90s, 5m or 2h, not"):
        Budget.of(text, None)


@pytest.mark.parametrize("given", [(None, None), ("5m", 40)])
def test_a_budget_is_either_a_time_or_a_number_of_trials(given):
    with pytest.raises(OptionError, match="give either budget='5m', a time, or trials=40"):
        Budget.of(*given)


def test_a_budget_says_what_it_is():
    given = (("5m", None), ("90s", None), (None, 40), (None, 1))
    assert [str(Budget.of(*each)) for each in given] == ["5 min", "1.5 min", "40 trials", "1 trial"]


def test_thousands_of_quick_fits_are_compared_in_the_time_of_the_search():
    """Each choice took as long as all fits before it: a search of a minute took an hour."""
    own = search(Budget(trials=3000))
    jobs = run(own)
    assert len(own.settings) == 3000 and own.best() is not None
    assert own.rung_of(0) == 2 and len(jobs) > 4000


def test_a_quick_fit_counts_for_at_least_the_time_that_choosing_it_takes():
    own = search(Budget(seconds=10.0))
    jobs = run(own, seconds=lambda job: 0.001)
    assert 100 < len(jobs) <= 10 / LEAST_SECONDS


def test_a_value_that_is_not_a_number_is_a_failure():
    own = search(Budget(trials=12))
    run(own, lambda setting: math.nan if setting["kind"] == "b" else goodness(setting))
    assert own.settings[own.best()]["kind"] != "b"
    assert own.score(Job(next(n for n, s in enumerate(own.settings) if s["kind"] == "b"))) < -1e9
