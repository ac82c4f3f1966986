"""Files are written whole or not at all."""

import pytest

from fmpair.errors import DataError
from fmpair.files import atomic_path, write_atomically


def test_the_bytes_arrive_and_nothing_else_is_left(tmp_path):
    write_atomically(tmp_path / "a.bin", b"new")
    assert (tmp_path / "a.bin").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


@pytest.mark.parametrize("accident", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_keeps_the_old_file(tmp_path, accident):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    with pytest.raises(accident), atomic_path(target) as temporary:
        temporary.write_bytes(b"ha")
        raise accident
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_full_disk_is_named_and_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    said = r"cannot write .*a\.bin: No space left"
    with pytest.raises(DataError, match=said), atomic_path(target):
        raise OSError(28, "No space left on device")
    assert target.read_bytes() == b"old"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(DataError, match=r"cannot write .* there is no folder .*nowhere"):
        write_atomically(tmp_path / "nowhere" / "a.bin", b"")


def test_a_folder_is_not_a_target(tmp_path):
    with pytest.raises(DataError, match="it is a folder"):
        write_atomically(tmp_path, b"")


def test_a_disk_that_a_compiled_writer_finds_full_is_said_in_one_line(tmp_path):
    full = "parquet: underlying IO error: No space left on device (os error 28)"
    with (
        pytest.raises(DataError, match=r"cannot write .*x: No space left on device$"),
        atomic_path(tmp_path / "x"),
    ):
        raise RuntimeError(full)
    assert not list(tmp_path.iterdir())
