"""Who is answered by which of two models."""

import subprocess
import sys

import pytest

from fmpair.errors import OptionError
from fmpair.serve.settings import CANDIDATE, CURRENT, Arms, drawn

USERS = [f"user-{number}" for number in range(20_000)]


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_the_candidate_gets_its_share(share):
    found = sum(Arms(share).of(user) == CANDIDATE for user in USERS) / len(USERS)
    assert abs(found - share) < 4 * (share * (1 - share) / len(USERS)) ** 0.5


def test_a_larger_share_moves_nobody_back():
    small = {user for user in USERS if Arms(0.1).of(user) == CANDIDATE}
    large = {user for user in USERS if Arms(0.2).of(user) == CANDIDATE}
    assert small < large


def test_a_user_has_one_arm_in_every_process():
    code = "from fmpair.serve.settings import drawn; print(drawn('ann'), drawn(7))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == [str(drawn("ann")), str(drawn(7))]


def test_an_id_is_one_user_as_text_and_as_a_number():
    assert drawn(7) == drawn("7") != drawn("8")


def test_without_a_candidate_and_without_an_id_the_current_model_answers():
    assert {Arms().of(user) for user in USERS} == {CURRENT}
    assert Arms(1.0).of(None) == CURRENT
    assert {Arms(1.0).of(user) for user in USERS} == {CANDIDATE}


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), True])
def test_a_share_lies_between_nothing_and_all(share):
    with pytest.raises(OptionError, match="from 0 to 1"):
        Arms(share)
