"""RecBole: its general recommenders, in an environment of their own and spoken to through files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.bridges.environment import Environment, run
from fmpair.bridges.recipe import check
from fmpair.bridges.table import Table, empty_table
from fmpair.data import Dataset, as_dataset
from fmpair.data.vocabulary import Vocabulary
from fmpair.data.write import write
from fmpair.errors import TrainingError
from fmpair.features import FeatureSpace
from fmpair.fitted.ranker import Ranker
from fmpair.fitted.recipe import Recipe

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
        check(self)

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
