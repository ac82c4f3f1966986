"""The folders of compiled code: which are used, in which order, and which never."""

import os
import pwd
import tempfile

import pytest

from fmpair import kernel_cache
from fmpair.kernel_cache import Folder


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Folders that nothing else uses: home, temporary, and beside (the package)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(kernel_cache, "BESIDE", tmp_path / "beside")
    monkeypatch.delenv("FMPAIR_CACHE", raising=False)
    monkeypatch.setattr(kernel_cache, "_used", {})
    monkeypatch.setattr(kernel_cache, "_lost", [])
    return tmp_path


def names(folder):
    return sorted(path.stem for path in folder.rglob("*.kernel"))


def put(folder, name="a", content=b"1"):
    """Compiled code in a folder and nowhere else."""
    os.environ["FMPAIR_CACHE"] = str(folder)
    kernel_cache.keep(name, content)
    del os.environ["FMPAIR_CACHE"]


def test_what_is_kept_is_found(place):
    kernel_cache.keep("a", b"1")
    assert kernel_cache.find("a") == b"1" and kernel_cache.find("b") is None
    assert names(place / "home" / "fmpair" / "kernels" / kernel_cache.stamp()) == ["a"]
    assert names(place / "temporary") == []


def test_a_named_folder_goes_before_the_user_s(place, monkeypatch):
    kernel_cache.keep("a", b"1")
    monkeypatch.setenv("FMPAIR_CACHE", str(place / "named"))
    assert kernel_cache.find("a") == b"1"  # all are read
    kernel_cache.keep("a", b"2")
    assert kernel_cache.find("a") == b"2" and names(place / "named") == ["a"]


def test_where_the_named_folder_cannot_be_written_the_user_s_takes_its_place(place, monkeypatch):
    (place / "named").write_text("no folder")
    monkeypatch.setenv("FMPAIR_CACHE", str(place / "named"))
    kernel_cache.keep("a", b"1")
    assert names(place / "home") == ["a"] and not kernel_cache.lost()


def test_beside_the_package_code_is_found_and_never_put_by_itself(place):
    put(place / "beside")
    assert kernel_cache.find("a") == b"1"
    kernel_cache.keep("b", b"2")
    assert names(place / "beside") == ["a"] and names(place / "home") == ["b"]


def test_a_damaged_file_is_not_found_and_the_next_folder_is_asked(place, monkeypatch):
    kernel_cache.keep("a", b"1")
    put(place / "beside")
    [path] = (place / "beside").rglob("*.kernel")
    whole = path.read_bytes()
    for damage in (b"", whole[:-1], whole[:10], whole[:-1] + b"2"):
        path.write_bytes(damage)
        assert kernel_cache.find("a") == b"1"
        assert kernel_cache._used["a"].is_relative_to(place / "home")


def test_a_user_whom_the_system_does_not_know_has_a_temporary_folder(place, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    kernel_cache.keep("a", b"1")
    assert names(place / "temporary") == ["a"]


def test_a_relative_path_is_no_home(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    kernel_cache.keep("a", b"1")
    assert names(place / "temporary") == ["a"]


def test_without_any_folder_that_is_said_once(place, monkeypatch, caplog):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(tempfile, "tempdir", str(place / "none"))
    (place / "none").write_text("no folder")
    kernel_cache.keep("a", b"1")
    kernel_cache.keep("b", b"2")
    [record] = caplog.records
    assert "every process compiles again" in record.getMessage() and kernel_cache.lost()


@pytest.mark.parametrize("private", ["home/fmpair", "temporary/fmpair-{uid}"])
@pytest.mark.parametrize("how", ["another user's", "open to all", "another user's link"])
def test_a_folder_that_others_may_have_filled_is_neither_read_nor_written(place, private, how):
    folder = place / private.format(uid=os.geteuid())
    folder.parent.mkdir(exist_ok=True)
    put(folder)
    assert kernel_cache.find("a") == b"1"  # so this can fail
    if how == "open to all":
        folder.chmod(0o777)
    elif os.geteuid():
        pytest.skip("only root can give files away")
    elif how == "another user's":
        os.chown(folder, 65534, -1)
    else:
        folder.rename(place / "target")
        folder.symlink_to(place / "target")
        os.chown(folder, 65534, -1, follow_symlinks=False)
    assert kernel_cache.find("a") is None and kernel_cache.count(Folder(folder, True)) == 0
    kernel_cache.keep("b", b"2")
    assert names(place / "target" if "link" in how else folder) == ["a"]


def test_a_temporary_folder_that_others_could_rename_is_not_used(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    (place / "temporary").chmod(0o777)
    kernel_cache.keep("a", b"1")
    assert names(place / "temporary") == []
    (place / "temporary").chmod(0o1777)  # as /tmp is: only owners rename
    kernel_cache.keep("a", b"1")
    assert names(place / "temporary") == ["a"]


def test_what_is_compiled_from_sources_edited_meanwhile_is_not_kept(place, monkeypatch):
    monkeypatch.setattr(kernel_cache, "_fingerprint", lambda: "edited")
    kernel_cache.keep("a", b"1")
    assert names(place) == [] and not kernel_cache.lost()


def test_without_sources_nothing_is_kept(place, monkeypatch, caplog):
    monkeypatch.setattr(kernel_cache, "PACKAGE", place)
    assert kernel_cache._fingerprint() == ""
    monkeypatch.setattr(kernel_cache, "stamp", kernel_cache._fingerprint)
    kernel_cache.keep("a", b"1")
    assert kernel_cache.find("a") is None and "sources cannot be read" in caplog.text


@pytest.mark.parametrize("library", kernel_cache.LIBRARIES)
def test_another_version_of_a_library_has_another_stamp(monkeypatch, library):
    known = kernel_cache.version
    assert kernel_cache._fingerprint() == kernel_cache.stamp()
    monkeypatch.setattr(
        kernel_cache, "version", lambda name: "99" if name == library else known(name)
    )
    assert kernel_cache._fingerprint() != kernel_cache.stamp()


def test_a_folder_is_filled_with_all_that_was_used(place):
    kernel_cache.keep("a", b"1")
    with kernel_cache.filled(place / "full"):
        assert kernel_cache.find("a") == b"1"
        kernel_cache.keep("b", b"2")
    assert names(place / "full") == ["a", "b"]
    assert names(place / "home") == ["a", "b"]  # so that the next is filled without compiling


def test_a_folder_is_filled_where_nothing_else_can_be_written(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    (place / "temporary").chmod(0o777)
    with kernel_cache.filled(place / "full"):
        kernel_cache.keep("a", b"1")
    assert names(place / "full") == ["a"] and "FMPAIR_CACHE" not in os.environ
    assert not kernel_cache.lost()


def test_of_other_versions_the_last_used_stay(place):
    kernel_cache.keep("a", b"1")
    own = place / "home" / "fmpair" / "kernels"
    for day in range(5):
        (own / f"old{day}").mkdir()
        os.utime(own / f"old{day}", (day, day))
    assert kernel_cache.discard(own.parent, 2) == 3
    assert {path.name for path in own.iterdir()} == {kernel_cache.stamp(), "old3", "old4"}


def test_a_user_s_folder_does_not_grow_without_end(place, monkeypatch):
    monkeypatch.setattr(kernel_cache, "STAMPS", 3)
    for number in range(6):
        monkeypatch.setattr(kernel_cache, "stamp", lambda number=number: f"s{number}")
        monkeypatch.setattr(kernel_cache, "_fingerprint", kernel_cache.stamp)
        kernel_cache.keep("a", b"1")
    assert len(list((place / "home" / "fmpair" / "kernels").iterdir())) == 4
