"""`events` and `update --events`: what a service kept, in files and in models."""

import numpy as np
import polars as pl
import pytest

from fmpair import load
from fmpair.events.event import Event, Impression
from fmpair.events.store import open_store
from fmpair.fitted.file import checksum_of

T = 1_750_000_000_000_000


def kept(url, *events, lists=()):
    store = open_store(url)
    store.record(lists)
    store.append(events)
    store.close()
    return url


@pytest.fixture
def url(tmp_path):
    context = {"daytime": "evening"}
    return kept(
        f"sqlite:{tmp_path / 'events.db'}",
        Event("user-001", "book-000", T, context, "current", "m1"),
        Event("late", "brand-new", T + 1, context, "candidate", "m2"),
        Event("late", "book-001", T + 2, None, "candidate", "m2"),
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_events_are_exported_and_can_be_read_again(fmpair, url, tmp_path, suffix):
    target = tmp_path / f"log.{suffix}"
    result = fmpair("events", "export", url, "-o", target)
    assert result.code == 0 and "wrote 3 rows" in result.err
    assert "3 events, 2 users, 3 items" in repr(__import__("fmpair").read(target))
    assert fmpair("events", "export", url, "--after", 2).out.splitlines()[1].startswith("late,")


def test_a_store_that_is_not_there_is_named_and_not_made(fmpair, tmp_path):
    result = fmpair("events", "export", tmp_path / "typo.db")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"error: the event store {tmp_path / 'typo.db'} does not exist\n"
    assert not list(tmp_path.iterdir())


def test_an_update_learns_what_a_service_kept_and_does_so_once(fmpair, model, url, tmp_path):
    first, second = tmp_path / "first.fmpair", tmp_path / "second.fmpair"
    result = fmpair("update", model, "--events", url, "-o", first, "--epochs", 2)
    assert result.code == 0, result.err
    assert "read 3 events after position 0" in result.err
    assert "with 1 new users, 1 new items" in result.err
    own = load(model).update(
        pl.DataFrame({"user": ["user-001", "late", "late"],
                      "item": ["book-000", "brand-new", "book-001"],
                      "timestamp": [T // 10**6, T // 10**6, T // 10**6],
                      "daytime": ["evening", "evening", None]}), epochs=2,
    )  # fmt: skip
    np.testing.assert_allclose(load(first).item_vectors, own.item_vectors, atol=1e-6)
    again = fmpair("update", first, "--events", url, "-o", second)
    assert again.code == 1 and "no events after position 3: nothing new to learn" in again.err
    kept(url, Event("late", "book-002", T + 3))
    assert "read 1 events after position 3" in fmpair(
        "update", first, "--events", url, "-o", second, "--epochs", 1
    ).err  # fmt: skip
    assert "read 2 events after position 2" in fmpair(
        "update", first, "--events", url, "--after", 2, "-o", second, "--epochs", 1
    ).err  # fmt: skip
    store = open_store(url)
    assert store.learned(checksum_of(second)) == 4 and store.learned(checksum_of(first)) == 3
    store.close()


def test_an_update_takes_a_file_or_a_store_and_not_both(fmpair, model, url, files, tmp_path):
    target = ("-o", tmp_path / "next.fmpair")
    for arguments in ((), (files / "events.csv", "--events", url)):
        result = fmpair("update", model, *arguments, *target)
        assert result.code == 1 and "give either a file of events, or --events URL" in result.err
    result = fmpair("update", model, files / "events.csv", "--after", 3, *target)
    assert result.code == 1 and "--after is a position" in result.err
    result = fmpair("update", model, "--events", url, "--event-type", "kind", *target)
    assert "--event-type is for files, not for --events" in result.err


def test_two_models_are_compared(fmpair, tmp_path):
    lists = [
        Impression(user, ("x",), T, arm)
        for user, arm in zip(range(40), ["current", "candidate"] * 20)
    ]
    follow = [Event(user, "x", T + 1) for user in range(40) if user % 2 or user % 4]
    url = kept(tmp_path / "events.db", *follow, lists=lists)
    result = fmpair("events", "compare", url, "--within", "2h")
    assert result.code == 0, result.err
    rows = result.out.splitlines()
    assert (
        rows[0] == "measure,current,candidate,difference,low,high,p,current_users,candidate_users"
    )
    assert rows[2].startswith("users who follow,0.5,1.0,0.5,0.2")
    assert "significant (the interval excludes 0): " in result.err
    assert "must be a time such as" in fmpair("events", "compare", url, "--within", "x").err
    assert "invalid time" in fmpair("events", "compare", url, "--since", "soon").err


def test_where_nothing_differs_that_is_what_is_said(fmpair, tmp_path):
    lists = [Impression(u, ("x",), T, ("current", "candidate")[u % 2]) for u in range(8)]
    url = kept(tmp_path / "events.db", lists=lists)
    result = fmpair("events", "compare", url)
    assert result.code == 0 and "every interval contains 0" in result.err


def test_events_that_were_sent_three_times_are_learned_once(fmpair, model, tmp_path):
    events = [Event("user-001", f"book-00{n}", T + n, {"daytime": "evening"}) for n in range(3)]
    learned = []
    for times in (1, 3):
        url = f"sqlite:{tmp_path / f'{times}.db'}"
        for _ in range(times):
            kept(url, *events)
        target = tmp_path / f"{times}.fmpair"
        result = fmpair("update", model, "--events", url, "-o", target, "--epochs", 2)
        assert result.code == 0 and "read 3 events after position 0" in result.err
        learned.append(target.read_bytes())
    assert learned[0] == learned[1]


def test_an_update_leaves_out_the_refunds_that_a_service_kept(fmpair, model, tmp_path):
    url, target = f"sqlite:{tmp_path / 'events.db'}", tmp_path / "next.fmpair"
    refunds = [
        Event("user-001", "returned-1", T, event="Return"),
        Event("user-001", "returned-2", T, event="buy", value=-9.5),
    ]
    kept(url, *refunds)
    result = fmpair("update", model, "--events", url, "-o", target, "--epochs", 1)
    assert result.code == 1
    assert "all 2 events after position 0 are refunds: nothing new to learn" in result.err
    kept(url, Event("user-001", "bought", T, event="buy", value=9.5))
    result = fmpair("update", model, "--events", url, "-o", target, "--epochs", 1)
    assert "note: left out 2 of 3 events that are refunds\n" in result.err
    assert "learning from 1 events" in result.err
    assert set(load(target).item_ids) - set(load(model).item_ids) == {"bought"}
    store = open_store(url)
    assert store.learned(checksum_of(target)) == 3  # refunds are not read again
    store.close()
