"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from fmpair.errors import DataError

# How compiled writers, such as polars', tell of what would be an OSError in Python.
SYSTEM_ERROR = re.compile(r"([^:]+) \(os error \d+\)")
PART = re.compile(r"\.(.+)\.[0-9a-f]{4,8}\.part", re.DOTALL)
LONGEST_STEM = 200  # bytes; file systems take names of 255, and that of a part is longer
MOST_LINKS = 40  # as many as the system itself follows
OTHER_KINDS = (
    (stat.S_ISDIR, "a folder; give the name of a file in it"),
    (stat.S_ISFIFO, "a pipe; give the name of a file"),
    (stat.S_ISSOCK, "a socket; give the name of a file"),
    (lambda mode: not stat.S_ISREG(mode), "a device; give the name of a file"),
)


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` when the block ends well.

    Whatever interrupts the block, an older file at `path` stays as it was. A symbolic link stays
    one: what it leads to is written. An older file's permissions are kept, and its owner where the
    system allows; what is no file, such as a device, is refused.
    """
    target, old = _target(path)
    remove_leftovers(target.parent, _stem(target))
    with _told(path), _part(target, old) as part:
        yield part
        _settle(part, old)
        os.replace(part, target)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write the bytes to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """A file beside `path` that lives as long as the block: for pieces of what will be written.

    One that a killed process leaves goes when `path` is written the next time.
    """
    with _told(path), _part(*_target(path)) as part:
        yield part


def check_writable(path: str | Path) -> None:
    """Raise at once what writing `path` would raise, where that can be told beforehand."""
    with _told(path), _part(*_target(path)):
        pass


def remove_leftovers(folder: Path, stem: str | None = None) -> None:
    """Remove the parts that killed processes left in a folder; stem: those of one target only.

    A part that is still being written is locked by its writer, and stays.
    """
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        for name in os.listdir(folder):
            found = PART.fullmatch(name)
            if found and stem in (None, found[1]):
                _remove_unlocked(folder / name)


def make_folder(path: str | Path) -> Path:
    """The folder, made with all above it where need be."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot make the folder {shown(path)}: {reason}") from error
    return Path(path)


def lock(file: int, wait: bool = False) -> bool:
    """Lock an open file for this process; False where another has it, or there are no locks.

    The system itself lifts the lock when the process ends in any way.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def shown(path: str | Path) -> str:
    """A path for a message: in quotes where it holds what would break the line."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _target(path: str | Path) -> tuple[Path, os.stat_result | None]:
    """(where to write, links followed; what is there now); refused where that is no file."""
    _check_name(path)
    with _told(path):
        target = _followed(Path(path))
        if not target.parent.is_dir():
            why = f"there is no folder {shown(target.parent)}; make it first"
            if target != Path(path):
                why = f"it leads to {shown(target)}, and {why}"
            raise DataError(f"cannot write {shown(path)}: {why}")
        try:
            old = target.lstat()
        except FileNotFoundError:
            return target, None
        it = "it" if target == Path(path) else f"it leads to {shown(target)}, which"
        for is_kind, what in OTHER_KINDS:
            if is_kind(old.st_mode):
                raise DataError(f"cannot write {shown(path)}: {it} is {what}")
        if not os.access(target, os.W_OK):
            raise DataError(f"cannot write {shown(path)}: {it} is protected against writing")
        return target, old


def _check_name(path: str | Path) -> None:
    """Refuse what no file can be called, wherever it would be."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise DataError(f"cannot write {shown(path)}: no file can have this name")


def _followed(target: Path) -> Path:
    """Where the symbolic links that begin at a path end, whether or not something is there."""
    for _ in range(MOST_LINKS):
        if not target.is_symlink():
            return target
        if os.path.realpath(target.parent).startswith("/proc/"):  # such as /dev/stdout
            raise OSError(errno.EINVAL, "it stands for an open stream; give the name of a file")
        target = target.parent / os.readlink(target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


@contextmanager
def _part(target: Path, old: os.stat_result | None) -> Iterator[Path]:
    """A new file beside the target, locked while it is written; gone afterwards if not renamed.

    Beside the target, because only a rename within one file system is atomic. It opens to nobody
    else what the older file did not.
    """
    mode = 0o666 if old is None else 0o600
    while True:
        part = target.with_name(f".{_stem(target)}.{secrets.token_hex(4)}.part")
        try:
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            why = f"no file can be made in {shown(target.parent)}: {error.strerror}"
            raise OSError(error.errno, why) from error
        locked = lock(file, wait=True)
        if not (locked and os.fstat(file).st_nlink == 0):
            break  # else another process removed it before it was locked
        os.close(file)
    if not locked:
        os.close(file)  # Windows renames no open file
    try:
        yield part
    finally:
        with suppress(OSError):
            os.unlink(part)
        if locked:
            os.close(file)


def _stem(target: Path) -> str:
    """What the names of a target's parts begin with: its own, or a digest of one too long."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= LONGEST_STEM else sha256(name).hexdigest()


def _remove_unlocked(part: Path) -> None:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(OSError):  # another may have been quicker, or it is not ours to remove
        file = os.open(part, flags)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode) and lock(file):
                os.unlink(part)
        finally:
            os.close(file)


def _settle(part: Path, old: os.stat_result | None) -> None:
    """Onto the disk before the rename, so that a power cut cannot leave an empty file.

    With the permissions of the file in whose place it goes, and its owner where that is allowed.
    """
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    if old is None:
        return
    new = part.stat()
    if hasattr(os, "chown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.chown(part, -1, old.st_gid)
        with suppress(OSError):
            os.chown(part, old.st_uid, -1)
    os.chmod(part, stat.S_IMODE(old.st_mode) & 0o777)


@contextmanager
def _told(path: str | Path) -> Iterator[None]:
    """What goes wrong while a path is written, as one line that names it."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {shown(path)}: {error.strerror or error}") from error
    except Exception as error:
        reason = SYSTEM_ERROR.search(str(error))
        if reason is None:
            raise
        raise DataError(f"cannot write {shown(path)}: {reason[1].strip()}") from error
