"""Lists of the transformers of RecTools, trained in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from environment import rectools
from tasks import Task

from fmpair import Dataset, Protocol
from fmpair.evaluation import Evaluation, judge

WORKER = Path(__file__).parent / "workers" / "rectools_next.py"
LENGTH = 20
PATIENCE = 20  # validations without a better one
EVERY = 2  # epochs between two validations
# Epochs without a better validation after which a run that a time limit stopped counts as finished.
SETTLED = 20
LOADERS = 3  # processes that prepare batches

# Sizes as the authors of RecTools chose them for these sets (blondered/transformer_benchmark,
# configs/paper/loo), with RecTools' default loss, softmax over all items. HSTU takes the same, with
# the temperature of its authors: its scores are cosines, and RecTools divides them by 1.
AMAZON: dict[str, Any] = {
    "n_factors": 256, "n_blocks": 1, "n_heads": 1, "dropout_rate": 0.2, "session_max_len": 50,
    "loss": "softmax",
}  # fmt: skip
MOVIES: dict[str, Any] = {
    "n_factors": 64, "n_blocks": 2, "n_heads": 1, "dropout_rate": 0.1, "session_max_len": 200,
    "loss": "softmax",
}  # fmt: skip
SETTINGS = {"amazon-beauty": AMAZON, "amazon-sports": AMAZON,
            "ml-1m-sequences": MOVIES, "ml-1m-clock": MOVIES}  # fmt: skip
EPOCHS = {"amazon-beauty": 200, "amazon-sports": 200, "ml-1m-sequences": 100, "ml-1m-clock": 100}
MODELS = {
    "sasrec": ("SASRecModel", {}),
    "hstu": (
        "HSTUModel",
        {"relative_time_attention": False, "lightning_module_kwargs": {"logits_t": 0.05}},
    ),
}


def judged(
    task: Task, name: str, model: str, device: str, seed: int
) -> tuple[Evaluation, dict[str, Any]]:
    """Return how the lists are judged, and times, memory and settings of the training."""
    with tempfile.TemporaryDirectory() as folder:
        asked = write_job(Path(folder), task, name, model, device, seed)
        python = os.environ.get("RECTOOLS") or str(rectools())
        subprocess.run([python, str(WORKER), folder], check=True)
        return read_lists(Path(folder), asked)


def write_job(place: Path, task: Task, name: str, model: str, device: str, seed: int) -> Task:
    """Write what the worker needs; return the task with one list per user.

    The events that are only shown are RecTools' validation events, by which the best epoch is
    chosen; on a cut in time each user's last training event is.
    """
    kind, own = MODELS[model]
    job = {
        "model": kind, "settings": {**SETTINGS[name], **own}, "seed": seed, "device": device,
        "epochs": EPOCHS[name], "seconds": int(os.environ.get("RECTOOLS_SECONDS", 3600)),
        "patience": PATIENCE, "every": EVERY, "length": LENGTH, "loaders": LOADERS,
    }  # fmt: skip
    learned = in_order(task.known)
    if task.protocol.targets == "last":
        task = before_last(task)
    (place / "job.json").write_text(json.dumps(job))
    learned.write_parquet(place / "learned.parquet")
    in_order(task.known).write_parquet(place / "known.parquet")
    np.save(place / "asked.npy", task.test.frame()["user"].unique(maintain_order=True).to_numpy())
    return task


def read_lists(place: Path, task: Task) -> tuple[Evaluation, dict[str, Any]]:
    """Return the evaluation of the worker's lists, and what it says of the training."""
    facts = json.loads((place / "facts.json").read_text())
    lists = pl.read_parquet(place / "lists.parquet")
    job = json.loads((place / "job.json").read_text())
    found = judge(lists, task.known, task.test, task.protocol, task.metrics)
    return found, {**facts, "settings": job["settings"]}


def unfinished(row: Mapping[str, Any]) -> str:
    """Return why a result does not show what the model can reach; empty if it does."""
    total, waited = EPOCHS[row["set"]], row["epochs"] - row["best_epoch"]
    if row["epochs"] >= total or waited >= SETTLED:
        return ""
    return (
        f"stopped by a time limit after {row['epochs']} of {total} epochs, {waited} after its best"
    )


def before_last(task: Task) -> Task:
    """Return a task with one list per user: the last event of each test user after all others."""
    both = pl.concat([task.train.frame(), task.test.frame()]).sort("timestamp", maintain_order=True)
    asked = pl.col("user").is_in(task.test.frame()["user"].unique().implode())
    last = asked & (pl.int_range(pl.len()).over("user") == pl.len().over("user") - 1)
    known, test = (Dataset.from_frame(both.filter(part)) for part in (~last, last))
    return Task(task.train, known, test, Protocol(), task.metrics)


def in_order(data: Dataset) -> pl.DataFrame:
    """Return (user, item), the events of each user oldest first."""
    frame = data.frame()
    if "timestamp" in frame.columns:
        frame = frame.sort("timestamp", maintain_order=True)
    return frame.select("user", "item")
