"""A Parquet file is read where its rows can stand in it."""

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
