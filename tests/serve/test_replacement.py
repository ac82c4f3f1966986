"""A model file that does not fit is refused, and what is no file delays nobody."""

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from fmpair import Dataset
from fmpair.models import Popularity
from fmpair.serve.live_models import LiveModels
from fmpair.serve.request_options import rules_in_service
from fmpair.serve.settings import CURRENT, DESCRIPTORS, WorkerSlot
from fmpair.serve.worker import FileWatch


def events(users=range(40), items=range(12)):
    rows = [
        (user, item)
        for row, user in enumerate(users)
        for column, item in enumerate(items)
        if (row + column) % 3
    ]
    return pl.DataFrame(rows, {"user": None, "item": None}, orient="row")


def named(prefix, count=40):
    return [f"{prefix}-{number:03}" for number in range(count)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.fmpair"


def saved(path, frame):
    """Put a model of a frame into a place at once."""
    Popularity().fit(frame).save(f"{path}.new")
    os.replace(f"{path}.new", path)


def test_a_model_without_a_column_that_rules_need_is_refused(path, tmp_path):
    items = pl.DataFrame({"item": range(12), "kind": ["a", "b"] * 6})
    Popularity().fit(Dataset.from_frame(events(), items=items)).save(path)
    models, rules = LiveModels(path), tmp_path / "rules.yaml"
    rules.write_text("front_page: {where: kind=a}\n")
    assert set(rules_in_service(rules, models)) == {"front_page"}
    saved(path, events())
    assert not models.reload()
    why = models.rejected[CURRENT].why
    wanted = f"it does not fit the rules: {rules}: front_page: where: the model knows no columns"
    assert why.startswith(wanted)
    Popularity().fit(Dataset.from_frame(events(range(41)), items=items)).save(path)
    assert models.reload()


def test_ids_of_another_kind_are_refused(path):
    saved(path, events(named("user")))
    models = LiveModels(path)
    saved(path, events(range(40)))
    assert not models.reload()
    assert models.rejected[CURRENT].why == (
        "its user ids are numbers, not texts; restart the service to use it anyway"
    )
    saved(path, events(named("user"), named("item")))
    assert not models.reload() and "its item ids are texts" in models.rejected[CURRENT].why
    saved(path, events(named("user"), range(20)))
    assert models.reload() and not models.rejected


def test_a_model_that_knows_none_of_those_who_ask_is_refused(path):
    saved(path, events(named("user", 200)))
    models = LiveModels(path)
    for user in named("user", 30) + ["somebody"] * 500:
        models.of(user)
    saved(path, events(named("other", 200) + named("user", 2)))
    assert not models.reload()
    assert models.rejected[CURRENT].why.startswith(
        "it knows 2 of 30 users of the model in service; restart"
    )
    saved(path, events(named("other", 200) + named("user", 30)))
    assert models.reload()


def test_without_requests_the_users_of_the_old_model_are_asked_for(path):
    saved(path, events(named("user")))
    models = LiveModels(path)
    saved(path, events(named("other")))
    assert not models.reload()
    assert "it knows 0 of 40 users of the model in service" in models.rejected[CURRENT].why
    saved(path, events(named("user", 10) + named("other")))
    assert models.reload()


def test_a_model_without_the_context_of_the_old_is_refused(path, model_file, served_model):
    shutil.copy(model_file, path)
    models = LiveModels(path)
    users = served_model.user_ids.tolist()
    saved(path, events(users, served_model.item_ids.tolist()))
    assert not models.reload()
    why = models.rejected[CURRENT].why
    assert why.startswith("it does not know the context daytime, warmth; restart the service")


@pytest.mark.skipif(not Path(DESCRIPTORS).is_dir(), reason="open files have no paths here")
def test_a_worker_that_is_restarted_refuses_what_the_others_have_refused(path):
    saved(path, events(named("user")))
    with path.open("rb") as file:
        saved(path, events(named("other")))
        kept = {CURRENT: SimpleNamespace(descriptor=file.fileno())}
        models = LiveModels(path, slot=WorkerSlot(0, restarted=True, kept=kept))
        assert models.of("user-001")[1].user_ids.tolist() == named("user")
        assert not models.reload() and "it knows 0 of" in models.rejected[CURRENT].why
        saved(path, events(named("user", 50)))
        assert models.reload() and len(models.of(None)[1].user_ids) == 50
    fresh = LiveModels(path, slot=WorkerSlot(0, restarted=False, kept=kept))
    assert len(fresh.of(None)[1].user_ids) == 50


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_and_the_next_good_file_is_taken(path, kind):
    saved(path, events(named("user")))
    models = LiveModels(path)
    watch = FileWatch(models, every=0.01)
    try:
        os.unlink(path)
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
        waited(lambda: CURRENT in models.rejected and "it is " in models.rejected[CURRENT].why)
        path.rmdir() if kind == "folder" else os.unlink(path)
        saved(path, events(named("user", 50)))
        waited(lambda: models.swaps == 1)
        assert not models.rejected
    finally:
        if kind == "pipe" and path.is_fifo():  # lets a reader that waits go on
            os.close(os.open(path, os.O_RDWR))
        watch.close()


def waited(condition):
    limit = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
