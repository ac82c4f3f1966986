"""Files of research data sets: sequences of items by user, and CiteULike."""

import pytest

from fmpair import read
from fmpair.data.splits import by_time, leave_last_out
from fmpair.errors import DataError


def saved(folder, text):
    path = folder / "sequences.txt"
    path.write_text(text)
    return path


def test_the_items_of_a_line_are_in_order_of_time(tmp_path):
    data = read(saved(tmp_path, "ann 5 6 7\nbob 6\ncem 7 5\n"), "sequences")
    assert data.frame().select("user", "item").rows() == [
        ("ann", 5), ("ann", 6), ("ann", 7), ("bob", 6), ("cem", 7), ("cem", 5),
    ]  # fmt: skip
    assert data.order == "per-user"
    train, _, test = leave_last_out(data).parts(data)
    assert test.frame().select("user", "item").rows() == [("ann", 7), ("cem", 5)]
    assert len(train) == 4


def test_of_a_user_with_several_lines_the_later_ones_are_later(tmp_path):
    data = read(saved(tmp_path, "1 5\n2 6\n1 7\n2 5\n1 6\n"), "sequences")
    *_, test = leave_last_out(data).parts(data)
    assert test.frame().select("user", "item").rows() == [(2, 5), (1, 6)]


def test_the_events_of_different_users_have_no_order(tmp_path):
    data = read(saved(tmp_path, "ann 5 6 7\nbob 6 5\n"), "sequences")
    with pytest.raises(DataError, match="only the order of each user's events"):
        by_time(data)


def test_a_file_without_a_sequence_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no line of the form 'user item item ...'"):
        read(saved(tmp_path, "ann\nbob\n"), "sequences")


FILES = {
    "users.dat": "2 0 2\n0\n1 1\n",
    "item-tag.dat": "2 1 0\n0\n1 1\n",
    "tags.dat": "maps\nfish\n",
}


def citeulike(folder, **changed):
    for name, text in FILES.items():
        (folder / name).write_text(changed.get(name.partition(".")[0].replace("-", "_"), text))
    return folder


def test_articles_of_users_and_tags_of_articles_are_read(tmp_path):
    data = read(citeulike(tmp_path))  # recognised by its files
    assert data.frame().rows() == [(0, 0), (0, 2), (2, 1)]
    tags = dict(zip(data.items.ids, data.item_table["tags"].to_list()))
    assert tags == {0: ["fish", "maps"], 1: None, 2: ["fish"]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"users": "2 0 2\n3 1\n"}, "users.dat, line 2: must be a count and as many numbers"),
        ({"users": "1 x\n"}, "users.dat, line 1"),
        ({"item_tag": "1 7\n0\n0\n"}, "item-tag.dat has tag 7, but tags.dat has 2 lines"),
    ],
)
def test_a_broken_line_is_named(tmp_path, changed, message):
    with pytest.raises(DataError, match=message):
        read(citeulike(tmp_path, **changed))
