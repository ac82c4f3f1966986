"""A damaged store is noticed, and nothing more is acknowledged."""

import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
from postgres_server import emptied

from fmpair.errors import MachineError
from fmpair.events import verification
from fmpair.events.event import Event
from fmpair.events.store import open_store

T = 1_700_000_000_000_000
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="open files cannot be removed")


def click(number):
    return Event(f"user-{number}", number, T + number, {"note": "x" * 300})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.db"


@pytest.fixture
def store(path, monkeypatch):
    """A store with 40 events, half of them in the file and half in its log; no thread checks it."""
    monkeypatch.setattr(verification.Verification, "start", lambda self: None)
    own = open_store(path)
    own.append([click(number) for number in range(20)])
    outside(path, "PRAGMA wal_checkpoint(PASSIVE)")
    for number in range(20, 40):
        own.append([click(number)])
    assert own.position() == 40
    own._verification.check()
    assert own.trouble() is None
    yield own
    own.close()


def outside(path, *statements):
    """Run statements in a process of its own, as another program would."""
    code = (
        "import sqlite3, sys\n"
        "own = sqlite3.connect(sys.argv[1])\n"
        "for one in sys.argv[2:]:\n    own.execute(one).fetchall()\n"
        "own.commit()\n"
        "import os; os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path), *statements], check=True)


def overwrite(path, start, content):
    with open(path, "r+b", buffering=0) as file:
        file.seek(start)
        file.write(content)


def size(path):
    return os.stat(path).st_size


def log(path):
    return f"{path}-wal"


DAMAGE = {
    "the log and its index are removed": lambda p: (os.unlink(log(p)), os.unlink(f"{p}-shm")),
    "the log is removed": lambda p: os.unlink(log(p)),
    "the index is removed": lambda p: os.unlink(f"{p}-shm"),
    "the log is emptied": lambda p: os.truncate(log(p), 0),
    "the log is cut in half": lambda p: os.truncate(log(p), size(log(p)) // 2),
    "the log is overwritten": lambda p: overwrite(log(p), 32, b"\xff" * (size(log(p)) - 32)),
    "the file is cut": lambda p: os.truncate(p, 4096),
    "the file is overwritten": lambda p: overwrite(p, 4096, b"\xff" * (size(p) - 4096)),
    "events are deleted": lambda p: outside(p, "DELETE FROM events WHERE position > 25"),
    "an event is changed": lambda p: outside(p, "UPDATE events SET item = 7 WHERE position > 25"),
    "the table is dropped": lambda p: outside(p, "DROP TABLE events"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_noticed_and_nothing_more_is_acknowledged(store, path, kind, caplog):
    DAMAGE[kind](path)
    store._database._checked_at = -1e9  # the check of the whole file is due
    store._verification.check()
    with pytest.raises(MachineError, match=r"damaged|removed or replaced"):
        store.append([click(40)])
    assert store.trouble() and store._verification.damage
    assert "events.db" in caplog.text or "acknowledged" in caplog.text


@pytest.mark.parametrize("also", ["", "-shm"])
def test_the_events_of_a_removed_log_are_saved(store, path, also):
    os.unlink(log(path))
    if also:
        os.unlink(f"{path}{also}")
    with pytest.raises(MachineError, match="was removed or replaced: restart the service"):
        store.append([click(40)])
    outside(path, "SELECT 1")
    copy = shutil.copy(path, path.with_name("copy.db"))
    own = sqlite3.connect(copy)
    assert own.execute("SELECT count(*) FROM events").fetchone() == (40,)
    own.close()


def test_an_undamaged_store_goes_on_whatever_other_programs_read(store, path):
    for number in range(40, 50):
        outside(path, "SELECT count(*) FROM events", "PRAGMA wal_checkpoint(TRUNCATE)")
        assert store.append([click(number)]) == number + 1
        store._verification.check()
        assert store.trouble() is None


def test_once_the_events_can_be_read_back_they_are_acknowledged_again(store, path):
    outside(path, "CREATE TABLE other AS SELECT * FROM events", "DELETE FROM events")
    store._verification.check()
    with pytest.raises(MachineError, match="was acknowledged and cannot be read back"):
        store.append([click(40)])
    outside(path, "INSERT INTO events SELECT * FROM other")
    assert store.append([click(40)]) == 41 and store.trouble() is None


def test_memory_of_what_was_acknowledged_is_bounded(store):
    store.append([click(number) for number in range(5_000)])
    for number in range(1_200):
        store._verification.note([100_000 + number])
    assert len(store._verification._rows) == verification.RECENT


def test_a_table_that_was_emptied_is_noticed(postgres):
    import psycopg

    store = open_store(emptied(postgres))
    store.append([click(number) for number in range(10)])
    store._verification.check()
    assert store.trouble() is None and store.failing_since() is None
    with psycopg.connect(postgres.url) as own:
        own.execute("DELETE FROM fmpair_events")
    store._verification.check()
    with pytest.raises(MachineError, match="was acknowledged and cannot be read back"):
        store.append([click(10)])
    store.close()
