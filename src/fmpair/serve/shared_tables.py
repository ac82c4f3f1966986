"""Workers that are forked from a parent process and share its modules and models in memory.

Pages that no process writes to are in memory once, and a forked worker starts at once. polars must
not have started its threads in the parent, because they would be missing in the workers. Reading a
model does not start them, unless items have lists; each worker loads such a model itself. If the
threads run all the same, or if the system cannot fork safely, workers are spawned.
"""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import TYPE_CHECKING

from fmpair.errors import FmpairError
from fmpair.threads import polars_at_rest, polars_has_threads

if TYPE_CHECKING:
    from fmpair.models.catalog import Model

KERNELS = "fmpair.ranking.top"  # imports Numba, which takes long, so in a thread
_loaded: dict[str, Model] = {}  # checksum of the file -> model


@contextmanager
def shared_tables(
    prepare: Callable[[], object], *files: Path | str | None
) -> Iterator[ForkContext | SpawnContext]:
    """Yield the context that starts workers, which share these models if it can fork.

    prepare: imports the modules that workers need.
    """
    if sys.platform != "linux" or polars_has_threads():
        yield multiprocessing.get_context("spawn")
        return
    with _no_collections(), polars_at_rest(), ThreadPoolExecutor(1, "fmpair-import") as importer:
        importer.submit(import_module, KERNELS)
        prepare()
        for file in files:
            if file is not None:
                with suppress(FmpairError, OSError):  # a worker reports the error
                    _load_for_workers(file)
    try:
        if polars_has_threads():
            yield multiprocessing.get_context("spawn")
        else:
            yield multiprocessing.get_context("fork")
    finally:
        _loaded.clear()
        gc.unfreeze()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect no garbage in the block, and never collect the objects that exist at its end.

    They are needed as long as the service runs, and a collection in a worker would write to all
    shared pages.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def load_shared(path: Path, checksum: str) -> Model:
    """Return the model that the parent has loaded if it is this one, else load it from its file.

    checksum: of the file; another model may have replaced the first one.
    """
    from fmpair.models.catalog import load

    return _loaded[checksum] if checksum in _loaded else load(path)


def _load_for_workers(path: Path | str) -> None:
    """Load a model and compute the arrays that every answer needs."""
    from fmpair.fitted.file import checksum_of, has_lists, header_at
    from fmpair.fitted.file_checks import check_header
    from fmpair.fitted.recommender import Recommender
    from fmpair.models.catalog import load

    header = header_at(path)
    check_header(header)
    if has_lists(header):
        return
    checksum, model = header["sha256"], load(path)
    if checksum_of(path) != checksum:  # it was replaced meanwhile
        return
    _loaded[checksum] = model
    assert model.id_lookup.items and model.id_lookup.users
    if isinstance(model, Recommender):
        model.answer(None, 1)
