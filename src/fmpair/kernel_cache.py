"""Compiled code on disk: the stamp of what it was made of, and the folders it may lie in.

A folder holds kernels/STAMP/NAME.kernel. Compiled code is executed, so of folders that nobody has
named only those are used that no other user can have put anything into.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from fmpair.errors import DataError
from fmpair.files import write_atomically

LOG = logging.getLogger("fmpair")
VARIABLE = "FMPAIR_CACHE"
PACKAGE = Path(__file__).parent
BESIDE = PACKAGE / "__pycache__"  # where no checkout, wheel or clean-up minds what lies there
KERNELS, SUFFIX = "kernels", ".kernel"
FOLDERS = ("engine", "ranking", "solvers")  # beside the package's own modules
LIBRARIES = ("numba", "llvmlite", "numpy")
STAMPS = 20  # of other sources and versions, that a user's own folder keeps
DIGEST = hashlib.sha256().digest_size

_found: dict[str, Path] = {}  # what this process has used: name -> the file it lies in
_lost: list[str] = []  # what this process has compiled and could not keep


class Folder(NamedTuple):
    """private: chosen for the user, not by the user, and so no other user's to write.

    grows: takes new code whenever some is compiled.
    """

    path: Path
    private: bool
    grows: bool = True

    @property
    def entries(self) -> Path:
        return self.path / KERNELS / stamp()


def sources() -> list[Path]:
    """Every file that a kernel stands in, or takes functions and constants from."""
    below = (path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py"))
    return sorted([*PACKAGE.glob("*.py"), *below])


@cache
def stamp() -> str:
    """A name for all sources and for the versions that matter; "" where sources are not at hand.

    As this process found them first: what is compiled later is of those sources or is not kept.
    """
    return _fingerprint()


def _fingerprint() -> str:
    python = f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}"
    digest = hashlib.sha256(" ".join([python, *map(_version, LIBRARIES)]).encode())
    found = sources()
    try:
        for path in found:
            content = path.read_bytes()
            digest.update(f"\n{path.relative_to(PACKAGE).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    except OSError:
        return ""
    return digest.hexdigest()[:16] if found else ""


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "unknown"


def folders() -> list[Folder]:
    """Where compiled code may lie, in the order in which it is looked for and written.

    Beside the package nothing is written but by `fmpair compile`.
    """
    named = os.environ.get(VARIABLE)
    given = [Folder(Path(named), private=False)] if named else []
    given.append(Folder(BESIDE, private=False, grows=False))
    return given + [Folder(path, private=True) for path in (_of_user(), _temporary()) if path]


def _of_user() -> Path | None:
    """The user's cache folder, None without a home."""
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local"))
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # a user whom the system does not know, as containers have them
        base = base.expanduser()
    return base / "fmpair" if base.is_absolute() else None


def _temporary() -> Path | None:
    try:
        base = Path(tempfile.gettempdir())
    except OSError:
        return None
    return base / (f"fmpair-{os.geteuid()}" if hasattr(os, "geteuid") else "fmpair")


def find(name: str) -> bytes | None:
    """The content kept under a name, None where there is none or it is damaged."""
    for folder in folders() if stamp() else ():
        path = folder.entries / (name + SUFFIX)
        with suppress(OSError):
            if folder.private and not _ours(folder.path):
                continue
            content = path.read_bytes()
            if hashlib.sha256(content[DIGEST:]).digest() == content[:DIGEST]:
                _found[name] = path
                with suppress(OSError):
                    os.utime(folder.entries)  # in use: not to be thrown away
                return content[DIGEST:]
    return None


def keep(name: str, content: bytes) -> None:
    """Write into the first folder that can be written; a process that finds none says so once."""
    if not stamp():
        return lose(name, "the package's sources cannot be read")
    if _fingerprint() != stamp():
        return None  # edited since this process began: nobody knows which of them were compiled
    reason = "there is no folder for it"
    whole = hashlib.sha256(content).digest() + content
    for folder in (folder for folder in folders() if folder.grows):
        try:
            _make(folder)
            write_atomically(folder.entries / (name + SUFFIX), whole)
        except (OSError, DataError) as error:
            reason = str(error)
        else:
            _found[name] = folder.entries / (name + SUFFIX)
            return None
    return lose(name, reason)


def lose(name: str, reason: str) -> None:
    """Note that something compiled is for this process only; the first time, say so."""
    if not _lost:
        LOG.warning(
            "compiled code cannot be kept, so every process compiles anew: %s. Set %s to a folder "
            "that can be written",
            reason,
            VARIABLE,
        )
    _lost.append(name)


def lost() -> bool:
    """Whether this process has compiled something that it could not keep."""
    return bool(_lost)


def _make(folder: Folder) -> None:
    """Make sure of the folder; OSError where it cannot be had, or is somebody else's."""
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
    """Whether this user alone can have filled a folder; OSError where there is none."""
    if not hasattr(os, "geteuid"):  # folders of users and their temporary ones are apart anyway
        return True
    link, target, parent = path.lstat(), path.stat(), path.parent.stat()
    own = link.st_uid == target.st_uid == os.geteuid() and stat.S_ISDIR(target.st_mode)
    replaceable = parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX
    return own and not target.st_mode & stat.S_IWOTH and not replaceable


def discard(folder: Path, most: int = 0) -> int:
    """Remove what was compiled from other sources or versions, but for the last used; how many."""
    with suppress(OSError):
        others = [path for path in (folder / KERNELS).iterdir() if path.name != stamp()]
        others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in others[most:]:
            shutil.rmtree(path, ignore_errors=True)
        return len(others[most:])
    return 0


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """All compiled code that the block uses lies in the folder when it ends.

    It is kept as usual and then copied, so that the next folder is filled without compiling.
    """
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
    for path in _found.values():
        if path.parent != target.entries:
            write_atomically(target.entries / path.name, path.read_bytes())


def count(folder: Folder) -> int:
    """How many kernels of these sources lie in a folder, and may be used."""
    with suppress(OSError):
        if stamp() and not (folder.private and not _ours(folder.path)):
            return len(list(folder.entries.glob(f"*{SUFFIX}")))
    return 0


def writable(folder: Folder) -> bool:
    """Whether new code could be written there: the folder is made if it is not there yet."""
    try:
        _make(folder)
    except OSError:
        return False
    return os.access(folder.entries, os.W_OK)
