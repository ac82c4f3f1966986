"""Memory is asked about before it is taken."""

import pytest

from fmpair import capacity
from fmpair.errors import OptionError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(capacity, "memory", lambda: 2**30)


def test_what_does_not_fit_is_refused_with_what_there_is_and_what_would_help(small):
    with pytest.raises(
        OptionError, match=r"^it needs 2\.0 GB for 5 rows, but 1 GB are available: no$"
    ):
        capacity.check_memory("it", "5 rows", 2**31, None, "no")
    capacity.check_memory("it", "5 rows", 2**29, None, "no")


def test_a_limit_of_the_callers_own_counts_instead(small):
    capacity.check_memory("it", "5 rows", 2**31, 3.0, "raise it")
    with pytest.raises(OptionError, match=r"but 0\.5 GB are allowed: raise it"):
        capacity.check_memory("it", "5 rows", 2**30, 0.5, "raise it")


def test_a_need_of_any_number_of_digits_is_only_refused(small):
    with pytest.raises(OptionError, match="GB for everything"):
        capacity.check_memory("it", "everything", 10**500, None, "less")


def test_the_memory_of_a_container_is_that_of_the_container(monkeypatch, tmp_path):
    before = capacity.memory()
    assert before > 2**28
    (tmp_path / "limit").write_text("1048576\n")
    monkeypatch.setattr(capacity, "GROUP_LIMIT", tmp_path / "limit")
    assert capacity.memory() == 1 << 20
    (tmp_path / "limit").write_text("max\n")
    assert capacity.memory() >= before
