"""Folders of CiteULike: a line per user and article, counted from 0."""

import pytest

from fmpair import read
from fmpair.errors import DataError

FILES = {
    "users.dat": "2 0 2\n0\n1 1\n",
    "item-tag.dat": "2 1 0\n0\n1 1\n",
    "tags.dat": "maps\nfish\n",
}


def saved(folder, **changed):
    for name, text in FILES.items():
        (folder / name).write_text(changed.get(name.partition(".")[0].replace("-", "_"), text))
    return folder


def test_articles_of_users_and_tags_of_articles_are_read(tmp_path):
    data = read(saved(tmp_path))  # recognised by its files
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
        read(saved(tmp_path, **changed))
