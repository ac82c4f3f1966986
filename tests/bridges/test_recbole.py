"""RecBole is spoken to through files: a stand-in answers for it, itself where it is installed."""

import json
import os
import sys

import polars as pl
import pytest

from fmpair.bridges import recbole
from fmpair.bridges.recbole import ENVIRONMENT, RecBole
from fmpair.errors import TrainingError
from fmpair.testing import two_tastes
from fmpair.testing.contract import ModelContract

# Scores of those who like what I like: enough for two tastes.
STAND_IN = """#!{python}
import json, pathlib, sys
import numpy as np
folder = pathlib.Path(sys.argv[-1])
job = json.loads((folder / "job.json").read_text())
pathlib.Path(__file__).with_name("job.json").write_text(json.dumps(job))
if job["model"] == "Nope":
    raise LookupError("unknown general recommender 'Nope'. Known: BPR")
if job["model"] == "Silent":
    sys.exit(0)
header, *lines = (folder / "events" / "events.inter").read_text().splitlines()
pathlib.Path(__file__).with_name("header").write_text(header)
has = np.zeros((job["users"], job["items"]), np.float32)
for line in lines:
    user, item = line.split("\\t")[:2]
    has[int(user), int(item)] = 1
scores = has @ has.T @ has
scores[:, has.sum(axis=0) == 0] = np.nan
np.save(folder / "scores.npy", scores)
"""

only_posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with #!")


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    monkeypatch.setattr(recbole, "caches", lambda: tmp_path)
    python = ENVIRONMENT.executable
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o755)
    return python.parent


@only_posix
def test_what_comes_back_through_files_keeps_the_contract(stand_in):
    ModelContract(lambda: RecBole("BPR", {"epochs": 3}, seed=5)).check(
        "taste_decides", "every_pair_has_a_finite_score", "a_saved_model_gives_the_same_scores",
        "ids_may_be_anything", "items_without_events_and_users_with_one_are_welcome",
    )  # fmt: skip
    job = json.loads((stand_in / "job.json").read_text())
    assert (job["model"], job["settings"], job["seed"]) == ("BPR", {"epochs": 3}, 5)


@only_posix
def test_ratings_and_times_go_along_and_contexts_do_not(stand_in):
    frame = two_tastes().frame().with_columns(rating=pl.lit(4.0), daytime=pl.lit("noon"))
    RecBole().fit(frame.with_columns(timestamp=pl.int_range(pl.len())))
    assert (stand_in / "header").read_text() == (
        "user_id:token\titem_id:token\trating:float\ttimestamp:float"
    )


@only_posix
def test_what_goes_wrong_on_the_other_side_is_one_line_and_its_log_is_kept(stand_in):
    with pytest.raises(TrainingError, match="recbole's Nope failed: LookupError: unknown general"):
        RecBole("Nope").fit(two_tastes())
    [log] = ENVIRONMENT.folder.glob("worker-*.log")
    assert "Traceback" in log.read_text()


@only_posix
def test_scores_that_are_not_there_are_missed(stand_in):
    with pytest.raises(TrainingError, match=r"recbole's Silent wrote no scores"):
        RecBole("Silent").fit(two_tastes())


def test_the_report_is_told_the_version_of_the_pins():
    assert RecBole.requirement.provenance() == {"library": "recbole", "version": "1.2.1"}


@pytest.mark.skipif(not ENVIRONMENT.executable.exists(), reason="RecBole's environment is not made")
def test_recbole_itself_tells_two_tastes_apart():
    settings = {"epochs": 30, "embedding_size": 8, "learning_rate": 0.05}
    out = RecBole("BPR", settings, threads=1).fit(two_tastes()).recommend(["u0", "u1", "u5"], 1)
    assert out["item"].to_list() == [0, 1, 5]
