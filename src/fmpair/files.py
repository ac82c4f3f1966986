"""Files that are written completely or not at all."""

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

# Compiled writers, such as that of polars, raise other errors than OSError.
SYSTEM_ERROR = re.compile(r"([^:]+) \(os error \d+\)")
PART = re.compile(r"\.(.+)\.[0-9a-f]{4,8}\.part", re.DOTALL)
LONGEST_STEM = 200  # bytes; file systems allow names of 255, and parts have longer ones
MAX_LINKS = 40  # as many as Linux follows
OTHER_KINDS = (
    (stat.S_ISDIR, "a folder; give the name of a file in it"),
    (stat.S_ISFIFO, "a pipe; give the name of a file"),
    (stat.S_ISSOCK, "a socket; give the name of a file"),
    (lambda mode: not stat.S_ISREG(mode), "a device; give the name of a file"),
)


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a path beside `path` to write to, which replaces `path` when the block succeeds.

    If the block is interrupted, an older file at `path` stays unchanged. The target of a symbolic
    link is replaced, not the link. Permissions of an older file are kept, and its owner if
    possible; anything but a regular file is refused.
    """
    target, old = _target(path)
    remove_leftovers(target.parent, _stem(target))
    with _named_errors(path), _part(target, old) as part:
        yield part
        _settle(part, old)
        os.replace(part, target)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write the bytes to `path`, completely or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def beside(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; a leftover is removed when `path` is next written."""
    with _named_errors(path), _part(*_target(path)) as part:
        yield part


def check_writable(path: str | Path) -> None:
    """Raise now what writing `path` would raise, as far as it can be known."""
    with _named_errors(path), _part(*_target(path)):
        pass


def remove_leftovers(folder: Path, stem: str | None = None) -> None:
    """Remove the parts that killed processes left in a folder; stem: of one target only.

    Parts still being written are locked by their writer, and stay.
    """
    with suppress(OSError):  # an unlistable folder may still be writable
        for name in os.listdir(folder):
            match = PART.fullmatch(name)
            if match and stem in (None, match[1]):
                _remove_unlocked(folder / name)


def make_folder(path: str | Path) -> Path:
    """Create a folder and its parents if needed, and return it."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot make the folder {shown(path)}: {reason}") from error
    return Path(path)


def lock(file: int, wait: bool = False) -> bool:
    """Lock an open file for this process; return False if that is impossible."""
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
    """Return a path for a message, quoted if it has unprintable characters."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _target(path: str | Path) -> tuple[Path, os.stat_result | None]:
    """Return (the file to write with links followed, its status or None); raise if not a file."""
    _check_name(path)
    with _named_errors(path):
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
            raise DataError(f"cannot write {shown(path)}: {it} is read-only")
        return target, old


def _check_name(path: str | Path) -> None:
    """Raise if no file can have this name."""
    valid = False
    with suppress(UnicodeEncodeError):
        valid = b"\0" not in os.fsencode(path)
    if not valid:
        raise DataError(f"cannot write {shown(path)}: invalid file name")


def _followed(target: Path) -> Path:
    """Return the end of the symbolic links that begin at a path."""
    for _ in range(MAX_LINKS):
        if not target.is_symlink():
            return target
        if os.path.realpath(target.parent).startswith("/proc/"):  # such as /dev/stdout
            raise OSError(errno.EINVAL, "it is an open stream; give the name of a file")
        target = target.parent / os.readlink(target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


@contextmanager
def _part(target: Path, old: os.stat_result | None) -> Iterator[Path]:
    """Yield a new file beside the target, locked while it is written; removed if not renamed.

    Beside the target, because only a rename within one file system is atomic. Its permissions are
    no wider than those of the older file.
    """
    mode = 0o666 if old is None else 0o600
    while True:
        part = target.with_name(f".{_stem(target)}.{secrets.token_hex(4)}.part")
        try:
            file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            why = f"cannot create a file in {shown(target.parent)}: {error.strerror}"
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
    """Return the first part of the names of a target's parts: its name, or a digest if long."""
    name = os.fsencode(target.name)
    return target.name if len(name) <= LONGEST_STEM else sha256(name).hexdigest()


def _remove_unlocked(part: Path) -> None:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with suppress(OSError):  # removed by another process, or not ours
        file = os.open(part, flags)
        try:
            if stat.S_ISREG(os.fstat(file).st_mode) and lock(file):
                os.unlink(part)
        finally:
            os.close(file)


def _settle(part: Path, old: os.stat_result | None) -> None:
    """Flush a part to disk before the rename, so that a power cut cannot leave an empty file.

    It gets the permissions of the older file, and its owner if allowed.
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
def _named_errors(path: str | Path) -> Iterator[None]:
    """Turn errors while a path is written into a DataError that names it."""
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot write {shown(path)}: {error.strerror or error}") from error
    except Exception as error:
        reason = SYSTEM_ERROR.search(str(error))
        if reason is None:
            raise
        raise DataError(f"cannot write {shown(path)}: {reason[1].strip()}") from error
