"""The disk is full, or the database goes away: clear errors for events, and answers go on."""

import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress

import pytest
from postgres_server import emptied, postgres
from under_load import Service, fitted, until

from fmpair.events.store import open_store

__all__ = ["postgres"]

pytestmark = pytest.mark.faults
BIG = {"note": "x" * 1000}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return fitted(tmp_path_factory.mktemp("model"))


def tell(service, user="user-001", item="book-001"):
    event = {"user": user, "item": item, "context": BIG}
    return service.ask("/v1/events", {"events": [event]})


def listed(service, user):
    status, answer = service.ask("/v1/recommend", {"user": user, "n": 60})
    assert status == 200
    return [one["item"] for one in answer["items"]]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_costs_events_a_clear_error_and_answers_nothing(model, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("we may not mount")
    try:
        with Service(model, "--events", disk / "events.db") as service:
            count = 0
            while (found := tell(service))[0] == 200:
                count += 1
            assert found[0] == 503 and "full; free space on its disk" in found[1]["detail"]
            for _ in range(5):
                assert tell(service)[0] == 503 and listed(service, "user-002")
            assert "fmpair_events_store_up 0" in service.ask("/metrics")[1]
            assert "free space" in service.ask("/ready")[1]["trouble"]
            subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
            assert tell(service)[0] == 200
            assert "fmpair_events_store_up 1" in service.ask("/metrics")[1]
            assert service.said.count("free space") == 1  # in the log once, not once a request
        store = open_store(disk / "events.db")
        assert len(store.after(0, 1_000_000)) == count + 1
        store.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_replicas_share_a_database_and_answer_when_it_is_gone(model, postgres):
    url = emptied(postgres)
    with Service(model, "--events", url) as one, Service(model, "--events", url) as other:
        assert tell(one, "user-001", "book-001")[0] == 200
        until(lambda: "book-001" not in listed(other, "user-001"))
        postgres.stop()
        try:
            for service in (one, other):
                status, problem = tell(service)
                assert (
                    status == 503
                    and "the event store postgresql:///postgres failed" in (problem["detail"])
                )
                assert "book-001" not in listed(service, "user-001")
                assert service.ask("/v1/events?after=0")[0] == 503
                assert service.ask("/live")[0] == 200
        finally:
            postgres.start()
        until(lambda: tell(other, "user-001", "book-002")[0] == 200)
        until(lambda: "book-002" not in listed(one, "user-001"))
    store = open_store(url)
    assert [event.item for event in store.after(0, 10)] == ["book-001", "book-002"]
    store.close()


def test_lists_are_answered_while_the_database_is_frozen(model, postgres):
    url = emptied(postgres)
    with Service(model, "--events", url, workers=2) as service:
        assert tell(service, "user-001", "book-001")[0] == 200
        statuses = []
        with postgres.frozen():
            waiting = [
                threading.Thread(target=lambda: statuses.append(tell(service)[0])) for _ in range(4)
            ]
            waiting += [
                threading.Thread(
                    target=lambda: statuses.append(service.ask("/v1/events?after=0")[0])
                )
                for _ in range(4)
            ]
            for thread in waiting:
                thread.start()
            for number in range(100):
                assert listed(service, f"user-{number % 40:03}")
            similar = {"item": "book-001", "n": 3}
            assert service.ask("/v1/similar", similar)[0] == 200
            assert "book-001" not in listed(service, "user-001")
            until(lambda: service.ask("/ready")[1]["events_stale_since"])
            for thread in waiting:
                thread.join()
            assert set(statuses) == {503}
            os.kill(service.workers()[0], signal.SIGKILL)  # and another takes its place
            until(lambda: len(service.workers()) == 2)
            until(lambda: "restarting it" in service.said)
            for number in range(100):
                with suppress(ConnectionError):
                    assert listed(service, f"user-{number % 40:03}")
        until(lambda: tell(service, "user-001", "book-002")[0] == 200)
        for _ in range(20):
            until(lambda: not {"book-001", "book-002"} & set(listed(service, "user-001")))
        until(lambda: service.ask("/ready")[1]["events_stale_since"] is None)


def test_a_removed_log_is_noticed_and_costs_no_acknowledged_event(model, tmp_path):
    url = tmp_path / "events.db"
    with Service(model, "--events", url, workers=2) as service:
        count = sum(tell(service)[0] == 200 for _ in range(20))
        for name in ("events.db-wal", "events.db-shm"):
            os.unlink(tmp_path / name)
        statuses = [tell(service)[0] for _ in range(20)]
        assert set(statuses) == {503} and listed(service, "user-002")
        for _ in range(10):  # every worker says so
            until(lambda: "was removed or replaced" in (service.ask("/ready")[1]["trouble"] or ""))
        service.stop()
        service.start()
        assert tell(service)[0] == 200
    store = open_store(url)
    assert len(store.after(0, 1_000)) == count + 1 == 21
    store.close()
