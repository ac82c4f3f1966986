"""Models in service know all events, and are swapped without anyone noticing."""

import asyncio
import logging
import os
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fmpair import load
from fmpair.errors import MachineError, ModelFileError
from fmpair.events.event import Event
from fmpair.events.store import open_store
from fmpair.models import FMPair
from fmpair.serve import worker
from fmpair.serve.live_models import ID_LENGTH, MAX_WAIT, LiveModels
from fmpair.serve.settings import CANDIDATE, CURRENT, WorkerSlot
from fmpair.serve.worker import FileWatch

ITEMS, START = 20, 1_600_000_000


def walks(users=60, steps=8):
    start = np.random.default_rng(0).integers(0, ITEMS, users)
    return pl.DataFrame(
        {
            "user": [f"u{u}" for u in range(users) for _ in range(steps)],
            "item": [f"i{(start[u] + t) % ITEMS}" for u in range(users) for t in range(steps)],
            "timestamp": [START + 60 * t for _ in range(users) for t in range(steps)],
        }
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Two model files, the second of which has learned a little longer."""
    folder = tmp_path_factory.mktemp("fitted")
    for name, epochs in (("first", 8), ("second", 9)):
        recipe = FMPair(factors=8, history=3, epochs=epochs, seed=1)
        recipe.fit(walks()).save(folder / f"{name}.fmpair")
    return folder


@pytest.fixture
def path(fitted, tmp_path):
    return Path(shutil.copy(fitted / "first.fmpair", tmp_path / "model.fmpair"))


def put(source, target):
    """A new file in the place of another, as whoever deploys one should."""
    shutil.copy(source, f"{target}.new")
    os.replace(f"{target}.new", target)


def click(user, item, minute=100):
    return Event(user, item, (START + 60 * minute) * 1_000_000)


def best(models, user, n=5):
    return models.of(user)[1].recommend(user, n)["item"].to_list()


def test_a_model_is_named_by_its_checksum(path):
    models = LiveModels(path)
    arm, _, name = models.of("u0")
    (serving,) = models.serving()
    assert (arm, name) == (CURRENT, serving.checksum[:ID_LENGTH])
    assert len(serving.checksum) == 64 and serving.checksum.encode() in path.read_bytes()
    assert best(models, "u0") == load(path).recommend("u0", 5)["item"].to_list()
    assert not models.behind()


def test_what_was_kept_before_is_known_at_the_start(path, store):
    news = [click("u3", "i1"), click("u3", "i2", 101), click("u5", "i9")]
    store.append(news)
    models = LiveModels(path, store)
    expected = load(path).extended(
        pl.DataFrame({"user": ["u3", "u3", "u5"], "item": ["i1", "i2", "i9"],
                      "timestamp": [START + 6000, START + 6060, START + 6000]})
    )  # fmt: skip
    for user in ("u3", "u5", "u7"):
        assert best(models, user) == expected.recommend(user, 5)["item"].to_list()
    assert models.position == 3 and not models.behind()


def test_the_next_answer_knows_what_another_process_kept(path, store, tmp_path):
    models, other = LiveModels(path, store), open_store(tmp_path / "events.db")
    first = best(models, "u3", 1)[0]
    other.append([click("u3", first)])
    assert models.behind()
    models.follow()
    assert not models.behind() and first not in best(models, "u3", ITEMS)
    other.close()


def test_requests_that_were_read_together_share_one_look_at_the_store(path, store, tmp_path):
    models, other, looks = LiveModels(path, store), open_store(tmp_path / "events.db"), []
    first, last = best(models, "u3", 1)[0], store.last
    store.last = lambda: looks.append(1) or last()

    async def run():
        await asyncio.gather(*(models.catch_up() for _ in range(5)))
        assert len(looks) == 1
        other.append([click("u3", first)])
        await asyncio.sleep(0)  # the loop reads further requests
        await asyncio.gather(*(models.catch_up() for _ in range(5)))

    asyncio.run(run())
    assert first not in best(models, "u3", ITEMS)
    other.close()


def test_events_a_model_has_learned_are_not_told_again(path, store):
    store.append([click("u3", "i1")])
    store.remember(LiveModels(path).serving()[0].checksum, 1)
    models = LiveModels(path, store)
    assert models.position == 1
    assert best(models, "u3") == load(path).recommend("u3", 5)["item"].to_list()


def test_a_user_nobody_knows_is_known_by_what_they_did(path, store):
    store.append([click("new", "i4", 7), click("new", "i3", 6), click("new", "nothing", 8)])
    models = LiveModels(path, store)
    model = models.of("new")[1]
    assert models.history_of("new", model) == ["i3", "i4"]
    store.append([click("new", "i5", 9), click("new", "i5", 9)])
    models.follow()
    assert models.history_of("new", model) == ["i3", "i4", "i5"]
    assert models.history_of("u0", model) is None and models.history_of("other", model) is None


def test_a_share_of_the_users_is_answered_by_the_candidate(fitted, path, store):
    models = LiveModels(path, store, fitted / "second.fmpair", 0.5)
    users = load(path).user_ids.tolist()
    arms = {user: models.of(user) for user in users}
    assert {arm for arm, _, _ in arms.values()} == {CURRENT, CANDIDATE}
    assert len({name for _, _, name in arms.values()}) == 2
    assert models.of(None)[0] == CURRENT
    store.append([click(user, "i1") for user in users])
    models.follow()
    assert all("i1" not in best(models, user, ITEMS) for user in users)


def test_a_new_file_takes_the_place_of_the_old_with_all_events_known(fitted, path, store):
    models = LiveModels(path, store)
    store.append([click("u3", "i1"), click("u4", "i2")])
    models.follow()
    before = models.of("u3")
    put(fitted / "second.fmpair", path)
    assert models.reload() and models.swaps == 1
    after = models.of("u3")
    assert before[2] != after[2] and before[1] is not after[1]
    assert before[1].recommend("u3", 3).height == 3  # a question in flight goes on with it
    assert "i1" not in best(models, "u3", ITEMS) and "i2" not in best(models, "u4", ITEMS)
    assert models.position == 2 and not models.behind()


def test_a_broken_file_is_refused_and_reported_once(fitted, path, caplog):
    models = LiveModels(path)
    name = models.of(None)[2]
    content = bytearray((fitted / "second.fmpair").read_bytes())
    content[-9] ^= 1
    path.write_bytes(content)
    with caplog.at_level(logging.ERROR, "fmpair"):
        assert not models.reload() and not models.reload()
    assert [record.getMessage() for record in caplog.records] == [
        f"rejected {path}, the current model stays in service: {str(path)!r} is damaged: its "
        "checksum does not match. Restore it from a copy or fit again"
    ]
    assert "checksum does not match" in models.rejected[CURRENT].why and models.refusals == 2
    assert models.of(None)[2] == name and best(models, "u0")
    put(fitted / "second.fmpair", path)
    assert models.reload() and not models.rejected


def test_a_broken_file_at_the_start_is_an_error(tmp_path):
    (tmp_path / "model.fmpair").write_bytes(b"nothing")
    with pytest.raises(ModelFileError, match="damaged, or not an fmpair model"):
        LiveModels(tmp_path / "model.fmpair")
    with pytest.raises(ModelFileError, match="cannot read model"):
        LiveModels(tmp_path / "other.fmpair")


def test_a_file_is_taken_once_it_has_changed_and_a_refused_one_when_it_changes_again(fitted, path):
    models = LiveModels(path)
    watch = FileWatch(models, every=3600)
    watch.check()
    assert (models.swaps, models.refusals) == (0, 0)
    os.unlink(path)
    watch.check()
    watch.check()
    assert (models.swaps, models.refusals) == (0, 1) and "cannot read" in models.rejected[
        CURRENT
    ].why
    put(fitted / "second.fmpair", path)
    watch.check()
    watch.check()
    assert (models.swaps, models.refusals) == (1, 1) and not models.rejected
    watch.close()


def test_what_fails_for_the_store_is_tried_again(fitted, path, store, monkeypatch):
    monkeypatch.setattr(worker, "RETRY_EVERY", 0.0)
    models = LiveModels(path, store)
    watch = FileWatch(models, every=3600)
    put(fitted / "second.fmpair", path)
    with monkeypatch.context() as patched:
        patched.setattr(store, "learned", lambda _: (_ for _ in ()).throw(MachineError("gone")))
        watch.check()
    assert models.rejected[CURRENT].why == "gone" and models.swaps == 0
    watch.check()
    assert models.swaps == 1 and not models.rejected
    watch.close()


def test_a_store_that_does_not_answer_keeps_nobody_from_answers(path, store, monkeypatch, caplog):
    models = LiveModels(path, store)
    store.append([click("u3", "i1")])

    def gone(*_):
        raise MachineError("the database is gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "after", gone)
        models.follow()
        models.follow()
        assert models.trouble == "the database is gone" and best(models, "u3")
        assert not models.behind()  # nobody waits for it again at once
        patched.setattr(store, "last", gone)
        monkeypatch.setattr(models, "_retry_at", 0.0)
        assert not models.behind()
    assert len(caplog.records) == 1
    models.follow()
    assert models.trouble is None and models.position == 1


def test_a_store_that_does_not_return_delays_no_list(path, store, monkeypatch):
    models, thawed = LiveModels(path, store), threading.Event()
    store.append([click("u3", "i1")])
    read = store.after

    def frozen(*options):
        assert thawed.wait(60)
        return read(*options)

    monkeypatch.setattr(store, "after", frozen)

    async def ask():
        for _ in range(50):  # the first waits a moment, the others do not wait at all
            await models.catch_up()
            assert best(models, "u3")
        thawed.set()
        while models.behind():
            await models.catch_up()

    start = time.monotonic()
    asyncio.run(ask())
    assert models.position == 1 and "i1" not in best(models, "u3", ITEMS)
    assert time.monotonic() - start < 50 * MAX_WAIT


def test_what_another_process_stores_during_a_read_is_known_to_the_next_list(path, store, tmp_path):
    models, other = LiveModels(path, store), open_store(tmp_path / "events.db")
    for number in range(50):
        other.append([click("u3", f"i{number % ITEMS}", number)])
        asyncio.run(models.catch_up())
        assert models.position == number + 1
    other.close()


def test_a_worker_that_is_restarted_answers_without_a_store_and_knows_all_once_it_is_back(
    path, store, monkeypatch
):
    store.append([click("u3", "i1")])

    def gone(*_):
        raise MachineError("the database is gone")

    with monkeypatch.context() as patched:
        patched.setattr(store, "learned", gone)
        with pytest.raises(MachineError, match="gone"):
            LiveModels(path, store)
        models = LiveModels(path, store, slot=WorkerSlot(0, restarted=True))
        models.follow()
        assert best(models, "u3") and models.trouble == "the database is gone"
        assert models.stale_since <= time.time()
    models._retry_at = 0.0
    assert models.behind()
    models.follow()
    assert "i1" not in best(models, "u3", ITEMS) and not models.behind()
    assert models.trouble is None and models.stale_since is None


@pytest.mark.slow
def test_swaps_and_events_and_questions_get_on_together(fitted, path, store):
    models, stop, errors = LiveModels(path, store), threading.Event(), []
    counted = []

    def ask():
        try:
            while not stop.is_set():
                if models.behind():
                    models.follow()
                counted.append(len(best(models, "u7", 3)))
        except Exception as error:
            errors.append(error)

    def write():
        for number in range(200):
            store.append([click(f"u{number % 50}", f"i{number % ITEMS}", 100 + number)])

    threads = [threading.Thread(target=ask), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    for number in range(20):
        put(fitted / f"{('second', 'first')[number % 2]}.fmpair", path)
        assert models.reload()
    threads[1].join()
    stop.set()
    threads[0].join()
    models.follow()
    assert not errors and set(counted) == {3} and models.position == 200
    whole = LiveModels(path, store)
    for user in (f"u{number}" for number in range(50)):
        assert best(models, user) == best(whole, user)
