"""RecBole: its general recommenders, in an environment of their own and spoken to through files."""

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

from fmpair.arrays import Rows
from fmpair.bridges.adapter import Table, check_options, empty_table
from fmpair.data import Dataset, as_dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.data.write import write
from fmpair.errors import FmpairError, MachineError, TrainingError, UnknownError
from fmpair.features import FeatureSpace
from fmpair.files import make_folder
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe

# An environment of its own for a library that cannot live beside fmpair, made on demand.


LOG = logging.getLogger(__name__)
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "-q")


@dataclass(frozen=True)
class Environment:
    """name: the library's; python: the version it needs, such as 3.11; pins: what is installed.

    It stands in fmpair's folder for caches and is made when first asked for; other pins make
    another one.
    """

    name: str
    python: str
    pins: tuple[str, ...]

    def check(self) -> None:
        """Raise where it is not there and cannot be made."""
        if not self.executable.exists():
            self._base()

    def provenance(self) -> dict[str, str]:
        """What the report says of the library: its name and version."""
        version = next(p.partition("==")[2] for p in self.pins if p.startswith(f"{self.name}=="))
        return {"library": self.name, "version": version}

    @property
    def folder(self) -> Path:
        text = "\n".join((self.python, *self.pins))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return caches() / f"{self.name}-{digest}"

    @property
    def executable(self) -> Path:
        """Its Python."""
        return self.folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def ready(self) -> Path:
        """Its Python, after installing what is needed where that was not done before."""
        if not self.executable.exists():
            LOG.warning(
                "installing %s into an environment of its own, once: this takes minutes", self.name
            )
            self._make()
        return self.executable

    def _make(self) -> None:
        """Made beside its place and moved there when whole: half an environment is never used."""
        make_folder(caches())
        part = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}.part")
        log = self.folder.with_suffix(".log")
        try:
            venv = (self._base(), "-m", "venv", str(part))
            run(venv, log, f"making {self.name}'s environment", MachineError)
            own = str(part / self.executable.relative_to(self.folder))
            run((own, *PIP, *self.pins), log, f"installing {self.name}", MachineError)
            if not self.executable.exists():  # another process may have been quicker
                part.rename(self.folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _base(self) -> str:
        """A Python of the version needed."""
        if self.python == f"{sys.version_info.major}.{sys.version_info.minor}":
            return sys.executable
        found = shutil.which(f"python{self.python}")
        if found is None:
            raise UnknownError(
                f"{self.name} needs Python {self.python}, and there is no python{self.python} on "
                "the path: install it, fmpair does the rest"
            )
        return found


def caches() -> Path:
    """Where environments and their logs stand."""
    return Path(pooch.os_cache("fmpair")) / "environments"


def run(
    command: tuple[str, ...], log: Path, doing: str,
    failure: type[FmpairError] = TrainingError, **options: object,
) -> None:  # fmt: skip
    """Run a command to its end; what it says goes into the log, which is kept.

    failure: what is raised where the command fails; one that is killed is a MachineError.
    """
    with log.open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, **options)  # type: ignore[call-overload]
    if done.returncode < 0:
        raise MachineError(f"{doing} was ended by signal {-done.returncode} (its words in {log})")
    if done.returncode:
        said = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        wrong = [line for line in said if "rror" in line] or said or ["no word of why"]
        short = "MemoryError" in wrong[-1] or "[Errno" in wrong[-1]  # of memory, or of disk
        kind = MachineError if short else failure
        raise kind(f"{doing} failed: {wrong[-1].strip()} (all of it in {log})")


# Newer NumPy, SciPy, PyTorch, pandas or setuptools break RecBole 1.2.
ENVIRONMENT = Environment(
    "recbole",
    "3.11",
    (
        "recbole==1.2.1",
        "torch==2.5.1",
        "numpy==1.26.4",
        "pandas==2.3.3",
        "scipy==1.11.4",
        "scikit-learn==1.9.1",
        "setuptools==65.5.0",
        "ray==2.6.3",
        "tensorboard==2.21.0",
        "thop==0.1.1.post2209072238",
        "plotly==7.1.0",
    ),
)
WORKER = Path(__file__).with_name("recbole_worker.py")


@dataclass(frozen=True)
class RecBole(Recipe):
    """A general recommender of RecBole, learned from all events that it is given.

    model: the name of its class, such as BPR, LightGCN, NeuMF, MultiVAE, EASE, SLIMElastic.
    settings: the model's and the trainer's own options by RecBole's names, such as
        {"embedding_size": 64, "epochs": 50}; names that RecBole does not know it ignores.
    threads: None uses all cores. seed: of its random draws.
    """

    model: str = "BPR"
    settings: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None
    seed: int = 0
    requirement: ClassVar[Environment] = ENVIRONMENT
    require = staticmethod(ENVIRONMENT.check)
    provenance = staticmethod(ENVIRONMENT.provenance)

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, data: Any) -> Ranker:
        """A Ranker over the scores of all users and items; the first time RecBole is installed."""
        events = as_dataset(data)
        what = f"recbole's {self.model}"
        table = empty_table(what, events)
        python = self.requirement.ready()
        with TemporaryDirectory(prefix="fmpair-") as name:
            folder = Path(name)
            _write_job(self, events, folder)
            log = self.requirement.folder / f"worker-{os.getpid()}.log"
            command = (str(python), "-P", str(WORKER), name)  # -P: it must not import our modules
            run(command, log, what, cwd=folder, env=_environ(self.threads))
            table[:] = _read_scores(folder / "scores.npy", table.shape, what)
        return Ranker.of(self, events, Table.of(table))

    def restore(self, arrays: Mapping[str, np.ndarray], space: FeatureSpace, seen: Rows) -> Table:
        return Table.restored(arrays, space)


def _write_job(recipe: RecBole, data: Dataset, folder: Path) -> None:
    """What the worker reads: the events by number, and what to do with them."""
    columns = [name for name in ("rating", "timestamp") if name in data.columns.columns]
    users, items = (Vocabulary(pl.Series(np.arange(len(v)))) for v in (data.users, data.items))
    bare = Dataset(users, items, data.user, data.item, data.columns.select(columns))
    (folder / "events").mkdir()
    write(bare, folder / "events" / "events.inter")
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
    """This process's variables, less what would lead the other Python to our packages."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return own if threads is None else {**own, "OMP_NUM_THREADS": str(threads)}


def _read_scores(path: Path, shape: tuple[int, ...], what: str) -> np.ndarray:
    if not path.exists():
        raise TrainingError(f"{what} gave no scores")
    scores = np.load(path)
    if scores.shape != shape:
        raise TrainingError(f"{what} gave scores of shape {scores.shape}, not {shape}")
    return scores
