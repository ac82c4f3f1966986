"""Every store keeps events in one order, tells of all of them, and loses none."""

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
from postgres_server import emptied

from fmpair.errors import DataError, MachineError, OptionError
from fmpair.events.event import Event, Impression
from fmpair.events.frame import frame_of
from fmpair.events.store import beside, open_store, path_of

T = 1_700_000_000_000_000
TABLES_OF_FORMAT_1 = """
CREATE TABLE events (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, item NOT NULL, time INTEGER NOT NULL, context TEXT, arm TEXT, model TEXT);
CREATE TABLE impressions (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  user NOT NULL, items TEXT NOT NULL, time INTEGER NOT NULL, arm TEXT, model TEXT);
CREATE TABLE learned (model TEXT PRIMARY KEY, position INTEGER NOT NULL)
"""

POSTGRES_TABLES_OF_FORMAT_1 = """
CREATE TABLE fmpair_events (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  item_id jsonb NOT NULL, time bigint NOT NULL, context jsonb, arm text, model text);
CREATE TABLE fmpair_impressions (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id jsonb NOT NULL,
  items jsonb NOT NULL, time bigint NOT NULL, arm text, model text);
CREATE TABLE fmpair_learned (model text PRIMARY KEY, position bigint NOT NULL);
"""


@pytest.fixture
def store(url):
    own = open_store(url)
    yield own
    own.close()


def clicks(*items, user="ann"):
    return [Event(user, item, T + place) for place, item in enumerate(items)]


def soon(condition):
    """Whether something comes true before long: what a server tells takes a moment."""
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_a_new_store_is_empty(store):
    assert (store.position(), store.after(0, 10), store.learned("abc")) == (0, [], 0)


def test_events_come_back_as_they_were_with_their_positions(store):
    given = [
        Event("ann", "maps", T, {"daytime": "evening", "age": 3, "tags": ["a"]}, "current", "m1"),
        Event(7, 8, T, None, "candidate", "m2"),
        Event("7", 2.5, -1, {}),
        Event('Zoë "x"\\', "雨", T, event="buy", value=9.5),
    ]
    assert store.append(given) == 4
    found = store.after(0, 10)
    assert [event.position for event in found] == [1, 2, 3, 4]
    for one, other in zip(found, given, strict=True):
        assert (one.user, one.item, one.time) == (other.user, other.item, other.time)
        assert type(one.user) is type(other.user) and type(one.item) is type(other.item)
        assert (one.context or None) == (other.context or None)
        assert (one.arm, one.model) == (other.arm, other.model)
        assert (one.event, one.value) == (other.event, other.value)


def test_an_event_that_is_sent_again_is_stored_once(store):
    assert store.append(clicks("a", "b", "c")) == 3
    assert [store.append(clicks("a", "b", "c")) for _ in range(2)] == [3, 3]
    last = store.append([*clicks("b"), *clicks("a", "d")])  # two at another time, or new
    assert [event.item for event in store.after(0, 10)] == ["a", "b", "c", "b", "d"]
    assert store.position() == last == store.after(0, 10)[-1].position
    assert store.append([*clicks("e"), *clicks("a")]) > last  # the new one is behind the old one
    assert frame_of(store)["item"].to_list() == ["a", "b", "c", "b", "d", "e"]


def test_an_id_says_which_events_are_the_same(store):
    one = Event("ann", "maps", T, id="click-1")
    store.append([one, one])
    store.append([replace(one, time=T + 5), replace(one, id="click-2"), replace(one, id=None)])
    assert [event.time for event in store.after(0, 10)] == [T, T, T]
    for wrong in (7, "", "a\0b", "x" * 2000):
        with pytest.raises(DataError, match="invalid event id"):
            store.append([replace(one, id=wrong)])


def test_events_of_one_time_and_of_different_types_are_different(store):
    one = Event("ann", "maps", T)
    store.append([one, replace(one, event="view"), replace(one, event="buy", value=3)])
    store.append([replace(one, event="buy", value=4)])  # the same again
    found = [(event.event, event.value) for event in store.after(0, 10)]
    assert found == [(None, None), ("view", None), ("buy", 3.0)]


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_earlier_version_is_taken_over(tmp_path, version):
    path = tmp_path / "events.db"
    with closing(sqlite3.connect(path)) as old, old:
        for table in TABLES_OF_FORMAT_1.split(";"):
            old.execute(table)
        if version == 2:
            old.execute("ALTER TABLE events ADD COLUMN id TEXT")
            old.execute("CREATE UNIQUE INDEX events_id ON events (id)")
        old.execute("INSERT INTO events (user, item, time) VALUES ('ann', 'maps', 5)")
        old.execute("INSERT INTO impressions (user, items, time) VALUES ('ann', '[3]', 5)")
        old.execute(f"PRAGMA user_version = {version}")
    for _ in range(2):
        with closing(open_store(path)) as store:
            store.append([replace(clicks("a")[0], event="buy", value=2.5)])
            assert [e.item for e in store.after(0, 10)] == ["maps", "a"]
            assert [e.value for e in store.after(0, 10)] == [None, 2.5]
            assert store.shown_since("ann", 0) == {3}


def test_tables_of_an_earlier_version_are_taken_over(postgres):
    import psycopg

    url = emptied(postgres)
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(POSTGRES_TABLES_OF_FORMAT_1)
        own.execute("""INSERT INTO fmpair_events (user_id, item_id, time) VALUES ('7', '"a"', 5)""")
    for make in (False, True):
        with closing(open_store(url, make)) as store:
            store.append([replace(clicks("b")[0], event="buy", value=2.5)])
            assert [(e.item, e.value) for e in store.after(0, 10)] == [("a", None), ("b", 2.5)]
            assert store.shown_since("ann", 0) == set()


def test_what_a_user_was_shown_is_known_at_once_and_by_all(url, store):
    store.record([Impression("ann", ("a", 7), T), Impression("ann", ("b",), T - 5)])
    store.record([Impression(8, ("c",), T), Impression("8", ("d",), T)])
    for when in ("waiting", "stored"):
        assert store.shown_since("ann", T) == {"a", 7}, when
        assert store.shown_since("ann", T - 5) == {"a", 7, "b"}
        assert store.shown_since(8, T) == store.shown_since("8", T) == {"c", "d"}
        assert store.shown_since("bob", 0) == store.shown_since("ann", T + 1) == set()
        store.append([])
    store.record([Impression("zoe", ("a",), T)], at_once=True)
    with closing(open_store(url)) as other:
        assert soon(lambda: other.shown_since("zoe", 0) == {"a"})


def test_lists_wait_for_a_database_that_fails(tmp_path):
    path = tmp_path / "events.db"
    with closing(open_store(path)) as store:
        store.append(clicks("a"))
        path.rename(tmp_path / "away.db")
        store.record([Impression("zoe", ("a",), T)], at_once=True)
        with pytest.raises(MachineError, match="removed or replaced"):
            store.append(clicks("b"))
        (tmp_path / "away.db").rename(path)
        assert soon(lambda: len(store.impressions(0, 9)) == 1)


def test_events_are_read_on_from_any_position(store):
    last = store.append(clicks("a", "b", "c"))
    assert [event.item for event in store.after(last - 2, 10)] == ["b", "c"]
    assert [event.item for event in store.after(0, 2)] == ["a", "b"]
    assert store.after(last, 10) == []


def test_what_one_took_in_another_knows(url, store):
    other = open_store(url)
    try:
        assert other.position() == 0
        last = store.append(clicks("a", "b"))
        assert soon(lambda: other.position() == last)
        assert [event.item for event in other.after(0, 10)] == ["a", "b"]
        assert other.append(clicks("c")) > last
        assert soon(lambda: store.position() == other.position() > last)
    finally:
        other.close()


def test_events_outlive_whoever_wrote_them(url):
    first = open_store(url)
    last = first.append(clicks("a"))
    first.close()
    second = open_store(url)
    assert second.position() == last and [e.item for e in second.after(0, 9)] == ["a"]
    assert second.append(clicks("b")) > last
    second.close()


def test_many_at_once_get_positions_of_their_own_and_none_is_lost(store):
    ends, lock = {}, threading.Lock()

    def client(number):
        for turn in range(20):
            own = [Event(number, f"{turn}.{part}", T) for part in range(1 + turn % 3)]
            last = store.append(own)
            with lock:
                ends[last] = own

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {event.position: event for event in store.after(0, 10_000)}
    assert len(ends) == 160 and len(kept) == sum(map(len, ends.values()))
    for last, own in ends.items():
        found = [kept[last - back] for back in reversed(range(len(own)))]
        assert [(e.user, e.item) for e in found] == [(e.user, e.item) for e in own]


def test_positions_become_visible_in_their_order(url, store):
    """Whoever reads on from the last position seen misses nothing of what is written."""
    other, stop, seen = open_store(url), threading.Event(), []

    def follow():
        position = 0
        while not stop.is_set() or other.after(position, 1):
            for event in other.after(position, 100):
                position = event.position
                seen.append(event.item)

    reader = threading.Thread(target=follow)
    reader.start()
    writers = [store, open_store(url)]

    def write(own, name):
        for turn in range(40):
            own.append([Event("u", f"{name}{turn}", T)])

    threads = [threading.Thread(target=write, args=(w, n)) for w, n in zip(writers, "ab")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    reader.join()
    writers[1].close()
    other.close()
    assert sorted(seen) == sorted(f"{name}{turn}" for name in "ab" for turn in range(40))


def test_what_was_shown_is_kept_soon(store):
    store.record([Impression("ann", ("a", 2), T, "current", "m1")])
    store.record([Impression(5, (), T)])
    store.append(clicks("a"))  # whatever waits goes with it
    first, second = store.impressions(0, 10)
    assert (first.user, first.items, first.time) == ("ann", ("a", 2), T)
    assert (first.arm, first.model, second.user, second.items) == ("current", "m1", 5, ())
    assert store.impressions(first.position, 10) == [second]


def test_what_was_shown_is_kept_when_the_store_is_closed(url):
    store = open_store(url)
    store.record([Impression("ann", ("a",), T)])
    store.close()
    again = open_store(url)
    assert [one.user for one in again.impressions(0, 10)] == ["ann"]
    again.close()


def test_a_store_remembers_how_far_a_model_has_learned(store):
    store.remember("abc", 7)
    store.remember("abc", 9)
    assert (store.learned("abc"), store.learned("def")) == (9, 0)


@pytest.mark.parametrize(
    "event, said",
    [
        (Event("", "a", T), "invalid user id ''"),
        (Event("ann", "x" * 2000, T), "invalid .* id"),
        (Event(True, "a", T), "use text or a number"),
        (Event("ann", float("nan"), T), "invalid .* id"),
        (Event("ann", 2**70, T), "at most 63 bits"),
        (Event("a\0b", "a", T), "invalid .* id"),
        (Event("\ud800", "a", T), "invalid .* id"),
        (Event("ann", "a", 1.5), "microseconds since 1970"),
        (Event("ann", "a", T, {"x": float("inf")}), "context of an event cannot be stored"),
        (Event("ann", "a", T, {"x": "\0"}), "characters that cannot be stored"),
        (Event("ann", "a", T, event=""), "invalid event type ''"),
        (Event("ann", "a", T, event="buy\n"), "invalid event type"),
        (Event("ann", "a", T, event="x" * 65), "of 1 to 64 characters"),
        (Event("ann", "a", T, value=float("nan")), "invalid value 'nan' of an event"),
        (Event("ann", "a", T, value=True), "invalid value 'True'"),
        (Event("ann", "a", T, {"x": object()}), "context of an event cannot be stored"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_keeps_nothing_else_out(store, event, said):
    with pytest.raises(DataError, match=said):
        store.append([Event("bob", "b", T), event])
    assert store.append(clicks("a")) == store.position()
    assert [kept.item for kept in store.after(0, 10)] == ["a"]


def test_a_closed_store_says_so(url):
    store = open_store(url)
    store.close()
    with pytest.raises(MachineError, match="closed"):
        store.append(clicks("a"))


def test_who_stops_waiting_stops_nobody_else(store):
    first = store.submit(clicks("a"))
    assert not first.cancel()
    assert first.result() < store.append(clicks("b"))


def test_no_events_have_the_last_position(store):
    last = store.append(clicks("a"))
    assert store.append([]) == last


@pytest.mark.parametrize("url", ["mysql://host/db", "redis://host"])
def test_an_unknown_kind_of_database_is_refused(url):
    with pytest.raises(OptionError, match=r"sqlite:PATH, a path, or postgresql://"):
        open_store(url)


def test_a_url_names_a_file(tmp_path):
    assert str(path_of("sqlite:a/b.db")) == "a/b.db" == str(path_of("a/b.db"))
    assert str(path_of("sqlite:///tmp/b.db")) == "/tmp/b.db" == str(path_of("sqlite:/tmp/b.db"))
    assert beside("/x/model.fmpair") == "sqlite:/x/model.events.db"
    with pytest.raises(OptionError, match="has no file"):
        open_store("sqlite:")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match="its folder does not exist"):
        open_store(tmp_path / "nowhere" / "events.db")


def test_a_file_that_is_no_store_is_named_in_the_error(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be taken for one " * 40)
    with pytest.raises(DataError, match=r"notes\.txt is not an event store"):
        open_store(path)


def test_another_program_s_database_stays_as_it_is(tmp_path):
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE notes (text)")
    before = path.read_bytes()
    for make in (True, False):
        with pytest.raises(DataError, match=r"notes\.db is not an event store"):
            open_store(path, make)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_store_of_a_later_fmpair_is_refused(tmp_path):
    path = tmp_path / "events.db"
    open_store(path).close()
    with closing(sqlite3.connect(path)) as own:
        own.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="written by a later fmpair"):
        open_store(path)


def test_a_server_that_is_not_there_is_named_without_its_password(postgres, tmp_path):
    with pytest.raises(MachineError, match="postgresql:///shop failed") as caught:
        open_store(f"postgresql://ann:secret@/shop?host={tmp_path}")
    assert "secret" not in str(caught.value)
