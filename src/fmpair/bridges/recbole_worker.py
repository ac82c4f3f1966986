"""Train a model of RecBole; runs in a Python that has RecBole but not fmpair.

    python recbole_worker.py FOLDER

The folder holds job.json (model, settings, seed, threads, columns, users, items) and the events
in events/events.inter, whose ids are numbers. The result is scores.npy, float32 [users, items],
NaN for missing scores.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

USERS_AT_ONCE = 64
ALL_EVENTS = {"split": {"RS": [1, 0, 0]}, "order": "RO", "group_by": None, "mode": "full"}


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text("utf-8"))
    _check_known(job["model"])
    import_module("torch").set_num_threads(job["threads"])
    config = _config(folder, job)
    data = import_module("recbole.data")
    dataset = data.create_dataset(config)
    model = _trained(config, dataset)
    np.save(folder / "scores.npy", _scores(model, dataset, (job["users"], job["items"])))


def _check_known(model: str) -> None:
    """Check that a model is a general recommender, which needs only user-item interactions."""
    known = vars(import_module("recbole.model.general_recommender"))
    names = [name for name, value in known.items() if isinstance(value, type)]
    if model not in names:
        raise LookupError(f"unknown general recommender {model!r}. Known: {', '.join(names)}")


def _config(folder: Path, job: dict[str, Any]) -> Any:
    """Return RecBole's configuration: the settings of the job, trained on all events."""
    defaults = {
        "seed": job["seed"],
        "reproducibility": True,
        "show_progress": False,
        "load_col": {"inter": job["columns"]},
        "eval_args": ALL_EVENTS,
        "data_path": str(folder),
        "checkpoint_dir": str(folder / "saved"),
    }
    make = import_module("recbole.config").Config
    config = make(job["model"], "events", config_dict={**defaults, **job["settings"]})
    import_module("recbole.utils").init_seed(config["seed"], config["reproducibility"])
    return config


def _trained(config: Any, dataset: Any) -> Any:
    """Return the model after all its epochs, without early stopping."""
    loading = import_module("recbole.data.utils")
    utils = import_module("recbole.utils")
    parts = dataset.build()
    sampler = loading.create_samplers(config, dataset, parts)[0]
    loader = loading.get_dataloader(config, "train")
    train = loader(config, parts[0], sampler, shuffle=config["shuffle"])
    model = utils.get_model(config["model"])(config, train.dataset).to(config["device"])
    trainer = utils.get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
    trainer.fit(train, saved=False, show_progress=False)
    return model


def _scores(model: Any, dataset: Any, shape: tuple[int, int]) -> np.ndarray:
    """Return float32 [users, items], indexed by the numbers in the events file."""
    torch, data = import_module("torch"), import_module("recbole.data.interaction")
    known_users, known_items = (
        np.array(dataset.field2id_token[name][1:], np.int64) for name in ("user_id", "item_id")
    )
    out = np.full(shape, np.nan, np.float32)
    model.eval()
    with torch.no_grad():
        for first in range(0, len(known_users), USERS_AT_ONCE):
            users = known_users[first : first + USERS_AT_ONCE]
            numbers = torch.arange(first + 1, first + 1 + len(users))  # 0 is RecBole's padding
            batch = data.Interaction({"user_id": numbers}).to(model.device)
            scores = model.full_sort_predict(batch).view(len(users), -1)
            out[np.ix_(users, known_items)] = scores.cpu().numpy()[:, 1:]
    return out


if __name__ == "__main__":
    main(Path(sys.argv.pop()))  # pop it, because RecBole also parses the command line
