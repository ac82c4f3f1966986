"""What is remembered of users whom no model knows."""

import tracemalloc

from fmpair.serve import unknown_users
from fmpair.serve.unknown_users import MAX_HISTORY, UnknownUsers


def test_items_are_given_in_order_of_time_and_once():
    users = UnknownUsers()
    for item, time in (("b", 2), ("c", 3), ("a", 1), ("c", 3), (7, 3)):
        users.add("zoe", item, time)
    assert users.history("zoe") == ["a", "b", "c", 7]
    assert users.history("ann") is None
    users.add(7, "a", 1)
    assert users.history("7") == ["a"]


def test_a_user_keeps_the_latest_items():
    users = UnknownUsers()
    for number in range(200):
        users.add("zoe", number, number)
    assert users.history("zoe") == list(range(200 - MAX_HISTORY, 200))


def test_memory_is_bounded_whatever_is_sent(monkeypatch):
    users = UnknownUsers()
    tracemalloc.start()
    for number in range(60_000):
        users.add(f"{number:01000}", number % 100, number)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 20 << 20 and users.history(f"{0:01000}") is None
    assert users.history(f"{59_999:01000}") == [99]
    monkeypatch.setattr(unknown_users, "MAX_ITEMS", 1_000)
    for number in range(5_000):
        users.add("zoe", f"item-{number}", number)
    assert len(users._items) <= 1_000 and users.history("zoe")[-1] == "item-4999"
