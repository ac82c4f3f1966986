"""Hyper-parameter search on the validation set, and the best model of a run.

All studies advance together, `tune.parallel` trials at a time. A trial is a cell like any other,
and a stored one is not run again, so a run resumes by repeating the same proposals. No setting is
tried twice. A trial whose model fails counts as the worst. A fault of the machine during a trial
stops the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fmpair.config.experiment import Candidate, Experiment
from fmpair.config.model_section import budget_of
from fmpair.errors import MachineError
from fmpair.experiment import plan
from fmpair.experiment.cell import VALIDATION, Cell, by_model, fit_to_epoch, recipe_of, visible
from fmpair.experiment.folder import MODEL, WINNER, RunFolder, digest, read_json, write_json
from fmpair.experiment.plan import Chosen, Trial, Tunable, tuning_metric
from fmpair.experiment.prepared import PreparedData
from fmpair.metrics import ERRORS, Metric
from fmpair.training.search import Job, Search, Space, canonical

Records = Mapping[str, Mapping[str, Any]]  # by cell id
RunCells = Callable[[list[Cell]], Records]
LOWER_IS_BETTER = (*ERRORS, "gini", "popularity")


def sign(metric: str) -> int:
    """Return 1 where higher values of a metric such as `recall@10` are better, else -1."""
    return -1 if Metric.parse(metric).name in LOWER_IS_BETTER else 1


@dataclass(frozen=True, eq=False)
class Study:
    """The search for one model's options on one fold."""

    model: Candidate
    fold: int
    tunable: Tunable
    search: Search
    trials: list[Trial] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.model.name}, fold {self.fold}"

    def options(self, number: int, rung: int | None = None) -> dict[str, Any]:
        """Return the options of a setting, on a rung or in full."""
        last = len(self.tunable.costs) - 1
        setting = self.search.settings[number]
        return self.tunable.options_on_rung(setting, last if rung is None else rung)

    @property
    def chosen(self) -> dict[str, Any]:
        return self.options(self.search.best() or 0)

    def progress(self, job: Job, better: int) -> str:
        """Return the number of a trial, the best value so far, and the share of the budget."""
        search, rungs, used = self.search, len(self.tunable.costs), ""
        if search.budget.seconds is not None:
            used = f", {min(search.spent / search.budget.seconds, 1):.0%} of {search.budget}"
        elif search.budget.trials is not None:
            used = f" of {min(search.budget.trials, search.space.size or search.budget.trials)}"
        stage = f" (stage {job.rung + 1} of {rungs})" if rungs > 1 else ""
        text = f"trial {job.number + 1}{used}{stage}"
        if (best := search.best()) is None:
            return text
        value = better * search.score(Job(best, search.compared))
        return f"{text}, best {value:.4f}"

    def marked(self) -> list[Trial]:
        """Return the trials, those of the chosen setting marked."""
        number = (self.search.best() or 0) + 1
        return [replace(trial, chosen=trial.number == number) for trial in self.trials]


def tune(
    experiment: Experiment, prepared: PreparedData, run_cells: RunCells,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Chosen, list[Trial]]:  # fmt: skip
    """Return the options chosen by model and fold, and all trials; the test set is not used.

    report: is called with a line for every search that ends before its budget does.
    """
    studies = [
        _study(experiment, prepared, model, fold)
        for model in experiment.models
        if model.tuned
        for fold in range(len(prepared.splits))
    ]
    while trials := _next_trials(experiment, prepared, studies):
        records = run_cells([cell for _, _, cell in trials])
        for study, job, cell in trials:
            _report(experiment, study, job, records[cell.id])
    for study in studies:
        done, most = len(study.search.settings), study.search.budget.trials
        if most is not None and done < most:
            report(f"{study}: all {done} settings are tried; {most - done} of {most} trials are "
                   "not needed")  # fmt: skip
    chosen = {(study.model.name, study.fold): study.chosen for study in studies}
    return chosen, [trial for study in studies for trial in study.marked()]


def _study(experiment: Experiment, prepared: PreparedData, model: Candidate, fold: int) -> Study:
    data, split = prepared.fold(fold)
    tunable: Tunable
    try:
        tunable = plan.tunable(model, split.training(data), experiment.seeds[0])
    except Exception as error:
        if not by_model(error):
            raise
        tunable = plan.Ranges(Space({}))  # its cells will report the error
    budget = budget_of(model, experiment.tune.trials)
    search = Search(tunable.space, budget, tunable.costs, experiment.tune.seed)
    return Study(model, fold, tunable, search)


def _next_trials(
    experiment: Experiment, prepared: PreparedData, studies: Sequence[Study]
) -> list[tuple[Study, Job, Cell]]:
    """Return the next fits of all studies and their cells."""
    trials = []
    for _ in range(experiment.tune.parallel):
        for study in studies:
            job = study.search.ask()
            if job is None:
                continue
            model = plan.with_options(study.model, study.options(job.number, job.rung))
            seed = experiment.seeds[0]
            cell = plan.cell_of(experiment, prepared, model, study.fold, seed, VALIDATION)
            cell = replace(cell, trial=study.progress(job, sign(tuning_metric(experiment))))
            study.trials.append(Trial(job.number + 1, cell))
            trials.append((study, job, cell))
    return trials


def _report(experiment: Experiment, study: Study, job: Job, record: Mapping[str, Any]) -> None:
    if record["error"] is not None and not record["by_model"]:
        setting = study.search.settings[job.number]
        shown = ", ".join(f"{name} {value}" for name, value in setting.items())
        raise MachineError(
            f"{study}: trial {job.number + 1} ({shown}) was not finished: {record['error']}; "
            "the run stops, since a fault must not affect the choice; the same command resumes it"
        )
    value = value_of(experiment, record)
    better = sign(tuning_metric(experiment))
    seconds = record.get("train_seconds", 0.0) + record.get("judge_seconds", 0.0)
    study.search.tell(job, None if value is None else np.array([value * better]), seconds)


def value_of(experiment: Experiment, record: Mapping[str, Any]) -> float | None:
    """Return the tuning metric under the first protocol, None where the trial failed."""
    if record["error"] is not None:
        return None
    protocol = next(iter(experiment.protocols.values()))
    return record["protocols"][0]["means"][protocol.name(tuning_metric(experiment))]


# The best model of a run, fitted to all events.


@dataclass(frozen=True)
class Winner:
    """model: with its final options; value: its mean; epochs: of a model that stops early."""

    model: Candidate
    metric: str
    value: float
    seed: int
    epochs: int | None = None


def choose(
    experiment: Experiment, planned: Sequence[Cell], trials: Sequence[Trial], records: Records
) -> Winner | None:
    """Return the model with the best mean over folds and seeds under the first protocol.

    Models with a failed cell are left out; None if all have one. If tuning chose different options
    for the folds, the most frequent are used, among equals those with the best validation value.
    With early stopping, the number of epochs is the mean over the cells.
    """
    protocol = next(iter(experiment.protocols.values()))
    wanted = experiment.compare.metric or experiment.metrics[0]
    metric, better = protocol.name(wanted), sign(wanted)
    means: dict[str, float] = {}
    for model in experiment.models:
        cells = [records[cell.id] for cell in planned if cell.model.name == model.name]
        if all(record["error"] is None for record in cells):
            values = [record["protocols"][0]["means"].get(metric) for record in cells]
            if None not in values:
                means[model.name] = sum(values) / len(values)
    if not means:
        return None
    best = max(means, key=lambda label: better * means[label])
    best_cells = [cell for cell in planned if cell.model.name == best]
    model = _most_frequent(experiment, best_cells, trials, records)
    epochs = [records[cell.id]["epochs"] for cell in best_cells]
    stopped = round(sum(epochs) / len(epochs)) if model.stop is not None else None
    return Winner(model, metric, means[best], experiment.seeds[0], stopped)


def _most_frequent(
    experiment: Experiment, cells: Sequence[Cell], trials: Sequence[Trial], records: Records
) -> Candidate:
    """Return the candidate with the options of most folds."""
    counts = Counter(canonical(cell.model.options) for cell in cells)
    values = {
        canonical(trial.cell.model.options): value_of(experiment, records[trial.cell.id])
        for trial in trials
        if trial.cell.model.name == cells[0].model.name
    }
    better = sign(tuning_metric(experiment))

    def rank(cell: Cell) -> tuple[int, float]:
        options = canonical(cell.model.options)
        return counts[options], better * (values.get(options) or 0.0)

    return max(cells, key=rank).model


def refit(
    winner: Winner, prepared: PreparedData, folder: RunFolder, threads: int | None,
    report: Callable[[str], None] = lambda line: None,
) -> None:  # fmt: skip
    """Fit the winner to all events and save it, unless the folder has that model already."""
    spec = {
        "data": prepared.fingerprint,
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
    path, saved = folder.path / MODEL, read_json(folder.path / WINNER) or {}
    intact = path.is_file() and digest(path) == saved.get("sha256")
    if intact and canonical({**saved, "sha256": None}) == canonical({**spec, "sha256": None}):
        return
    report(f"refitting {winner.model.name} on all events")
    recipe = recipe_of(winner.model, winner.seed, threads)
    fit_to_epoch(recipe, visible(prepared.whole(), winner.model), winner.epochs).save(path)
    write_json(folder.path / WINNER, {**spec, "sha256": digest(path)})


def failure(folder: str | Path) -> str:
    """Return why a run has no model of its winner; empty if it has one or is not finished."""
    return str((read_json(Path(folder) / WINNER) or {}).get("error", ""))
