"""Stores whose disk is full, or whose database goes away: clear errors, nothing lost."""

import os
import resource
import shutil
import subprocess
import sys
import time

import pytest
from postgres_server import emptied

from fmpair.errors import DataError, MachineError
from fmpair.events.event import Event
from fmpair.events.store import open_store

T = 1_700_000_000_000_000


def click(number):
    return Event("ann", number, T + number, {"note": "x" * 200})


def fill(store):
    """Append until there is no room; how many were kept, and what was said."""
    for number in range(1_000_000):
        try:
            store.append([click(number)])
        except MachineError as error:
            return number, str(error)
    raise AssertionError("there was room for a million")


FILL = """
import sys
sys.path.insert(0, {folder!r})
from test_store_faults import fill
from fmpair.events.store import open_store
store = open_store({path!r})
print(*fill(store), sep="|")
print(len(store.after(0, 10_000_000)), store.trouble() is not None, sep="|")
"""


def test_a_file_that_must_not_grow_is_told_and_what_was_kept_is_there(tmp_path):
    path = tmp_path / "events.db"
    code = FILL.format(folder=os.path.dirname(__file__), path=str(path))
    limit = (300_000, 300_000)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    count, said = first.split("|")
    assert int(count) > 10 and said.startswith(f"the event store {path} failed: ")
    assert second == f"{count}|True"  # reading goes on
    store = open_store(path)
    assert [event.item for event in store.after(0, 10_000)] == list(range(int(count)))
    assert store.append([click(-1)]) > int(count)
    store.close()


def mounted(place, size):
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
    done = shutil.which("mount") and subprocess.run(command, capture_output=True)
    if not done or done.returncode:
        pytest.skip("we may not mount")
    return place


@pytest.mark.faults
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount")
def test_a_full_disk_is_told_and_with_room_again_events_are_kept(tmp_path):
    disk = mounted(tmp_path / "disk", 400)
    try:
        store = open_store(disk / "events.db")
        count, said = fill(store)
        assert "full" in said and "free space on its disk" in said and store.trouble() == said
        assert len(store.after(0, 10_000_000)) == count == store.position()
        subprocess.run(["mount", "-o", "remount,size=4m", str(disk)], check=True)
        assert store.append([click(count)]) > count - 1 and store.trouble() is None
        store.close()
        again = open_store(disk / "events.db")
        assert [event.item for event in again.after(0, 10_000_000)] == list(range(count + 1))
        again.close()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


OPEN_MANY = """
import sys, time
from pathlib import Path
from fmpair.events.sqlite import SQLite
begin = float(sys.stdin.readline())
for number in range(200):
    time.sleep(max(0, begin + number * 0.01 - time.time()))
    SQLite(Path({folder!r}) / f"{{number}}.db").close()
"""


def test_processes_that_create_a_store_at_the_same_time_all_open_it(tmp_path):
    code = [sys.executable, "-c", OPEN_MANY.format(folder=str(tmp_path))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = dict.fromkeys(("stdin", "stderr"), subprocess.PIPE)
    workers = [subprocess.Popen(code, text=True, env=environment, **pipes) for _ in range(3)]
    begin = str(time.time() + 1)
    for worker in workers:
        worker.stdin.write(f"{begin}\n")
        worker.stdin.flush()
    assert [worker.communicate()[1] for worker in workers] == ["", "", ""]


def test_a_file_that_was_removed_is_told_and_nothing_is_kept_for_nobody(tmp_path):
    path = tmp_path / "events.db"
    store = open_store(path)
    store.append([click(0)])
    assert store.position() == 1
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(MachineError, match=r"events\.db was removed or replaced: put it back"):
        store.append([click(1)])
    assert [event.item for event in store.after(0, 10)] == [0] and not path.exists()
    (tmp_path / "elsewhere.db").rename(path)
    assert store.append([click(1)]) == 2
    store.close()


def test_a_database_that_goes_away_and_comes_back_is_used_again(postgres):
    store = open_store(emptied(postgres))
    other = open_store(postgres.url)
    last = store.append([click(0)])
    postgres.stop()
    try:
        with pytest.raises(MachineError, match="the event store postgresql:///postgres failed"):
            store.append([click(1)])
        with pytest.raises(MachineError, match="failed"):
            store.after(0, 10)
        assert store.position() == last  # the last that is known, and nobody waits for more
        assert store.trouble()
    finally:
        postgres.start()
    last = store.append([click(2)])
    assert [event.item for event in store.after(0, 10)] == [0, 2]
    for _ in range(500):  # the other one hears of it again, by itself
        if other.position() == last:
            break
        time.sleep(0.02)
    assert other.position() == last and store.trouble() is None
    for own in (store, other):
        own.close()


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is opened from now on."""
    from fmpair.events import postgres as module

    opened, connect = [], module.Postgres._connect

    def kept(self):
        opened.append(connect(self))
        return opened[-1]

    monkeypatch.setattr(module.Postgres, "_connect", kept)
    return opened


def test_a_connection_that_is_made_after_closing_is_closed(postgres, connections):
    from fmpair.events.postgres import Postgres

    database = Postgres(emptied(postgres))
    database.close()
    database._listen()  # as its thread may, which was connecting meanwhile
    assert database._listener is None and all(one.closed for one in connections)
    assert len(connections) == 3


def test_a_connection_that_fails_to_listen_is_closed(postgres, connections, monkeypatch):
    from fmpair.events import postgres as module

    database = module.Postgres(emptied(postgres))

    def fail(*_):
        raise module.psycopg.OperationalError("the server is shutting down")

    monkeypatch.setattr(module.Connection, "execute", fail)
    with pytest.raises(module.psycopg.OperationalError):
        database._listen()
    database.close()
    assert len(connections) == 3 and all(one.closed for one in connections)


@pytest.mark.faults
def test_a_frozen_database_keeps_nobody_waiting_for_long(postgres, monkeypatch):
    from fmpair.events import postgres as module

    monkeypatch.setattr(module.Connection, "patience", 0.5)
    monkeypatch.setattr(module, "TIMEOUT", 2)  # the least that the driver waits to connect
    monkeypatch.setattr(module, "PING_TIMEOUT", 0.5)
    store, other = open_store(emptied(postgres)), open_store(postgres.url)
    last = store.append([click(0)])
    other.append([click(1)])
    with postgres.frozen():
        for work in (lambda: store.append([click(2)]), lambda: store.after(0, 10)):
            with pytest.raises(MachineError, match=r"failed: .*(no answer|timeout)"):
                work()
        assert store.position() >= last
        store._verification.check()
        assert store.trouble() and store.failing_since() <= time.time()
    for _ in range(500):
        store._verification.check()
        if store.failing_since() is None:
            break
        time.sleep(0.02)
    assert [event.item for event in store.after(0, 10)][:2] == [0, 1]
    store.append([click(3)])
    assert store.trouble() is None and store.failing_since() is None
    for own in (store, other):
        own.close()


def test_a_store_that_cannot_be_opened_now_is_opened_later(tmp_path):
    place = tmp_path / "later"
    with pytest.raises(DataError, match="its folder does not exist"):
        open_store(place / "events.db")
    store = open_store(place / "events.db", later=True)
    assert store.position() == 0 and "its folder does not exist" in store.trouble()
    with pytest.raises(MachineError, match="its folder does not exist"):
        store.append([click(0)])
    place.mkdir()
    store._database._retry_at = 0.0
    assert store.append([click(0)]) == 1 == store.position() and store.trouble() is None
    store.close()
