"""`doctor`: whether this machine has everything fmpair needs."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import typer

from fmpair import __version__
from fmpair.cli.show import show, table
from fmpair.errors import DataError, FmpairError


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
    from fmpair.data.catalog import VARIABLE, held, names

    folder = os.environ.get(VARIABLE)
    if folder and not Path(folder).is_dir():
        raise DataError(f"{VARIABLE} names {folder}, which is no folder")
    found = [name for name in names() if held(name)]
    return (
        f"{VARIABLE}={folder or ''}; {len(found)} of {len(names())} sets: "
        f"{', '.join(found) or 'none'}"
    )


def _gpu() -> str:
    from fmpair.device import cards, obstacle

    why = obstacle()
    return Absent(f"no GPU is used: {why}") if why else "; ".join(cards())


def _fit() -> str:
    from fmpair.models.fm_pair.recipe import FMPair
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
