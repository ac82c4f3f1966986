"""Files are unpacked within limits, and laid out as tables only where these can be right."""

import gzip
import struct
import zipfile
import zlib

import polars as pl
import pytest

from fmpair.data.formats import source
from fmpair.data.formats.source import check_table, parse_errors, read_bytes
from fmpair.data.read import read, read_frame
from fmpair.errors import ConfigError, DataError, OptionError

MEGABYTE = 1 << 20


@pytest.fixture
def strict(monkeypatch):
    """As if nothing larger than a megabyte went without a look at how often it grew."""
    monkeypatch.setattr(source, "FREE_GROWTH", MEGABYTE)


def test_a_gzip_bomb_is_refused(tmp_path, strict):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + b"a,b\n" * MEGABYTE))
    with pytest.raises(DataError, match=r"unpacks to more than 1 MB, 200 times .* plain file$"):
        read(path)


def test_a_zip_bomb_is_refused_whatever_its_directory_says(tmp_path, strict):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a.csv", b"user,item\n" + b"a,b\n" * MEGABYTE)
    with pytest.raises(DataError, match="unpacks to more than 1 MB"):
        read(path)


def test_data_that_pack_well_are_read(tmp_path, strict):
    rows = "".join(f"{n % 1000},{n}\n" for n in range(150_000)).encode()
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"user,item\n" + rows))
    assert len(rows) > MEGABYTE and len(read(path)) == 150_000


def test_the_limit_is_far_above_what_tables_of_data_reach():
    assert source.most_bytes(10) == source.FREE_GROWTH >= 64 * MEGABYTE
    assert source.most_bytes(1 << 30) == 200 << 30


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda packed: packed[:30], "Compressed file ended"),
        (lambda packed: b"no" + packed, "Not a gzipped file"),
        (lambda packed: packed[:-8] + b"12345678", "CRC check failed"),
    ],
)
def test_a_damaged_gzip_file_says_what_is_wrong(tmp_path, damage, said):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(damage(gzip.compress(b"user,item\n" + b"a,b\n" * 99)))
    with pytest.raises(DataError, match=rf"cannot read .*a\.csv\.gz: {said}"):
        read_bytes(path)


def test_a_damaged_zip_file_says_what_is_wrong(tmp_path):
    path = tmp_path / "a.zip"
    for content in (b"PK no", b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cannot read .*: File is not a zip file"):
            read_bytes(path)


def test_an_encrypted_member_is_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", b"user,item\na,b\n")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*a\.zip: .*password"):
        read(path)


def test_a_table_of_too_many_columns_is_refused_before_it_is_built(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{n}" for n in range(20_000)) + "\n1\n")
    with pytest.raises(DataError, match=r"20,000 columns, at most 5,000 are allowed"):
        read_frame(path)


def test_short_lines_under_a_long_header_are_no_table(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",".join(f"c{n}" for n in range(4000)) + "\n" + "1\n" * 100_000)
    with pytest.raises(DataError, match=r"table of 100,002 rows and 4,000 columns, more than 200"):
        read_frame(path)


def test_a_wide_table_with_all_its_cells_is_read(tmp_path):
    path = tmp_path / "a.csv"
    line = ",".join("1" for _ in range(3000))
    path.write_text(",".join(f"c{n}" for n in range(3000)) + f"\n{line}\n{line}\n")
    assert read_frame(path).shape == (2, 3000)
    check_table("big.csv", 10**9, 20, 40 * 10**9)


FOREIGN = [
    (ValueError("no number\nat all"), "no number"),
    (KeyError("user"), "KeyError: 'user'"),
    (IndexError("list index out of range"), "IndexError: list index out of range"),
    (EOFError(), "EOFError"),
    (zlib.error("Error -3 while decompressing"), "Error -3 while decompressing"),
    (struct.error("unpack requires 4 bytes"), "unpack requires 4 bytes"),
    (pl.exceptions.ComputeError("found more fields"), "found more fields"),
    (pl.exceptions.PanicException("index out of bounds"), "PanicException: index out of bounds"),
    (OverflowError("int too large"), "int too large"),
    (PermissionError(13, "Permission denied"), "Permission denied"),
    (RecursionError("maximum recursion depth"), "it is nested too deep"),
    (MemoryError(), "it does not fit into memory"),
    (UserWarning("odd text"), "odd text"),
]


@pytest.mark.parametrize(("error", "said"), FOREIGN, ids=lambda one: type(one).__name__)
def test_an_error_of_a_library_becomes_a_line_that_names_the_file(error, said):
    with pytest.raises(DataError) as caught, parse_errors("a.csv as libfm"):
        raise error
    assert str(caught.value) == f"cannot read a.csv as libfm: {said}"
    assert caught.value.__cause__ is error


def test_what_a_reader_says_itself_stays():
    with pytest.raises(OptionError, match=r"^say this$"), parse_errors("a.csv"):
        raise OptionError("say this")


def test_an_interrupt_is_no_mistake_of_the_file():
    with pytest.raises(KeyboardInterrupt), parse_errors("a.csv"):
        raise KeyboardInterrupt


def test_the_caller_chooses_the_kind_of_error():
    with (
        pytest.raises(ConfigError, match=r"cannot read a\.yaml: broken in two"),
        parse_errors("a.yaml", lambda line: ConfigError([line])),
    ):
        raise ValueError("broken in two")
