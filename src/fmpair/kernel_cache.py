"""Compiled code on disk: the stamp of its sources, its folders, and a clock without compiling.

A folder holds kernels/STAMP/NAME.kernel. Compiled code is executed, so folders that were not chosen
by the user are used only if no other user can write to them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

from fmpair.errors import DataError
from fmpair.files import write_atomically

LOG = logging.getLogger("fmpair")
VARIABLE = "FMPAIR_CACHE"
PACKAGE = Path(__file__).parent
BESIDE = PACKAGE / "__pycache__"  # ignored by checkouts and wheels
KERNELS, SUFFIX = "kernels", ".kernel"
FOLDERS = ("engine", "ranking", "solvers")  # beside the package's own modules
LIBRARIES = ("numba", "llvmlite", "numpy")
STAMPS = 20  # other sources and versions kept in the folder of a user
DIGEST = hashlib.sha256().digest_size

_used: dict[str, Path] = {}  # used by this process: name -> file
_lost: list[str] = []  # compiled by this process and not stored


class Folder(NamedTuple):
    """A folder of code. private: not chosen by the user, so checked; grows: receives new code."""

    path: Path
    private: bool
    grows: bool = True

    @property
    def entries(self) -> Path:
        return self.path / KERNELS / stamp()


def sources() -> list[Path]:
    """Return every file that a kernel is in, or takes functions and constants from."""
    below = (path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py"))
    return sorted([*PACKAGE.glob("*.py"), *below])


@cache
def stamp() -> str:
    """Return a name for all sources and library versions; "" where sources cannot be read.

    As this process first found them: code compiled later is of those sources or is not stored.
    """
    return _fingerprint()


def _fingerprint() -> str:
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = hashlib.sha256(" ".join([python, *map(_version, LIBRARIES)]).encode())
    paths = sources()
    try:
        for path in paths:
            content = path.read_bytes()
            digest.update(f"\n{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    except OSError:
        return ""
    return digest.hexdigest()[:16] if paths else ""


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"


def folders() -> list[Folder]:
    """Return the folders in the order of search; only `fmpair compile` writes to BESIDE."""
    named = os.environ.get(VARIABLE)
    public = [Folder(Path(named), private=False)] if named else []
    public.append(Folder(BESIDE, private=False, grows=False))
    return public + [Folder(path, private=True) for path in (_of_user(), _temporary()) if path]


def _of_user() -> Path | None:
    """Return the user's cache folder, or None without a home."""
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # a user without an account, as in containers
        base = base.expanduser()
    return base / "fmpair" if base.is_absolute() else None


def _temporary() -> Path | None:
    try:
        base = Path(tempfile.gettempdir())
    except OSError:
        return None
    return base / (f"fmpair-{os.geteuid()}" if hasattr(os, "geteuid") else "fmpair")


def find(name: str) -> bytes | None:
    """Return the content stored under a name, or None if missing or damaged."""
    for folder in folders() if stamp() else ():
        path = folder.entries / (name + SUFFIX)
        with suppress(OSError):
            if folder.private and not _ours(folder.path):
                continue
            content = path.read_bytes()
            if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
                _used[name] = path
                with suppress(OSError):
                    os.utime(folder.entries)  # in use: not to be discarded
                return content[DIGEST:]
    return None


def keep(name: str, content: bytes) -> None:
    """Store content in the first writable folder; warn once if there is none."""
    if not stamp():
        return lose(name, "the package's sources cannot be read")
    if _fingerprint() != stamp():
        return None  # sources were edited: it is unknown which were compiled
    reason = "there is no folder for it"
    whole = hashlib.sha256(content).digest() + content
    for folder in (folder for folder in folders() if folder.grows):
        try:
            _make(folder)
            write_atomically(folder.entries / (name + SUFFIX), whole)
        except (OSError, DataError) as error:
            reason = str(error)
        else:
            _used[name] = folder.entries / (name + SUFFIX)
            return None
    return lose(name, reason)


def lose(name: str, reason: str) -> None:
    """Note that compiled code could not be stored, and warn the first time."""
    if not _lost:
        LOG.warning(
            "compiled code cannot be cached, so every process compiles again: %s. Set %s to a "
            "writable folder",
            reason,
            VARIABLE,
        )
    _lost.append(name)


def lost() -> bool:
    """Return whether this process compiled code that it could not store."""
    return bool(_lost)


def _make(folder: Folder) -> None:
    """Create the folder; OSError if that fails or it belongs to another user."""
    if folder.entries.is_dir() and not folder.private:
        return
    if folder.private:
        folder.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.path.mkdir(0o700)
        if not _ours(folder.path):
            raise PermissionError(f"{folder.path} belongs to another user or is open to all")
    if not folder.entries.is_dir():
        folder.entries.mkdir(parents=True, exist_ok=True)
        if folder.private:
            discard(folder.path, STAMPS)


def _ours(path: Path) -> bool:
    """Return whether only this user can have written to a folder; OSError if it is missing."""
    if not hasattr(os, "geteuid"):  # Windows: folders of users are separate
        return True
    link, target, parent = path.lstat(), path.stat(), path.parent.stat()
    own = link.st_uid == target.st_uid == os.geteuid() and stat.S_ISDIR(target.st_mode)
    replaceable = parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX
    return own and not target.st_mode & stat.S_IWOTH and not replaceable


def discard(folder: Path, most: int = 0) -> int:
    """Remove code of other sources or versions, except the last used `most`; return how many."""
    with suppress(OSError):
        others = [path for path in (folder / KERNELS).iterdir() if path.name != stamp()]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[most:]:
            shutil.rmtree(path, ignore_errors=True)
        return len(others[most:])
    return 0


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Copy all compiled code that the block uses to the folder, when the block ends."""
    if any(writable(other) for other in folders() if other.grows):
        yield
    else:
        os.environ[VARIABLE], before = str(folder), os.environ.get(VARIABLE)
        try:
            yield
        finally:
            del os.environ[VARIABLE]
            os.environ.update({} if before is None else {VARIABLE: before})
    target = Folder(folder, private=False)
    _make(target)
    for path in _used.values():
        if path.parent != target.entries:
            write_atomically(target.entries / path.name, path.read_bytes())


def count(folder: Folder) -> int:
    """Return the number of usable kernels of these sources in a folder."""
    with suppress(OSError):
        if stamp() and not (folder.private and not _ours(folder.path)):
            return len(list(folder.entries.glob(f"*{SUFFIX}")))
    return 0


def writable(folder: Folder) -> bool:
    """Return whether new code could be stored there, creating the folder if needed."""
    try:
        _make(folder)
    except OSError:
        return False
    return os.access(folder.entries, os.W_OK)


# A clock that stops while kernels are compiled, which happens once per machine.


@dataclass
class Clock:
    """Seconds of this process, without those spent compiling or loading kernels."""

    spent: float = 0.0
    depth: int = 0
    began: float = 0.0
    lock: Any = field(default_factory=RLock, repr=False)

    def stop(self) -> None:
        """Stop the clock; calls nest."""
        with self.lock:
            self.began = self.began if self.depth else time.perf_counter()
            self.depth += 1

    def go_on(self) -> None:
        """Undo the last `stop`."""
        with self.lock:
            self.depth -= 1
            self.spent += 0.0 if self.depth else time.perf_counter() - self.began

    def now(self) -> float:
        with self.lock:
            return (self.began if self.depth else time.perf_counter()) - self.spent


CLOCK = Clock()


@contextmanager
def compiling() -> Any:
    """Stop the clock inside the block."""
    CLOCK.stop()
    try:
        yield
    finally:
        CLOCK.go_on()
