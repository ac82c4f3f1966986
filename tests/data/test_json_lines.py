"""JSON lines of any depth and width are read or refused at once."""

import gzip
import json

import pytest

from fmpair.data.formats.json_lines import MAX_DEPTH
from fmpair.data.read import read, read_frame
from fmpair.errors import DataError


@pytest.fixture
def file(tmp_path):
    def write(text, name="a.jsonl"):
        (tmp_path / name).write_text(text, "utf-8")
        return tmp_path / name

    return write


def nested(depth):
    return '{"user": 1, "item": 2, "tags": ' + "[" * depth + "]" * depth + "}\n"


def test_lists_in_each_other_are_refused_past_a_depth(file):
    assert read_frame(file(nested(MAX_DEPTH - 1))).columns == ["user", "item", "tags"]
    for depth in (MAX_DEPTH, 900, 100_000):
        with pytest.raises(DataError, match=r"a\.jsonl is nested more than 32 deep"):
            read_frame(file(nested(depth)))


def test_brackets_in_texts_are_not_depth(file):
    line = json.dumps({"user": 1, "item": 2, "said": '[[{"\\' * 100})
    assert len(read(file(f"{line}\n" * 3))) == 3
    assert len(read(file(f"[{line}, {line}]", "a.json"))) == 2


def test_a_key_of_its_own_in_every_line_is_refused(file):
    lines = "".join(f'{{"user": 1, "item": {n}, "k{n}" : 1}}\n' for n in range(20_000))
    with pytest.raises(DataError, match=r"has 20,002 columns, at most 5,000 are allowed"):
        read(file(lines))


def test_keys_that_most_lines_lack_are_refused_where_the_table_would_be_huge(file):
    lines = "".join(f'{{"k{n % 4000}\\"":1}}\n' for n in range(100_000))
    with pytest.raises(DataError, match=r"100,001 rows and 4,000 columns, more than 200 times"):
        read_frame(file(lines))


def test_broken_json_is_named(file):
    with pytest.raises(DataError, match=r"a\.jsonl is not JSON lines"):
        read(file('{"user": 1, "item"\n'))


def test_a_packed_file_under_the_name_of_a_plain_one_is_not_unpacked(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"user": 1, "item": 2}\n'))
    with pytest.raises(DataError, match=r"not JSON: it must start with \{ or \[, not b.{1,3}x1f"):
        read(path)


def test_a_byte_order_mark_is_not_in_the_way(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf\n{"user": 1, "item": 2}\n')
    assert read(path).frame().rows() == [(1, 2)]
