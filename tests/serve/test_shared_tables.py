"""Workers share modules and tables of models: they are forked from a process that has them."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from fmpair import Dataset, FMPair
from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.recommender import from_factors
from fmpair.serve import shared_tables as shared
from fmpair.testing import day_and_night

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks safely")

SHARE = """
import sys
from pathlib import Path
from fmpair.serve.shared_tables import load_shared, shared_tables

path, step = Path(sys.argv[1]), sys.argv[2]

def ask(checksum):
    from fmpair.fitted.file import checksum_of
    model = load_shared(path, checksum or checksum_of(path))
    print(model.answer("u1", 3).items, model.recommend("u1", 3)["item"].to_list(), flush=True)

with shared_tables(list, path, None, path.with_name("missing")) as context:
    from fmpair.fitted.file import checksum_of
    checksum = checksum_of(path)
    print(context.get_start_method(), flush=True)
    if step == "removed":
        path.unlink()
    elif step == "replaced":
        path.with_name("other.fmpair").replace(path)
        checksum = None
    for _ in range(2):
        worker = context.Process(target=ask, args=(checksum,))
        worker.start()
        worker.join(60)
        print(worker.exitcode, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "m.fmpair"
    for name, epochs in (("m.fmpair", 2), ("other.fmpair", 40)):
        recipe = FMPair(factors=4, epochs=epochs, history=0, times=False, order=2, threads=1)
        recipe.fit(day_and_night()).save(path.with_name(name))
    return path


def said(path, step):
    """What a process prints whose children answer by a model that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SHARE, str(path), step],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_workers_answer_by_the_model_of_their_parent_without_reading_its_file(path):
    method, *answers = said(path, "kept")
    assert method == "fork" and answers[0] == answers[2] and answers[1] == answers[3] == "0"
    assert said(path, "removed") == [method, *answers]


def test_a_model_that_replaced_the_first_is_read_from_its_file(path):
    before, after = said(path, "kept"), said(path, "replaced")
    assert before != after == said(path, "kept")


def test_where_polars_has_run_workers_are_started_afresh(path):
    FMPair(factors=4, epochs=1, history=0, times=False, order=2).fit(day_and_night())
    with shared.shared_tables(list, path) as context:
        assert context.get_start_method() == "spawn" and not shared._loaded


OWN = """
import re, sys
from pathlib import Path
from fmpair.serve.shared_tables import load_shared, shared_tables

path = Path(sys.argv[1])

def ask(checksum):
    model = load_shared(path, checksum)
    model.recommend("7", 3)
    text = Path("/proc/self/smaps_rollup").read_text()
    print(sum(map(int, re.findall(r"Private_\\w+:\\s+(\\d+)", text))) // 1024, flush=True)

with shared_tables(list, path) as context:
    from fmpair.fitted.file import checksum_of
    worker = context.Process(target=ask, args=(checksum_of(path),))
    worker.start()
    worker.join(120)
"""


def test_the_tables_of_a_large_model_are_not_among_a_worker_s_own_memory(tmp_path):
    users, items, factors = 400_000, 100, 64  # 102 MB
    ids = (Vocabulary(pl.Series(range(size)).cast(pl.String)) for size in (users, items))
    user = np.arange(users, dtype=np.int32)
    data = Dataset(*ids, user, user % items, pl.DataFrame())
    vectors = [np.ones((size, factors), np.float32) for size in (users, items)]
    path = tmp_path / "large.fmpair"
    from_factors(FMPair(factors=factors), data, *vectors).save(path)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", OWN, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 0 < int(done.stdout) < 50  # MB
    print(f"{int(done.stdout)} MB beside {path.stat().st_size >> 20} MB of the file")
