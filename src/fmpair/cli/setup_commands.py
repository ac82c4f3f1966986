"""`demo`: an experiment on generated data, its report, and one user's lists."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair import __version__
from fmpair.cli.experiment_commands import carried_out, comparison, conclude
from fmpair.cli.model_commands import explanation
from fmpair.cli.output import busy, note, note_no_figures, only_errors, show, table
from fmpair.errors import DataError, FmpairError

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.data.synthetic import World
    from fmpair.experiment.results import Results
    from fmpair.fitted.recommender import Recommender
    from fmpair.kernel_cache import Folder


# `compile`: fill a folder with compiled code, so that later processes need no compiler.


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
    from fmpair.models.fm_pair.fm_pair import FMPair

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


# `doctor`: whether this machine has everything fmpair needs.


class Absent(str):
    """A finding about what is not there and need not be."""


def doctor() -> None:
    """Check that this machine has everything fmpair needs; exit code 1 if something is broken."""
    rows, healthy = [], True
    for name, check in CHECKS.items():
        try:
            finding = check()
            state = "none" if isinstance(finding, Absent) else "ok"
        except Exception as error:  # whatever a broken installation throws is the finding
            kind = "" if isinstance(error, FmpairError) else f"{type(error).__name__}: "
            finding, state, healthy = f"{kind}{error}", "broken", False
        rows.append((name, state, finding))
    show(table(("check", "", "finding"), rows), table(("extra", "", "what it is for"), extras()))
    if not healthy:
        raise typer.Exit(1)


def extras() -> list[tuple[str, str, str]]:
    """What may be installed besides: its name, whether it is there, and what it is for."""
    found = []
    for name, (module, purpose) in EXTRAS.items():
        there = find_spec(module) is not None
        command = "" if there else f": pip install 'fmpair[{name}]'"
        found.append((name, "installed" if there else "", f"{purpose}{command}"))
    return found


def _version(module: str) -> Callable[[], str]:
    return lambda: import_module(module).__version__


def _cores() -> str:
    from fmpair.threads import all_threads

    return f"{all_threads()} of {os.cpu_count()}"


def _blas() -> str:
    import numpy  # noqa: F401  (loads the library to be named)
    from threadpoolctl import threadpool_info

    found = [
        f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(found) or "none whose threads can be limited"


def _compiled() -> str:
    """What is compiled already, and where new code goes; without a place every start compiles."""
    from fmpair import kernel_cache
    from fmpair.jit import require_compiler

    require_compiler()
    folders = kernel_cache.folders()
    held = [f"{n} kernels in {f.path}" for f in folders if (n := kernel_cache.count(f))]
    into = next((f.path for f in folders if f.grows and kernel_cache.writable(f)), None)
    variable = f"nowhere, so set {kernel_cache.VARIABLE} to a folder that can be written"
    new = f"new ones go {f'into {into}' if into else variable}"
    return "; ".join([f"stamp {kernel_cache.stamp() or 'unknown'}", *held, new])


def _data() -> str:
    from fmpair.data.public_sets import VARIABLE, held, names

    folder = os.environ.get(VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{VARIABLE} names {folder}, which is no folder")
    found = [name for name in names() if held(name)]
    return (
        f"{VARIABLE}={folder or ''}; {len(found)} of {len(names())} sets: "
        f"{', '.join(found) or 'none'}"
    )


def _gpu() -> str:
    from fmpair.device import cards, undefined_reason

    why = undefined_reason()
    return Absent(f"no GPU is used: {why}") if why else "; ".join(cards())


def _fit() -> str:
    from fmpair.models.fm_pair.fm_pair import FMPair
    from fmpair.testing import day_and_night

    model = FMPair(factors=4, epochs=20).fit(day_and_night())
    return f"learned {len(model.item_ids)} items"


# Extras of pyproject.toml: the module that shows whether each is there, and what it is for.
EXTRAS = {
    "report": ("matplotlib", "figures in reports"),
    "tune": ("optuna", "search for the best options of a model"),
    "gpu": ("torch", "learning and ranking on a GPU"),
    "serve": ("uvicorn", "models as services over HTTP"),
    "ray": ("ray", "fits and experiments on a cluster of machines"),
    "implicit": ("implicit", "models of the library implicit"),
    "lightfm": ("lightfm", "models of LightFM"),
    "cornac": ("cornac", "models of Cornac"),
    "lenskit": ("lenskit", "models of LensKit"),
    "myfm": ("myfm", "factorization machines of myFM"),
    "onnx": ("onnx", "models as ONNX graphs"),
    "usearch": ("usearch", "models as indexes of nearest neighbours"),
}
CHECKS: dict[str, Callable[[], str]] = {
    "fmpair": lambda: __version__,
    "python": platform.python_version,
    "numpy": _version("numpy"),
    "numba": _version("numba"),
    "polars": _version("polars"),
    "cores": _cores,
    "BLAS": _blas,
    "compiled code": _compiled,
    "GPU": _gpu,
    "public data": _data,
    "a small fit": _fit,
}


FILE = Path(__file__).with_name("demo.yaml")
DAY, NIGHT = "morning", "night"
TERMS = 5


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Another seed generates other data.")] = 0,
) -> None:
    """See how much context helps: an experiment on generated data, and its report."""
    from fmpair.config.read import read
    from fmpair.data import synthetic
    from fmpair.evaluation.tables import busiest_user
    from fmpair.models.catalog import load

    choices = [f"data.generate.seed={seed}", f"output.folder={folder.absolute()}"]
    experiment = read(FILE, choices)
    note_no_figures()
    with busy("generating users who choose in context"):
        world = synthetic.make(**(experiment.data.generate or {}))
    show(_introduction(world))
    results = carried_out(experiment)
    model: Any = load(folder / "model.fmpair")
    user = world.data.users.ids[busiest_user(world.data)]
    show(comparison(results), _ceiling(world, results), *_lists(world, model, user))
    looked = world.data.items.take(world.data.item[-2:]).to_list()
    show(_visitor(world, model, looked), _next_steps(user, looked, folder))
    conclude(results)


def _introduction(world: World) -> str:
    data = world.data
    return (
        f"{len(data.users):,} generated users chose among {len(data.items):,} books, albums, "
        f"films and games, {len(data):,} times.\n"
        "What they choose depends on their taste, the time of day and the place. Four times, each "
        "model\nlearns from three quarters of the choices and ranks all items for the others.\n"
    )


def _ceiling(world: World, results: Results) -> str:
    """How far the best model is from the best possible."""
    from fmpair.data.splits import load
    from fmpair.evaluation.tables import ceiling

    experiment = results.experiment
    [(label, protocol)] = experiment.protocols.items()
    name = experiment.metrics[0]
    splits = load(Path(experiment.output.folder) / "splits.parquet")
    possible = ceiling(world, splits, protocol, [name])[name]
    found = results.values.filter(protocol=label, metric=name)
    share = max(fmean(part["value"]) for _, part in found.group_by("model")) / possible
    return (
        f"The oracle that generated the data reaches {possible:.4f}: the best model has "
        f"{share:.0%} of that.\n"
    )


def _lists(world: World, model: Recommender, user: str) -> list[Any]:
    """One user's top five by day and by night, and why the first is first."""
    best = {
        daytime: model.recommend(user, 5, context={"daytime": daytime}, exclude_seen=False)["item"]
        for daytime in (DAY, NIGHT)
    }
    rows = [
        (str(rank), _item(world, day), _item(world, night))
        for rank, (day, night) in enumerate(zip(best[DAY], best[NIGHT]), 1)
    ]
    first = best[DAY][0]
    terms = model.explain(user, first, {"daytime": DAY})
    return [
        table(("", "in the morning", "at night"), rows, f" The top five for {user}"),
        explanation(terms, TERMS, f" Why {first} comes first in the morning"),
    ]


def _visitor(world: World, model: Recommender, looked: list[str]) -> Any:
    """The top five for somebody without an id, known by what they looked at."""
    best = model.recommend(history=looked, n=5)["item"]
    rows = [(str(rank), _item(world, item)) for rank, item in enumerate(best, 1)]
    return table(("", "next"), rows, f" For a visitor who came from {' and '.join(looked)}")


def _item(world: World, item: str) -> str:
    """An item with what is known of it."""
    known = world.data.item_table.row(world.data.items.number(item), named=True)
    length = f"{known['length']} min" if known["length"] else None
    return f"{item}  {', '.join(filter(None, (known['genre'], length)))}"


def _next_steps(user: str, looked: list[str], folder: Path) -> str:
    return (
        "Next, use the best model, and try your own events:\n\n"
        f"  fmpair recommend {folder} --user {user} --context daytime={NIGHT} -n 5\n"
        f"  fmpair recommend {folder} --history {','.join(looked)} -n 5\n"
        "  fmpair init clicks.csv -o experiment.yaml\n"
        "  fmpair run experiment.yaml\n\n"
        "The report of this experiment:\n"
    )
