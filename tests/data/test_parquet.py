"""A Parquet file is read where its rows can stand in it."""

import subprocess
import sys

import polars as pl
import pytest

from fmpair.data.formats.parquet import parquet_columns, read_parquet
from fmpair.errors import DataError


def test_a_value_that_repeats_a_hundred_million_times_is_refused(tmp_path):
    path = tmp_path / "a.parquet"
    value = pl.repeat(1, 20_000_000, dtype=pl.Int8, eager=True)
    pl.DataFrame({"user": value, "item": value}).write_parquet(path)
    assert path.stat().st_size < 500_000
    with pytest.raises(DataError, match=r"20,000,000 rows and 2 columns, more than 200 times"):
        read_parquet(path)


def test_rows_that_differ_are_read(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"user": range(100_000), "item": [n * n % 997 for n in range(100_000)]})
    frame.write_parquet(path)
    assert read_parquet(path).equals(frame)
    assert parquet_columns(path).columns == ["user", "item"]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"user,item\na,b\n", b"PAR1" * 100])
def test_what_is_no_parquet_file_is_refused(tmp_path, content):
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a Parquet file"):
        read_parquet(path)


def test_a_file_that_crashes_the_decoder_costs_one_line(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"user": ["ann", "bob", "cem"], "item": [1, 2, 3]})
    frame.write_parquet(path, compression="uncompressed")
    content = path.read_bytes()
    three, minus_one = b",\x15\x06", b",\x15\x01"  # the number of values of a data page
    assert three in content
    path.write_bytes(content.replace(three, minus_one))
    # in a process of its own, which the file would end
    code = f"from fmpair import read\ntry: read({str(path)!r})\nexcept Exception as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert (
        done.stdout == f"{path} is damaged: decoding it crashes (SIGABRT); write the file again\n"
    )


def test_a_file_on_standard_input_is_decoded_in_a_child_too(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"user": ["ann", "bob"], "item": [1, 2]}).write_parquet(path)
    code = "from fmpair import read; print(len(read('-', format='parquet')))"
    with path.open("rb") as file:
        done = subprocess.run([sys.executable, "-c", code], stdin=file, capture_output=True)
    assert done.stdout == b"2\n", done.stderr


def test_a_file_is_decoded_in_a_child_once_and_again_after_it_was_written(tmp_path, monkeypatch):
    children, run = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: children.append(a) or run(*a, **k))
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"user": ["ann", "bob"], "item": [1, 2]})
    frame.write_parquet(path)
    for read, expected in ((parquet_columns, 1), (read_parquet, 2), (parquet_columns, 2)):
        assert read(path).equals(frame) and len(children) == expected
    frame.reverse().write_parquet(path)
    assert read_parquet(path).equals(frame.reverse()) and len(children) == 3
