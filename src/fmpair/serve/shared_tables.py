"""Workers that are forked from a parent with modules and models in memory, which they share.

Pages that no process writes to are in memory once, and a worker starts at once. polars must not
have run in the parent: its threads would be missing in the workers. Reading a model does without
them, unless items have lists; such a model is loaded by each worker. Where the threads have been
started anyway, and where there is no safe fork, workers are started afresh.
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

KERNELS = "fmpair.ranking.top"  # imports Numba, which takes long: while a file is read
_loaded: dict[str, Model] = {}  # checksum of the file -> model


@contextmanager
def shared_tables(
    prepare: Callable[[], object], *files: Path | str | None
) -> Iterator[ForkContext | SpawnContext]:
    """Yield how to start workers, which share these models if they can.

    prepare: imports what workers need.
    """
    if sys.platform != "linux" or polars_has_threads():
        yield multiprocessing.get_context("spawn")
        return
    with _no_collections(), polars_at_rest(), ThreadPoolExecutor(1, "fmpair-import") as beside:
        beside.submit(import_module, KERNELS)
        prepare()
        for file in files:
            if file is not None:
                with suppress(FmpairError, OSError):  # a worker says so
                    _hold(file)
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
    """Collect no garbage in the block, and never what is there at its end.

    What is loaded stays, and a collection in a worker would write to all its pages.
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


def _hold(path: Path | str) -> None:
    """Load a model, and compute what all questions need."""
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
