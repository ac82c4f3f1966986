"""Files are written whole or not at all."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from fmpair.errors import DataError
from fmpair.files import (
    atomic_path,
    check_writable,
    make_folder,
    remove_leftovers,
    write_atomically,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def refused(path, *words):
    """Writing to a path is refused in one line that says all of the words; gives the line."""
    for write in (check_writable, lambda path: write_atomically(path, b"new")):
        with pytest.raises(DataError) as caught:
            write(path)
        line = str(caught.value)
        assert line.startswith("cannot write ") and len(line.splitlines()) == 1
        for word in words:
            assert word in line, line


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
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / "a.bin", "there is no folder", "file; make it first")


def test_a_folder_is_not_a_target(tmp_path):
    refused(tmp_path, "it is a folder; give the name of a file in it")


def test_a_disk_that_a_compiled_writer_finds_full_is_said_in_one_line(tmp_path):
    full = "parquet: underlying IO error: No space left on device (os error 28)"
    with (
        pytest.raises(DataError, match=r"cannot write .*x: No space left on device$"),
        atomic_path(tmp_path / "x"),
    ):
        raise RuntimeError(full)
    assert not list(tmp_path.iterdir())


def test_a_device_is_refused_and_stays(device):
    refused(device, f"cannot write {device}: it is a device")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_what_is_no_file_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "it is a pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        refused(tmp_path / "socket", "it is a socket")
    (tmp_path / "link").symlink_to("pipe")
    refused(tmp_path / "link", "it leads to ", "pipe, which is a pipe")
    assert names(tmp_path) == ["link", "pipe", "socket"]


@pytest.mark.skipif(not os.path.islink("/proc/self/fd/1"), reason="streams have no names here")
def test_an_open_stream_is_refused():
    refused("/proc/self/fd/1", "an open stream")


def test_a_link_stays_a_link_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.bin").write_bytes(b"old")
    (tmp_path / "near").symlink_to("far/a.bin")
    (tmp_path / "first").symlink_to("near")
    write_atomically(tmp_path / "first", b"new")
    assert (tmp_path / "far" / "a.bin").read_bytes() == b"new"
    assert os.readlink(tmp_path / "first") == "near"
    assert os.readlink(tmp_path / "near") == "far/a.bin"
    assert names(tmp_path / "far") == ["a.bin"] and names(tmp_path) == ["far", "first", "near"]


def test_a_link_that_leads_to_nothing_makes_the_file_if_there_is_its_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "made")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "made").read_bytes() == b"new" and (tmp_path / "link").is_symlink()
    (tmp_path / "lost").symlink_to("gone/made")
    refused(tmp_path / "lost", "lost: it leads to ", "and there is no folder ", "make it first")


def test_links_in_a_circle_are_named(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    refused(tmp_path / "a", "a: Too many levels of symbolic links")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_an_older_file_keeps_its_permissions(tmp_path, mode):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    target.chmod(mode)
    with atomic_path(target) as part:
        assert part.stat().st_mode & 0o077 == 0  # nobody else sees what is only half there
        part.write_bytes(b"new")
    assert target.read_bytes() == b"new" and target.stat().st_mode & 0o777 == mode


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a.bin", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.bin").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_older_file_keeps_its_owner(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"old")
    os.chown(tmp_path / "a.bin", 12345, 54321)
    write_atomically(tmp_path / "a.bin", b"new")
    found = (tmp_path / "a.bin").stat()
    assert (found.st_uid, found.st_gid) == (12345, 54321)


def test_a_file_protected_against_writing_stays(tmp_path, monkeypatch):
    (tmp_path / "a.bin").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anything
    refused(tmp_path / "a.bin", "it is read-only")
    assert (tmp_path / "a.bin").read_bytes() == b"old"


def test_a_folder_that_takes_no_file_is_named(tmp_path, monkeypatch):
    def read_only(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    refused(tmp_path / "a.bin", "a.bin: cannot create a file in ", ": Read-only file system")


def test_names_that_no_file_can_have_are_named(tmp_path):
    refused(tmp_path / ("x" * 300), "File name too long")
    refused(tmp_path / "a\0b", r"a\x00b': invalid file name")
    refused(tmp_path / "a\udc80\ud800", "invalid file name")
    refused(tmp_path / "a\nb" / "c", r"a\nb/c': there is no folder ")


def test_the_longest_name_a_file_can_have_is_written(tmp_path):
    write_atomically(tmp_path / ("x" * 255), b"new")
    assert names(tmp_path) == ["x" * 255]


KILLED = """
import os, signal, sys
from fmpair.files import atomic_path
with atomic_path(sys.argv[1]) as part:
    part.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_save(target):
    done = subprocess.run([sys.executable, "-c", KILLED, str(target)])
    assert done.returncode == -9
    return [path for path in target.parent.iterdir() if path.suffix == ".part"]


def test_what_a_killed_save_left_goes_with_the_next_save_to_the_same_file(tmp_path):
    target, other = tmp_path / "a.bin", tmp_path / "a.bin.b"
    [left] = killed_save(target)
    write_atomically(other, b"other")
    assert left.exists()  # it belongs to another file
    write_atomically(target, b"new")
    assert names(tmp_path) == ["a.bin", "a.bin.b"]
    assert target.read_bytes() == b"new"


def test_what_is_still_being_written_is_not_removed_by_another_save(tmp_path):
    target = tmp_path / "a.bin"
    with atomic_path(target) as slow:
        slow.write_bytes(b"slow")
        write_atomically(target, b"quick")
        remove_leftovers(tmp_path)
        subprocess.run([sys.executable, "-c", "import sys; from fmpair.files import "
                        "write_atomically as w; w(sys.argv[1], b'else')", str(target)],
                       check=True)  # fmt: skip
        assert slow.read_bytes() == b"slow" and target.read_bytes() == b"else"
    assert target.read_bytes() == b"slow" and names(tmp_path) == ["a.bin"]


def test_a_part_removed_between_its_making_and_its_lock_is_made_again(tmp_path, monkeypatch):
    plain, opened = os.open, []

    def swept(path, *rest, **named):
        file = plain(path, *rest, **named)
        opened.append(path)
        if len(opened) == 1:
            os.unlink(path)
        return file

    monkeypatch.setattr(os, "open", swept)
    with atomic_path(tmp_path / "a.bin") as part:
        part.write_bytes(b"new")
    assert len(set(opened)) == 2 and names(tmp_path) == ["a.bin"]


def test_leftovers_are_files_of_such_names_only(tmp_path):
    (tmp_path / ".a.1234abcd.part").mkdir()
    (tmp_path / ".b.1234abcd.part").symlink_to("b")
    (tmp_path / "b").write_text("kept")
    os.mkfifo(tmp_path / ".c.1234abcd.part")
    (tmp_path / ".d.part").write_text("someone else's")
    (tmp_path / ".e.1234abcd.part").write_text("left")
    remove_leftovers(tmp_path)
    assert names(tmp_path) == [".a.1234abcd.part", ".b.1234abcd.part", ".c.1234abcd.part",
                               ".d.part", "b"]  # fmt: skip


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    assert make_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "b", tmp_path / "a\0"):
        with pytest.raises(DataError, match="cannot make the folder") as caught:
            make_folder(wrong)
        assert len(str(caught.value).splitlines()) == 1
