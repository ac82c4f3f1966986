"""Workers share the tables of a model: they are in memory once."""

import os
import subprocess
import sys

import pytest

from fmpair import FMPair
from fmpair.fitted.file import checksum_of
from fmpair.serve.shared_tables import VARIABLE, load_shared, shared_tables
from fmpair.testing import day_and_night

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has them")

ASK = """
import sys
from fmpair.fitted.file import checksum_of
from fmpair.serve.shared_tables import load_shared
model = load_shared(sys.argv[1], checksum_of(sys.argv[1]))
print("memfd:fmpair-model" in open("/proc/self/maps").read())
print(model.answer("u1", 3))
"""


@pytest.fixture
def path(tmp_path):
    FMPair(factors=4, epochs=2, threads=1).fit(day_and_night()).save(tmp_path / "m.fmpair")
    return tmp_path / "m.fmpair"


def asked(path):
    """What another process says: whether it maps a copy, and its answer."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_process_maps_the_copy_of_its_parent_and_answers_alike(path):
    alone = asked(path)
    with shared_tables(path, None):
        shared = asked(path)
    assert [alone[0], shared[0]] == ["False", "True"]
    assert shared[1] == alone[1]


def test_a_file_that_is_written_in_place_does_no_harm(path):
    checksum = checksum_of(path)
    with shared_tables(path):
        model = load_shared(path, checksum)
        before = model.recommend(n=3)
        path.write_bytes(b"nothing")
        assert model.recommend(n=3).equals(before)


def test_a_model_that_replaced_the_first_is_read_from_its_file(path):
    with shared_tables(path):
        FMPair(factors=4, epochs=3, threads=1).fit(day_and_night()).save(path)
        assert asked(path)[0] == "False"


def test_nothing_stays_behind(path, tmp_path):
    with shared_tables(path, tmp_path / "missing"):
        (copy,) = os.environ[VARIABLE].split(os.pathsep)
        assert os.path.exists(copy)
    assert VARIABLE not in os.environ and not os.path.exists(copy)
