"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fmpair.errors import DataError

# How compiled writers, such as polars', tell of what would be an OSError in Python.
SYSTEM_ERROR = re.compile(r"([^:]+) \(os error \d+\)")


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the place of `path` when the block ends well.

    Whatever interrupts the block, an older file at `path` stays as it was.
    """
    target = Path(path)
    _check_target(target)
    # Beside the target, because only a rename within one file system is atomic.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror or error}") from error
    except Exception as error:
        reason = SYSTEM_ERROR.search(str(error))
        if reason is None:
            raise
        raise DataError(f"cannot write {target}: {reason[1].strip()}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write the bytes to `path`, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def _check_target(target: Path) -> None:
    if target.is_dir():
        raise DataError(f"cannot write {target}: it is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise DataError(f"cannot write {target}: there is no folder {target.parent}; make it first")


def _flush(path: Path) -> None:
    """Onto the disk before the rename, so that a power cut cannot leave an empty file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
