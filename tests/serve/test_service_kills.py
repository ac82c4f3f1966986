"""Processes of the service are killed under load: nothing acknowledged is lost."""

import os
import random
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from under_load import Load, Service, fitted, kept, until

from fmpair.events.store import open_store

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
KILLS = min(int(os.environ.get("FMPAIR_FAULT_CASES", 4)), 100)
QUESTION = {"user": "user-000", "n": 3}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("model"))


def answers(service):
    try:
        return service.ask("/v1/recommend", QUESTION)[0] == 200
    except OSError:
        return False


def until_answered(service):
    """Wait for an answer; how many seconds, only to be printed: a busy machine takes longer."""
    began = time.monotonic()
    until(lambda: answers(service))
    return time.monotonic() - began


def lost(store, load):
    return set(load.acknowledged) - kept(store)


@pytest.mark.faults
def test_a_worker_that_is_killed_loses_no_event_and_another_takes_its_place(model, tmp_path):
    url, dice, waited = tmp_path / "events.db", random.Random(1), []
    with Service(model, "--events", url, workers=2) as service:
        with Load(service) as load:
            for _ in range(KILLS):
                time.sleep(dice.uniform(0.3, 0.8))
                first = until(service.workers)
                os.kill(dice.choice(first), signal.SIGKILL)
                waited.append(until_answered(service))
                until(lambda before=first: len(service.workers()) == 2 != before)
        store = open_store(url)
        assert not lost(store, load) and not load.failed
        # whoever came later knows what those who are gone took in
        user, item, _ = load.acknowledged[-1]
        for _ in range(4):
            _, answer = service.ask("/v1/recommend", {"user": user, "n": 60})
            assert item not in [one["item"] for one in answer["items"]]
        store.close()
    print(f"{KILLS} workers killed: {len(load.acknowledged)} events acknowledged and all there, "
          f"{load.asked} answers, {load.lost} connections lost, the next answer within "
          f"{max(waited):.1f} s")  # fmt: skip


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS - 1, marks=pytest.mark.faults, id="many")])
def test_a_service_that_is_killed_whole_loses_no_event_and_answers_again(model, tmp_path, kills):
    url, dice, total, waited = tmp_path / "events.db", random.Random(2), 0, []
    with Service(model, "--events", url, workers=2) as service, closing(open_store(url)) as store:
        for _ in range(kills):
            with Load(service, writers=4) as load:
                time.sleep(dice.uniform(0.4, 1.0))
                service.kill_all()
            assert not lost(store, load)
            total += len(load.acknowledged)
            service.start(wait=False)
            waited.append(until_answered(service))
        assert total <= store.position()
    print(f"killed {len(waited)} times: {total} events acknowledged and all there; answers again "
          f"after {', '.join(f'{one:.1f}' for one in waited)} s")  # fmt: skip


@pytest.mark.faults
def test_workers_do_not_outlive_the_process_that_started_them(model, tmp_path):
    with Service(model, "--events", tmp_path / "events.db", workers=2) as service:
        workers = service.workers()
        service.process.kill()
        service.process.wait()
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
        service.start()
        assert answers(service)


@pytest.mark.faults
def test_without_its_temporary_folder_a_worker_starts_again_and_a_kill_leaves_nothing(
    model, tmp_path
):
    place = tmp_path / "temporary"
    place.mkdir()
    options = {"env": {**os.environ, "TMPDIR": str(place)}}
    with Service(model, "--events", tmp_path / "events.db", **options) as service:
        assert os.listdir(place) == []
        place.rmdir()
        service.ask("/v1/recommend", QUESTION)
        (first,) = service.workers()
        os.kill(first, signal.SIGKILL)
        until(lambda: service.workers() not in ([], [first]))
        until_answered(service)
        assert 'path="/v1/recommend",status="200"} 2' in service.ask("/metrics")[1]
        shared = set(os.listdir("/dev/shm"))
        service.process.kill()
        service.process.wait()
        until(lambda: not Path(f"/proc/{first}").exists())
        assert not place.exists() and set(os.listdir("/dev/shm")) <= shared


@pytest.mark.faults
def test_a_worker_that_is_restarted_serves_what_the_others_serve(model, tmp_path):
    path, second = tmp_path / "model.fmpair", fitted(tmp_path, "second.fmpair", 1)
    shutil.copy(model, path)

    def in_service():
        return service.ask("/v1/model")[1]["models"][0]

    def killed():
        (first,) = service.workers()
        os.kill(first, signal.SIGKILL)
        until(lambda: service.workers() not in ([], [first]))
        until_answered(service)

    with Service(path, "--events", tmp_path / "events.db", "--watch") as service:
        before = in_service()["model"]
        os.replace(second, path)
        until(lambda: in_service()["model"] != before)
        accepted = in_service()["model"]
        time.sleep(1)  # until the parent knows
        path.unlink()
        os.mkfifo(path)
        until(lambda: in_service()["refused"])
        killed()
        assert in_service()["model"] == accepted
        until(lambda: in_service()["refused"])
        shutil.copy(model, tmp_path / "new")
        os.replace(tmp_path / "new", path)
        until(lambda: in_service()["model"] == before)
