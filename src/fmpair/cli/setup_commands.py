"""Commands to get started and to check an installation: demo, compile, doctor."""

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
from fmpair.cli.experiment_commands import conclude, run_experiment
from fmpair.cli.model_commands import explanation
from fmpair.cli.output import busy, note, note_no_figures, only_errors, show, table, with_bar
from fmpair.errors import DataError, FmpairError

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.data.synthetic import World
    from fmpair.experiment.folder import Results
    from fmpair.fitted.recommender import Recommender
    from fmpair.kernel_cache import Folder

FILE = Path(__file__).with_name("demo.yaml")
DAY, NIGHT = "morning", "night"
TERMS = 5
SOME = 5  # any number above 1

Job = tuple[str, Callable[[], object]]


def demo(
    folder: Annotated[
        Path, typer.Option("--folder", "-f", metavar="DIR", help="The folder of the results.")
    ] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Another seed generates other data.")] = 0,
) -> None:
    """Run an experiment on generated data that shows how much context helps."""
    from fmpair.config.read import read
    from fmpair.data import synthetic
    from fmpair.evaluation.evaluation import busiest_user
    from fmpair.models.catalog import load
    from fmpair.report.output import terminal

    overrides = [f"data.generate.seed={seed}", f"output.folder={folder.absolute()}"]
    experiment = read(FILE, overrides)
    note_no_figures()
    with busy("generating users who choose in context"):
        world = synthetic.make(**(experiment.data.generate or {}))
    show(_introduction(world))
    results = run_experiment(experiment)
    model: Any = load(folder / "model.fmpair")
    user = world.data.users.ids[busiest_user(world.data)]
    show(terminal(results), _ceiling(world, results), *_lists(world, model, user))
    viewed = world.data.items.take(world.data.item[-2:]).to_list()
    show(_visitor(world, model, viewed), _next_steps(user, viewed, folder))
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
    """Return a line about the best model and the best possible one."""
    from fmpair.data.splits import load
    from fmpair.evaluation.evaluation import ceiling

    experiment = results.experiment
    [(label, protocol)] = experiment.protocols.items()
    name = experiment.metrics[0]
    splits = load(Path(experiment.output.folder) / "splits.parquet")
    possible = ceiling(world, splits, protocol, [name])[name]
    values = results.values.filter(protocol=label, metric=name)
    share = max(fmean(part["value"]) for _, part in values.group_by("model")) / possible
    return (
        f"The oracle that generated the data reaches {possible:.4f}: the best model has "
        f"{share:.0%} of that.\n"
    )


def _lists(world: World, model: Recommender, user: str) -> list[Any]:
    """Return a user's top five by day and by night, and why the first is first."""
    best = {
        daytime: model.recommend(user, 5, context={"daytime": daytime}, exclude_seen=False)["item"]
        for daytime in (DAY, NIGHT)
    }
    rows = [
        (str(rank), _item_with_attributes(world, day), _item_with_attributes(world, night))
        for rank, (day, night) in enumerate(zip(best[DAY], best[NIGHT]), 1)
    ]
    first = best[DAY][0]
    terms = model.explain(user, first, {"daytime": DAY})
    return [
        table(("", "in the morning", "at night"), rows, f" The top five for {user}"),
        explanation(terms, TERMS, f" Why {first} comes first in the morning"),
    ]


def _visitor(world: World, model: Recommender, viewed: list[str]) -> Any:
    """Return the top five for a visitor without an id, from the items they viewed."""
    best = model.recommend(history=viewed, n=5)["item"]
    rows = [(str(rank), _item_with_attributes(world, item)) for rank, item in enumerate(best, 1)]
    return table(("", "next"), rows, f" For a visitor who viewed {' and '.join(viewed)}")


def _item_with_attributes(world: World, item: str) -> str:
    known = world.data.item_table.row(world.data.items.number(item), named=True)
    length = f"{known['length']} min" if known["length"] else None
    return f"{item}  {', '.join(filter(None, (known['genre'], length)))}"


def _next_steps(user: str, viewed: list[str], folder: Path) -> str:
    return (
        "Next, use the best model, and try your own events:\n\n"
        f"  fmpair recommend {folder} --user {user} --context daytime={NIGHT} -n 5\n"
        f"  fmpair recommend {folder} --history {','.join(viewed)} -n 5\n"
        "  fmpair init clicks.csv -o experiment.yaml\n"
        "  fmpair run experiment.yaml\n\n"
        "The report of this experiment:\n"
    )


CompileFor = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="cpu, or cuda for the kernels of a GPU, which Triton keeps in TRITON_CACHE_DIR.",
    ),
]

Serving = Annotated[
    bool, typer.Option("--serving", help="Only what recommend and serve need, none of fit.")
]
Clean = Annotated[bool, typer.Option("--clean", help="Remove the code of other versions there.")]


def compile_kernels(
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder to fill; set FMPAIR_CACHE to use it. By default beside the package, "
            "or in the user's cache folder if that is read-only.",
        ),
    ] = None,
    factors: Annotated[
        list[int] | None,
        typer.Option(
            metavar="NUMBER",
            min=1,
            help="The number of factors (repeat); by default 32, 128, 256, on a GPU 256, 512.",
        ),
    ] = None,
    device: CompileFor = "cpu",
    serving: Serving = False,
    clean: Clean = False,
) -> None:
    """Compile the kernels of fit, recommend and evaluate ahead of time."""
    if device != "cpu":
        _compile_for(device, factors, into)
        return
    from fmpair import kernel_cache
    from fmpair.jit import require_compiler
    from fmpair.training.trials import DEFAULT_FACTORS

    require_compiler()
    folder, start = _target(into), time.perf_counter()
    fits = [] if serving else [fit for n in factors or DEFAULT_FACTORS for fit in _fits(n)]
    jobs = _answers() if serving else [*fits, *_evaluations(), *_answers()]
    with kernel_cache.filled(folder.path), only_errors():
        for _, job in _with_progress(jobs):
            job()
    removed = kernel_cache.discard(folder.path) if clean else 0
    seconds = time.perf_counter() - start
    note(f"{kernel_cache.count(folder)} kernels in {folder.entries} after {seconds:.1f} s")
    note(f"removed the kernels of {removed} other versions" if removed else "")


def _compile_for(device: str, factors: list[int] | None, into: Path | None) -> None:
    """Run small fits on a GPU, whose kernels Triton keeps."""
    from fmpair.models.fm_pair.fm_pair import FMPair
    from fmpair.training.defaults import FACTORS_OF_IDS, FACTORS_OF_MANY

    if into is not None:
        raise DataError("--into is for the cpu: set TRITON_CACHE_DIR to the folder for a GPU")
    start, events = time.perf_counter(), _events(context=True, attributes=False)

    def fit(number: int, options: dict[str, Any]) -> None:
        FMPair(factors=number, epochs=1, device=device, times=False, **options).fit(events)

    kinds: dict[str, dict[str, Any]] = {
        "": {"order": 2, "history": 0},
        ", shared negatives": {"order": 2, "history": 0, "n_negatives": SOME},
        ", order three": {"order": 3, "history": SOME},
    }
    jobs: list[Job] = [
        (f"{number} factors{words}", partial(fit, number, options))
        for number in factors or [FACTORS_OF_MANY, FACTORS_OF_IDS]
        for words, options in kinds.items()
    ]
    with only_errors():
        for _, job in _with_progress(jobs):
            job()
    note(f"compiled for {device} in {time.perf_counter() - start:.1f} s")


def _target(into: Path | None) -> Folder:
    """Return the folder to fill: the given one, or the first writable one."""
    from fmpair import kernel_cache
    from fmpair.kernel_cache import Folder

    if not kernel_cache.stamp():
        raise DataError("the sources of the package cannot be read: compiled code depends on them")
    if into is not None:
        folder = Folder(into.absolute(), private=False)
        if not kernel_cache.writable(folder):
            raise DataError(f"--into {into} is not writable: choose another folder")
        return folder
    for folder in (Folder(kernel_cache.BESIDE, private=False), *kernel_cache.folders()):
        if kernel_cache.writable(folder):
            return folder
    raise DataError("no writable folder found: choose one with --into FOLDER")


def _fits(factors: int) -> list[Job]:
    """Return fits in minibatches and of lists (softmax), and of pairs (bpr)."""
    from fmpair.models.fm_pair.fm_pair import FMPair

    def fit(loss: str, context: bool, attributes: bool, history: int = 0, **more: Any) -> None:
        recipe = FMPair(factors=factors, loss=loss, epochs=1, blocks=2, history=history, **more)
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
    softmax, name = partial(fit, "softmax"), f"{factors} factors, loss softmax"
    for words, kind in kinds.items():
        jobs.append((f"{name}{words}, with history", partial(softmax, *kind, SOME)))
    for n in (0, SOME):
        jobs.append((f"{name}, sampled", partial(softmax, False, False, n, n_negatives=SOME)))
    jobs.append((f"{name}, order three", partial(softmax, False, False, SOME, order=3)))
    return jobs


def _evaluations() -> list[Job]:
    from fmpair.evaluation import Protocol, evaluate
    from fmpair.models.classic.popularity import Popularity

    data = _events(context=True, attributes=False)
    model = Popularity().fit(data)

    def run(candidates: str, metric: str) -> None:
        protocol = Protocol(candidates=candidates, n=SOME, seen="none")
        evaluate(model, data, data, protocol, [metric])

    return [
        ("evaluate", partial(run, "all", "diversity@5")),
        ("evaluate among a sample", partial(run, "uniform", "ndcg@5")),
    ]


def _answers() -> list[Job]:
    from fmpair.models.classic.popularity import Popularity

    model = Popularity().fit(_events(context=True, attributes=False))
    return [
        ("recommend", partial(model.recommend, n=SOME)),
        ("recommend from a large catalogue", _search_codes),
    ]


def _search_codes() -> None:
    """Search a catalogue by codes, item by item and by cells."""
    import numpy as np

    from fmpair.arrays import empty_rows
    from fmpair.fitted.large_catalogue import cells
    from fmpair.ranking.compressed import pack, top, top_given

    vectors, constants = np.eye(2 * SOME, SOME, dtype=np.float32), np.zeros(2 * SOME, np.float32)
    packed = pack(vectors, constants, *cells(vectors, constants, 2))
    for reach in (None, 1.0):
        top(vectors[:1], vectors, packed, empty_rows(1), 1, 1, reach)
    top_given(vectors[:1], vectors, constants, np.arange(1), empty_rows(1), 1)


def _events(context: bool, attributes: bool) -> Dataset:
    """Return a few events, with context columns or item attributes; with both, of users too."""
    from fmpair.data import Dataset
    from fmpair.testing import day_and_night

    frame = day_and_night().frame().with_row_index("timestamp")
    items = {"item": list(range(20)), "kind": ["even", "odd"] * 10} if attributes else None
    groups = {"user": [f"u{n}" for n in range(40)], "group": ["a", "b"] * 20}
    users = groups if attributes and context else None
    return Dataset.from_frame(frame if context else frame.drop("time"), users=users, items=items)


def _with_progress(jobs: list[Job]) -> Iterator[Job]:
    """Yield the jobs, with a progress bar on a terminal and a line each elsewhere."""
    if sys.stderr.isatty():
        yield from with_bar(iter(jobs), "compiling", len(jobs), 1)
        return
    for number, (name, job) in enumerate(jobs, 1):
        note(f"{number} of {len(jobs)}: {name}")
        yield name, job


class Absent(str):
    """The result of a check whose optional subject is missing, such as a GPU."""


def doctor() -> None:
    """Check the installation; exit with 1 if something is broken."""
    rows, healthy = [], True
    for name, check in CHECKS.items():
        try:
            finding = check()
            state = "none" if isinstance(finding, Absent) else "ok"
        except Exception as error:  # whatever a broken installation raises is the finding
            kind = "" if isinstance(error, FmpairError) else f"{type(error).__name__}: "
            finding, state, healthy = f"{kind}{error}", "broken", False
        rows.append((name, state, finding))
    show(table(("check", "", "finding"), rows), table(("extra", "", "what it is for"), extras()))
    if not healthy:
        raise typer.Exit(1)


def extras() -> list[tuple[str, str, str]]:
    """Return the optional extras: name, whether installed, purpose."""
    rows = []
    for name, (module, purpose) in EXTRAS.items():
        installed = find_spec(module) is not None
        command = "" if installed else f": pip install 'fmpair[{name}]'"
        rows.append((name, "installed" if installed else "", f"{purpose}{command}"))
    return rows


def _version(module: str) -> Callable[[], str]:
    return lambda: import_module(module).__version__


def _cores() -> str:
    from fmpair.threads import all_threads

    return f"{all_threads()} of {os.cpu_count()}"


def _blas() -> str:
    import numpy  # noqa: F401  (loads the library)
    from threadpoolctl import threadpool_info

    pools = [
        f"{pool['internal_api']} {pool['version']}, {pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]
    return "; ".join(pools) or "none with a thread limit"


def _compiled() -> str:
    """Report the compiled kernels and where new ones are stored."""
    from fmpair import kernel_cache
    from fmpair.jit import require_compiler

    require_compiler()
    folders = kernel_cache.folders()
    held = [f"{n} kernels in {f.path}" for f in folders if (n := kernel_cache.count(f))]
    into = next((f.path for f in folders if f.grows and kernel_cache.writable(f)), None)
    variable = f"nowhere: set {kernel_cache.VARIABLE} to a writable folder"
    new = f"new ones go {f'into {into}' if into else variable}"
    return "; ".join([f"stamp {kernel_cache.stamp() or 'unknown'}", *held, new])


def _data() -> str:
    from fmpair.data.public_sets import VARIABLE, held, names

    folder = os.environ.get(VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{VARIABLE} is {folder}, which is not a folder")
    local = [name for name in names() if held(name)]
    sets = f"{len(local)} of {len(names())} sets: {', '.join(local) or 'none'}"
    return f"{VARIABLE}={folder or ''}; {sets}"


def _gpu() -> str:
    from fmpair.device import gpu_problem, usable_gpus

    why = gpu_problem()
    return Absent(f"no GPU is used: {why}") if why else "; ".join(usable_gpus())


def _fit() -> str:
    from fmpair.models.fm_pair.fm_pair import FMPair
    from fmpair.testing import day_and_night

    model = FMPair(factors=4, epochs=20).fit(day_and_night())
    return f"learned {len(model.item_ids)} items"


# Extras of pyproject.toml: a module that each installs, and its purpose.
EXTRAS = {
    "report": ("matplotlib", "figures in reports"),
    "gpu": ("torch", "training and ranking on a GPU"),
    "serve": ("uvicorn", "serving models over HTTP"),
    "ray": ("ray", "training and experiments on a cluster"),
    "implicit": ("implicit", "models of implicit"),
    "lightfm": ("lightfm", "models of LightFM"),
    "cornac": ("cornac", "models of Cornac"),
    "lenskit": ("lenskit", "models of LensKit"),
    "myfm": ("myfm", "factorization machines of myFM"),
    "onnx": ("onnx", "export to ONNX"),
    "usearch": ("usearch", "export to nearest-neighbour indexes"),
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
