"""Foreign code is quiet, does not take all threads, and fails in one line."""

import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from fmpair.bridges.adapter import construct, foreign_code
from fmpair.errors import DataError, OptionError, TrainingError


def test_options_go_over_the_usual_ones_and_are_not_touched():
    given = {"factors": 3, "odd name": [1, {"deep": None}]}
    assert construct("it", dict, given, factors=9, seed=1) == {**given, "seed": 1}


def test_an_option_the_library_does_not_know_is_one_line():
    def make(factors):
        return factors

    with pytest.raises(OptionError) as caught:
        construct("theirs", make, {"factor": 3})
    assert str(caught.value).startswith("theirs rejects its settings: TypeError: ")
    assert "'factor'" in str(caught.value)


def test_what_goes_wrong_inside_is_one_line():
    with pytest.raises(TrainingError) as caught, foreign_code("theirs"):
        raise RuntimeError("first\n   second")
    assert str(caught.value) == "theirs failed: RuntimeError: first second"


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(DataError, match=r"^ours$"), foreign_code("theirs"):
        raise DataError("ours")


def test_linear_algebra_gets_the_threads_it_is_given_and_no_more():
    np.ones((2, 2)) @ np.ones((2, 2))
    with foreign_code("theirs", 1):
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}


def test_what_foreign_code_prints_and_warns_is_not_shown(capsys):
    with foreign_code("theirs"):
        print("welcome")
        warnings.warn("be warned", stacklevel=1)
    assert capsys.readouterr() == ("", "")
