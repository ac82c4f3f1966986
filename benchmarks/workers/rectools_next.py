"""Train a transformer of RecTools; runs in a Python that has RecTools and PyTorch.

    python rectools_next.py FOLDER

The folder holds job.json (model, settings, seed, device, epochs, seconds, patience, every,
length, loaders), learned.parquet and known.parquet (user, item; oldest first) and asked.npy. Each
user's last event of `learned` is held out to end the training. Results are lists.parquet (user,
item, score) and facts.json.
"""

import json
import resource
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytorch_lightning as lightning
import torch
from rectools import models
from rectools.dataset import Dataset


def main(folder):
    job = json.loads((folder / "job.json").read_text())
    learned, known = (interactions(folder / f"{part}.parquet") for part in ("learned", "known"))
    lightning.seed_everything(job["seed"], verbose=False)
    torch.set_float32_matmul_precision("high")
    begin = time.perf_counter()
    model = getattr(models, job["model"])(
        **job["settings"], get_val_mask_func=last_events,
        get_trainer_func=lambda: trainer(job, folder), recommend_torch_device=job["device"],
        dataloader_num_workers=job["loaders"],
    )  # fmt: skip
    model.fit(Dataset.construct(learned))
    seconds = time.perf_counter() - begin
    fitted = model.fit_trainer  # a copy of ours
    clock = next(one for one in fitted.callbacks if isinstance(one, Clock))
    path = fitted.checkpoint_callback.best_model_path
    best = torch.load(path, map_location="cpu", weights_only=False)
    model.lightning_model.load_state_dict(best["state_dict"])
    model.lightning_model.to(job["device"])
    asked = np.load(folder / "asked.npy")
    asked = asked[np.isin(asked, known["user_id"].unique())]
    lists = model.recommend(
        asked, Dataset.construct(known), k=job["length"], filter_viewed=True,
        on_unsupported_targets="ignore",
    )  # fmt: skip
    lists = pd.DataFrame({
        "user": lists["user_id"], "item": lists["item_id"], "score": -lists["rank"].astype(float)
    })  # fmt: skip
    lists.to_parquet(folder / "lists.parquet")
    facts = {
        "seconds": round(seconds, 2), "epochs": clock.epochs, "best_epoch": int(best["epoch"]) + 1,
        "seconds_to_best": round(clock.at[int(best["epoch"])], 2),
        "best_recall": round(float(fitted.checkpoint_callback.best_model_score), 4),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip
    if job["device"] == "cuda":
        facts["gpu_mb"] = torch.cuda.max_memory_allocated() >> 20
    (folder / "facts.json").write_text(json.dumps(facts))


def interactions(path):
    """RecTools' table of events; times are the order of rows."""
    frame = pd.read_parquet(path).rename(columns={"user": "user_id", "item": "item_id"})
    moments = pd.to_datetime(np.arange(len(frame)), unit="s")
    return frame.assign(weight=1.0, datetime=moments)


def last_events(interactions):
    """True for each user's last event."""
    rank = interactions.sort_values("datetime").groupby("user_id").cumcount(ascending=False)
    return (rank == 0).reindex(interactions.index).to_numpy()


class Clock(lightning.Callback):
    """Seconds since the beginning of training at the end of every epoch."""

    def on_train_start(self, trainer, module):
        self.begin, self.at, self.epochs = time.perf_counter(), {}, 0

    def on_train_epoch_end(self, trainer, module):
        self.epochs = trainer.current_epoch + 1
        self.at[trainer.current_epoch] = time.perf_counter() - self.begin


class Recall(lightning.Callback):
    """Recall@10 of the validation events among items that are not in the user's session."""

    def on_validation_epoch_start(self, trainer, module):
        self.hits = self.asked = 0

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx):
        scores = outputs["logits"].view(len(batch["y"]), -1).clone()
        scores.scatter_(1, batch["x"], -torch.inf)
        self.hits += int((scores.topk(10).indices == batch["y"]).sum())
        self.asked += len(scores)

    def on_validation_epoch_end(self, trainer, module):
        module.log("recall", self.hits / max(self.asked, 1))


def trainer(job, folder):
    watched = {"monitor": "recall", "mode": "max"}
    keep = lightning.callbacks.ModelCheckpoint(dirpath=folder, filename="best", **watched)
    stop = lightning.callbacks.EarlyStopping(patience=job["patience"], **watched)
    return lightning.Trainer(
        accelerator="gpu" if job["device"] == "cuda" else "cpu", devices=1, logger=False,
        max_epochs=job["epochs"], min_epochs=1, max_time=timedelta(seconds=job["seconds"]),
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[Recall(), keep, stop, Clock()], num_sanity_val_steps=0,
        check_val_every_n_epoch=job["every"],
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
