"""Bridge to RecBole: its general recommenders, in a virtual environment of their own.

RecBole cannot be installed beside fmpair, so a worker process trains it; they exchange files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pooch

from fmpair.bridges.adapter import ScoreTable, check_options, empty_table
from fmpair.data import Dataset, as_dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.data.write import write
from fmpair.errors import FmpairError, MachineError, TrainingError, UnknownError
from fmpair.files import make_folder
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe

LOG = logging.getLogger(__name__)
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-q")


@dataclass(frozen=True)
class Environment:
    """A virtual environment in fmpair's cache folder, created when first used.

    name: of the library. python: the version it needs, such as 3.11. pins: the requirements;
    other pins make another environment.
    """

    name: str
    python: str
    pins: tuple[str, ...]

    def check(self) -> None:
        """Raise if it does not exist and cannot be created."""
        if not self.executable.exists():
            self._base()

    def provenance(self) -> dict[str, str]:
        """Return the library's name and version, for the report."""
        version = next(p.partition("==")[2] for p in self.pins if p.startswith(f"{self.name}=="))
        return {"library": self.name, "version": version}

    @property
    def folder(self) -> Path:
        text = "\n".join((self.python, *self.pins))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return caches() / f"{self.name}-{digest}"

    @property
    def executable(self) -> Path:
        """The Python of the environment."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def ready(self) -> Path:
        """Return the Python of the environment, after creating it where needed."""
        if not self.executable.exists():
            LOG.info("installing %s into its own environment; this takes minutes, once", self.name)
            self._create()
        return self.executable

    def _create(self) -> None:
        """Create it under another name and rename it when complete."""
        make_folder(caches())
        part = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}.part")
        log = self.folder.with_suffix(".log")
        try:
            venv = (self._base(), "-m", "venv", str(part))
            run(venv, log, f"creating the environment of {self.name}", MachineError)
            python = str(part / self.executable.relative_to(self.folder))
            run((python, *PIP, *self.pins), log, f"installing {self.name}", MachineError)
            if not self.executable.exists():  # another process may have been faster
                part.rename(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _base(self) -> str:
        """Return a Python of the version needed."""
        if self.python == f"{sys.version_info.major}.{sys.version_info.minor}":
            return sys.executable
        python = shutil.which(f"python{self.python}")
        if python is None:
            raise UnknownError(
                f"{self.name} needs Python {self.python}: install python{self.python}, fmpair does "
                "the rest"
            )
        return python


def caches() -> Path:
    """Return the folder of environments and their logs."""
    return Path(pooch.os_cache("fmpair")) / "environments"


def run(
    command: tuple[str, ...], log: Path, doing: str,
    failure: type[FmpairError] = TrainingError, **options: object,
) -> None:  # fmt: skip
    """Run a command and write its output to a log file.

    failure: the error where the command fails; for one that was killed it is MachineError.
    """
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    if done.returncode < 0:
        raise MachineError(f"{doing} was ended by signal {-done.returncode} (log: {log})")
    if done.returncode:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        errors = [line for line in lines if "rror" in line] or lines or ["no output"]
        fault = "MemoryError" in errors[-1] or "[Errno" in errors[-1]  # of memory or disk
        kind = MachineError if fault else failure
        raise kind(f"{doing} failed: {errors[-1].strip()} (log: {log})")


# Newer NumPy, SciPy, PyTorch, pandas or setuptools break RecBole 1.2.
ENVIRONMENT = Environment(
    "recbole",
    "3.11",
    (
        *("recbole==1.2.1", "torch==2.5.1", "numpy==1.26.4", "pandas==2.3.3", "scipy==1.11.4"),
        *("scikit-learn==1.9.1", "setuptools==65.5.0", "ray==2.6.3", "tensorboard==2.21.0"),
        *("thop==0.1.1.post2209072238", "plotly==7.1.0"),
    ),
)
WORKER = Path(__file__).with_name("recbole_worker.py")


@dataclass(frozen=True)
class RecBole(Recipe):
    """A general recommender of RecBole, trained on all events.

    model: the name of its class, such as BPR, LightGCN, NeuMF, MultiVAE, EASE, SLIMElastic.
    settings: options of the model and the trainer by RecBole's names, such as
        {"embedding_size": 64, "epochs": 50}; RecBole ignores unknown names.
    threads: None uses all cores. seed: of random draws.
    """

    model: str = "BPR"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Environment] = ENVIRONMENT
    require = staticmethod(ENVIRONMENT.check)
    provenance = staticmethod(ENVIRONMENT.provenance)
    restore = staticmethod(ScoreTable.restored)

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, data: Any) -> Ranker:
        """Return a Ranker over all scores; the first call installs RecBole."""
        events = as_dataset(data)
        what = f"recbole's {self.model}"
        table = empty_table(what, events)
        python = self.requirement.ready()
        with TemporaryDirectory(prefix="fmpair-") as name:
            folder = Path(name)
            _write_job(self, events, folder)
            log = self.requirement.folder / f"worker-{os.getpid()}.log"
            command = (str(python), "-P", str(WORKER), name)  # -P: no imports from our folder
            run(command, log, what, cwd=folder, env=_environ(self.threads))
            table[:] = _read_scores(folder / "scores.npy", table.shape, what)
        return Ranker.of(self, events, ScoreTable.of(table))


def _write_job(recipe: RecBole, data: Dataset, folder: Path) -> None:
    """Write the input of the worker: the events with numbers as ids, and the options."""
    columns = [name for name in ("rating", "timestamp") if name in data.columns.columns]
    users, items = (Vocabulary(pl.Series(np.arange(len(v)))) for v in (data.users, data.items))
    numbered = Dataset(users, items, data.user, data.item, data.columns.select(columns))
    (folder / "events").mkdir()
    write(numbered, folder / "events" / "events.inter")
    job = {
        "model": recipe.model,
        "settings": dict(recipe.settings),
        "seed": recipe.seed,
        "threads": recipe.threads or os.cpu_count() or 1,
        "users": len(data.users),
        "items": len(data.items),
        "columns": ["user_id", "item_id", *columns],
    }
    (folder / "job.json").write_text(json.dumps(job), "utf-8")


def _environ(threads: int | None) -> dict[str, str]:
    """Return the environment variables without those that point Python to our packages."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return inherited if threads is None else {**inherited, "OMP_NUM_THREADS": str(threads)}


def _read_scores(path: Path, shape: tuple[int, ...], what: str) -> np.ndarray:
    if not path.exists():
        raise TrainingError(f"{what} wrote no scores")
    scores = np.load(path)
    if scores.shape != shape:
        raise TrainingError(f"{what} wrote scores of shape {scores.shape}, not {shape}")
    return scores
