"""A forked process works, or says at once that it cannot. What hangs is ended by its alarm."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

HEAD = """
import os, signal, sys, tempfile

PLAIN = {"history": 0, "times": False, "order": 2, "threads": 2}  # no trials

def forked(work):
    "How a child does: works, told or hangs."
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            work()
            os._exit(0)
        except BaseException as error:
            told = type(error).__name__ == "ProcessError" and "by spawn" in str(error)
            if not told:
                import traceback
                traceback.print_exc()
            os._exit(7 if told else 3)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "works", 7: "told", -signal.SIGALRM: "hangs"}.get(code, code)

def all_of_it():
    "Data made, learned from, judged, asked; on threads."
    from fmpair import FMPair, evaluate
    from fmpair.data import splits, synthetic
    data = synthetic.make(60, 40, 1500).data
    train, _, test = splits.holdout(data).parts(data)
    model = FMPair(factors=4, epochs=2, **PLAIN).fit(train)
    assert evaluate(model, train, test, threads=2).coverage == 1
    assert len(model.recommend(n=3)) == 180
"""


def said(code):
    """What a process prints that runs the code."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HEAD + code],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(("before", "after"), [
    ("pass", "all_of_it()"),
    ("import fmpair; fmpair.FMPair, fmpair.read, fmpair.load, fmpair.evaluate",
     "print(forked(all_of_it))"),
    pytest.param(
        "import polars, numba, numpy; numpy.ones((900, 900)) @ numpy.ones((900, 900))", "pass",
        marks=pytest.mark.thorough,
    ),
])  # fmt: skip
def test_a_process_forked_before_polars_ran_can_do_everything(before, after):
    assert set(said(f"{before}\nprint(forked(all_of_it))\n{after}")) == {"works"}


@pytest.mark.parametrize("before", [
    "all_of_it()",
    pytest.param(
        "import polars; polars.DataFrame({'a': [2, 1]}).sort('a')", marks=pytest.mark.thorough
    ),
])  # fmt: skip
def test_a_process_forked_after_polars_ran_says_so_at_once(before):
    again = "print(forked(lambda: print(forked(all_of_it), flush=True) or all_of_it()))"
    assert said(f"{before}\nprint(forked(all_of_it), flush=True)\n{again}\nall_of_it()") == [
        "told", "told", "told",
    ]  # fmt: skip


def test_a_child_that_worked_may_not_fork_either():
    code = "print(forked(lambda: all_of_it() or print(forked(all_of_it), flush=True)))"
    assert said(code) == ["told", "works"]


WORLD = """
import numpy as np
import polars as pl
from fmpair import FMPair, Dataset, evaluate, load, read
from fmpair.data import (
    describe, filters, fingerprint, parts, split_leakage, splits, synthetic
)
from fmpair.data.write import write
from fmpair.evaluation import views
from fmpair.models.catalog import find

place = tempfile.mkdtemp()
data = synthetic.make(60, 40, 20_000).data  # enough for polars to share the work out
frame = data.frame()
frame.write_csv(f"{place}/events.csv")
made = splits.holdout(data)
train, _, test = made.parts(data)
model, ranker = FMPair(factors=4, epochs=2, **PLAIN).fit(data), find("item-knn")().fit(data)
model.save(f"{place}/model")
judged = evaluate(model, train, test)
user, item = data.users.ids[0], data.items.ids[0]
epochs = FMPair(factors=4, epochs=4, **PLAIN).train(data)
others = find("fm")(epochs=4, threads=2).train(data)
next(epochs), next(others)
"""
ASKED = {
    "read": "read(f'{place}/events.csv')",
    "load": "load(f'{place}/model')",
    "save": "model.save(f'{place}/again')",
    "a frame": "Dataset.from_frame(frame)",
    "a mapping": "Dataset.from_frame({'user': [1, 2], 'item': [3, 4]})",
    "fit": "FMPair(factors=2, epochs=1).fit(data)",
    "recommend": "model.recommend(user)",
    "recommend to all": "model.recommend()",
    "recommend users": "model.recommend_users(item)",
    "a ranker": "ranker.recommend(user)",
    "a ranker's scores": "ranker(data)",
    "score": "model.score(frame.head(3))",
    "similar items": "model.similar_items(item)",
    "similar users": "model.similar_users(user)",
    "explain": "model.explain(user, item)",
    "query vectors": "model.query_vectors(frame.head(3))",
    "fold in": "model.fold_in(frame.head(3))",
    "update": "model.update(frame.head(3))",
    "evaluate": "evaluate(model, train, test)",
    "views": "views.groups('popularity', judged, train, test)",
    "take": "data.take(np.arange(5))",
    "the events": "data.frame()",
    "fade": "filters.faded(data)",
    "compact": "data.compact()",
    "tables": "data.with_users(pl.DataFrame({'user': [user], 'a': [1]}))",
    "parts": "made.parts(data)",
    "a file of splits": "parts.save([made], f'{place}/splits.parquet')",
    "core": "filters.core(data, 2, 2)",
    "merge": "filters.merge_duplicates(data)",
    "distinct": "filters.distinct(data)",
    "thinned": "filters.thinned(data, 3)",
    "describe": "describe(data)",
    "leakage": "split_leakage.report(train, test)",
    "fingerprint": "fingerprint(data)",
    "write": "write(data, f'{place}/out.csv')",
    "make": "synthetic.make(20, 10, 100)",
    "an epoch under way": "next(epochs)",
    "an epoch of the FM": "next(others)",
}
ARRAYS = {
    "item vectors": "model.item_vectors + model.item_constants[:, None]",
    "user vectors": "model.user_vectors @ model.item_vectors.T",
    "ids": "model.user_ids, model.item_ids",
    "damped": "model.damped(0.5).item_constants",
    "seen": "data.seen, data.weight",
    "splits": "splits.folds(data), splits.by_time(data)",
}


def test_every_question_to_a_fork_is_answered_or_refused_at_once():
    asked = "".join(f"print(forked(lambda: ({code})), flush=True)\n"
                    for code in (ASKED | ARRAYS).values())  # fmt: skip
    found = dict(zip(ASKED | ARRAYS, said(WORLD + asked)))
    assert found == {**dict.fromkeys(ASKED, "told"), **dict.fromkeys(ARRAYS, "works")}


@pytest.mark.thorough  # pools of the tests above
def test_workers_that_are_forked_before_use_and_those_that_are_spawned_both_work(tmp_path):
    (tmp_path / "work.py").write_text(HEAD + WORKERS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(tmp_path / "work.py")],
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.stdout.split() == ["3", "3", "told"], done.stderr


WORKERS = """
import multiprocessing

def work(number):
    signal.alarm(100)
    all_of_it()
    return number

def main():
    for kind in ("fork", "spawn"):
        with multiprocessing.get_context(kind).Pool(2) as pool:
            print(len(pool.map(work, range(3))), flush=True)
    all_of_it()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            pool.map(work, [1])
        except Exception as error:
            print("told" if "forked after" in str(error) else error)

if __name__ == "__main__":
    main()
"""
