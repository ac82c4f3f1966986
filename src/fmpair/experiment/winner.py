"""The best model of a run, fitted to all events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Candidate, Experiment
from fmpair.experiment.cell import Cell, canonical
from fmpair.experiment.direction import sign
from fmpair.experiment.fitting import fit_to_epoch, recipe_of, visible
from fmpair.experiment.folder import MODEL, WINNER, RunFolder, digest, read_json, write_json
from fmpair.experiment.plan import Trial
from fmpair.experiment.prepare import PreparedData
from fmpair.experiment.tuning import value_of

Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Winner:
    """model: with the options to fit it with; value: its mean; epochs: where to stop, if ever."""

    model: Candidate
    metric: str
    value: float
    seed: int
    epochs: int | None = None


def choose(
    experiment: Experiment, planned: Sequence[Cell], trials: Sequence[Trial], records: Records
) -> Winner | None:
    """The model with the best mean over folds and seeds under the first protocol.

    A model with a failed cell is left out; None where all are. Of the options that tuning chose
    for the folds the most frequent are taken; of equally frequent ones those that did best on
    their validation set. Where training stopped early: the mean of the kept epochs.
    """
    protocol = next(iter(experiment.protocols.values()))
    wanted = experiment.compare.metric or experiment.metrics[0]
    name, better = protocol.name(wanted), sign(wanted)
    means: dict[str, float] = {}
    for model in experiment.models:
        own = [records[cell.id] for cell in planned if cell.model.name == model.name]
        if all(record["error"] is None for record in own):
            values = [record["protocols"][0]["means"].get(name) for record in own]
            if None not in values:
                means[model.name] = sum(values) / len(values)
    if not means:
        return None
    best = max(means, key=lambda label: better * means[label])
    cells = [cell for cell in planned if cell.model.name == best]
    model = _model(experiment, cells, trials, records)
    epochs = [records[cell.id]["epochs"] for cell in cells]
    stopped = round(sum(epochs) / len(epochs)) if model.stop is not None else None
    return Winner(model, name, means[best], experiment.seeds[0], stopped)


def refit(
    winner: Winner, bench: PreparedData, folder: RunFolder, threads: int | None
) -> dict[str, Any]:
    """Fit to every event and save; what is already there is not made again. Gives winner.json."""
    spec = {
        "data": bench.fingerprint,
        "model": winner.model.name,
        "kind": winner.model.kind,
        "options": canonical(winner.model.options),
        "seed": winner.seed,
        "epochs": winner.epochs,
        "context": winner.model.context,
        "user_fields": winner.model.user_fields,
        "item_fields": winner.model.item_fields,
        "metric": winner.metric,
        "value": winner.value,
    }
    path, had = folder.path / MODEL, read_json(folder.path / WINNER) or {}
    whole = path.is_file() and digest(path) == had.get("sha256")
    if whole and canonical({**had, "sha256": None}) == canonical({**spec, "sha256": None}):
        return had
    recipe = recipe_of(winner.model, winner.seed, threads)
    fit_to_epoch(recipe, visible(bench.whole(), winner.model), winner.epochs).save(path)
    made = {**spec, "sha256": digest(path)}
    write_json(folder.path / WINNER, made)
    return made


def failure(folder: str | Path) -> str:
    """Why a run has no model of its winner, empty where it has one or has not come so far."""
    return str((read_json(Path(folder) / WINNER) or {}).get("error", ""))


def _model(
    experiment: Experiment, cells: Sequence[Cell], trials: Sequence[Trial], records: Records
) -> Candidate:
    """The candidate with the options of most folds."""
    times = Counter(canonical(cell.model.options) for cell in cells)
    judged = {
        canonical(trial.cell.model.options): value_of(experiment, records[trial.cell.id])
        for trial in trials
        if trial.cell.model.name == cells[0].model.name
    }
    better = sign(experiment.tune.metric or experiment.metrics[0])

    def rank(cell: Cell) -> tuple[int, float]:
        text = canonical(cell.model.options)
        return times[text], better * (judged.get(text) or 0.0)

    return max(cells, key=rank).model
