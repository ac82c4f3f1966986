"""`compile`: fill a folder with compiled code, so that later processes need no compiler."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fmpair.cli.show import note, only_errors
from fmpair.errors import DataError

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.kernel_cache import Folder

SOME = 5  # any number above 1: of blocks, candidates, items to list

Job = tuple[str, Callable[[], object]]


def compile_kernels(
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where to; name it in FMPAIR_CACHE to use it. By default beside the package, "
            "where it is found by itself, or among the user's caches if that is read-only.",
        ),
    ] = None,
    factors: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER",
            min=1,
            help="Of the models; repeat for several. 64 and 128 if not given.",
        ),
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove what other versions have left there.")
    ] = False,
) -> None:
    """Compile ahead what fit, recommend and evaluate need: for images, clusters, quick starts."""
    from fmpair import kernel_cache
    from fmpair.jit import require_compiler
    from fmpair.training.defaults import FACTORS_OF_MANY
    from fmpair.training.options import FACTORS

    require_compiler()
    folder, began = _target(into), time.perf_counter()
    jobs = [job for number in factors or (FACTORS, FACTORS_OF_MANY) for job in _fits(number)]
    with kernel_cache.filled(folder.path), only_errors():
        for job in _shown([*jobs, *_judging()]):
            job()
    removed = kernel_cache.discard(folder.path) if clean else 0
    seconds = time.perf_counter() - began
    note(f"{kernel_cache.count(folder)} kernels in {folder.entries} after {seconds:.1f} s")
    note(f"removed those of {removed} other versions" if removed else "")


def _target(into: Path | None) -> Folder:
    """The folder to fill: the one asked for, or the first that can be written."""
    from fmpair import kernel_cache
    from fmpair.kernel_cache import Folder

    if not kernel_cache.stamp():
        raise DataError("the package's sources cannot be read, and compiled code goes by them")
    if into is not None:
        folder = Folder(into.absolute(), private=False)
        if not kernel_cache.writable(folder):
            raise DataError(f"--into {into} cannot be written: name another folder")
        return folder
    beside = Folder(kernel_cache.BESIDE, private=False)
    for folder in (beside, *kernel_cache.folders()):
        if kernel_cache.writable(folder):
            return folder
    raise DataError("no folder can be written: name one with --into FOLDER")


def _fits(factors: int) -> list[Job]:
    """FM-Pair by lists (all losses but one) and by pairs (bpr), with and without features."""
    from fmpair.models.fm_pair.recipe import FMPair

    def fit(loss: str, context: bool, attributes: bool, history: int = 0) -> None:
        recipe = FMPair(factors=factors, loss=loss, epochs=1, blocks=2, history=history)
        recipe.fit(_events(context, attributes), validation=0.2)

    kinds = {
        "": (False, False),
        " with context": (True, False),
        " with attributes": (False, True),
        " with both": (True, True),
    }
    jobs: list[Job] = [
        (f"{factors} factors, loss {loss}{words}", partial(fit, loss, *kind))
        for loss in ("softmax", "bpr")
        for words, kind in kinds.items()
    ]
    for words, kind in kinds.items():
        name = f"{factors} factors, loss softmax{words}, after what came before"
        jobs.append((name, partial(fit, "softmax", *kind, history=SOME)))
    return jobs


def _judging() -> list[Job]:
    from fmpair.evaluation import Protocol, evaluate
    from fmpair.models.classic.popularity import Popularity

    data = _events(context=True, attributes=False)
    model = Popularity().fit(data)

    def judge(candidates: str, metric: str) -> None:
        protocol = Protocol(candidates=candidates, n=SOME, seen="none")
        evaluate(model, data, data, protocol, [metric])

    return [
        ("recommend", partial(model.recommend, n=SOME)),
        ("evaluate", partial(judge, "all", "diversity@5")),
        ("evaluate among a sample", partial(judge, "uniform", "ndcg@5")),
    ]


def _events(context: bool, attributes: bool) -> Dataset:
    """Some events, of the kinds of columns asked for."""
    from fmpair.data import Dataset
    from fmpair.testing import day_and_night

    frame = day_and_night().frame().with_row_index("timestamp")
    items = {"item": list(range(20)), "kind": ["even", "odd"] * 10} if attributes else None
    return Dataset.from_frame(frame if context else frame.drop("time"), items=items)


def _shown(jobs: list[Job]) -> Iterator[Callable[[], object]]:
    """The jobs one by one, with a bar on a terminal and a line each elsewhere."""
    if not sys.stderr.isatty():
        for place, (name, job) in enumerate(jobs, 1):
            note(f"{place} of {len(jobs)}: {name}")
            yield job
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=len(jobs))
        for name, job in jobs:
            bar.update(task, description=name)
            yield job
            bar.advance(task)
