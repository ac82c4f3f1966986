"""Model files in memory that the workers of a service share, so that each table is held once.

The parent copies each file into memory without a name (`memfd_create`, Linux) and tells its
workers where by an environment variable. Workers map the copy. The file itself is not mapped: one
that is written in place would change or end the workers that have it. Nothing stays when the
parent ends, however it ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fmpair.errors import FmpairError

if TYPE_CHECKING:
    from fmpair.models.catalog import Model

VARIABLE = "FMPAIR_SHARED_TABLES"  # paths of the copies


@contextmanager
def shared_tables(*files: Path | str | None) -> Iterator[None]:
    """Hold copies of model files for the processes that are started in this block."""
    copies = [copy for file in files if file is not None and (copy := _copied(file)) is not None]
    os.environ[VARIABLE] = os.pathsep.join(f"/proc/{os.getpid()}/fd/{copy}" for copy in copies)
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        for copy in copies:
            os.close(copy)


def load_shared(path: Path, checksum: str) -> Model:
    """Load a model from its copy in memory if there is one, else from its file.

    checksum: of the file; a model that replaced the first one has no copy.
    """
    from fmpair.fitted.file import checksum_of  # heavy, and not needed by the parent
    from fmpair.models.catalog import load

    for copy in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        with suppress(FmpairError, OSError):
            if checksum_of(copy) == checksum:
                return load(copy, mapped=True)
    return load(path)


def _copied(path: Path | str) -> int | None:
    """Return a file in memory with the contents of a model file, None where there is no such."""
    if not hasattr(os, "memfd_create"):
        return None
    with suppress(OSError), Path(path).open("rb") as source:
        copy = os.memfd_create("fmpair-model")
        with os.fdopen(os.dup(copy), "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        return copy
    return None
