"""Hyper-parameter search on the validation set, and the best model of a run.

Optuna proposes settings from the values so far. All studies advance together, `tune.parallel`
trials at a time. A trial is a cell like any other, and a stored one is not run again, so a run
resumes by repeating the same proposals. No setting is tried twice. A trial whose model fails
counts as the worst; a trial that a fault of the machine ended stops the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Candidate, Experiment
from fmpair.errors import MachineError, OptionError
from fmpair.experiment import plan
from fmpair.experiment.cell import VALIDATION, Cell, canonical, fit_to_epoch, recipe_of, visible
from fmpair.experiment.folder import MODEL, WINNER, RunFolder, digest, read_json, write_json
from fmpair.experiment.plan import Chosen, Space, Trial, tuning_metric
from fmpair.experiment.prepared import PreparedData
from fmpair.metrics import ERRORS, Metric

Records = Mapping[str, Mapping[str, Any]]  # by cell id
RunCells = Callable[[list[Cell]], Records]
LOWER_IS_BETTER = (*ERRORS, "gini", "popularity")
WORST = float("-inf")
PROPOSALS = 10  # of Optuna for a new setting, before the first untried one is taken


def sign(metric: str) -> int:
    """Return 1 where higher values of a metric such as `recall@10` are better, else -1."""
    return -1 if Metric.parse(metric).name in LOWER_IS_BETTER else 1


@dataclass(eq=False)
class Study:
    """The search for one model's options on one fold; best: (score, options)."""

    model: Candidate
    fold: int
    space: Space
    optuna: Any
    best: tuple[float, dict[str, Any]] | None = None
    trials: list[Trial] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)  # settings, as canonical text
    exhausted: bool = False

    def __str__(self) -> str:
        return f"{self.model.name}, fold {self.fold}"


@dataclass(frozen=True, eq=False)
class Proposal:
    """A setting to try: its number in the study, Optuna's trial, its options and its cell."""

    study: Study
    number: int
    trial: Any
    options: dict[str, Any]
    cell: Cell


def require_optuna(experiment: Experiment) -> None:
    """Raise before any training if tuning needs Optuna and it is not installed."""
    if not any(model.search for model in experiment.models):
        return
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise OptionError("tuning needs Optuna: pip install 'fmpair[tune]'") from None


def tune(
    experiment: Experiment, prepared: PreparedData, run_cells: RunCells,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Chosen, list[Trial]]:  # fmt: skip
    """Return the options chosen by model and fold, and all trials; the test set is not used.

    report: is called with a line for every search that ends before its budget does.
    """
    studies = [
        Study(model, fold, space := plan.space_of(model), _study(experiment, space))
        for model in experiment.models
        if model.search
        for fold in range(len(prepared.splits))
    ]
    budget, parallel = experiment.tune.trials, experiment.tune.parallel
    for first in range(0, budget, parallel):
        proposals = []
        for number in range(first, min(first + parallel, budget)):
            for study in studies:
                proposal = _propose(study, experiment, prepared, number)
                if proposal is not None:
                    proposals.append(proposal)
                elif not study.exhausted:
                    study.exhausted = True
                    report(f"{study}: all {number} settings are tried; "
                           f"{budget - number} of {budget} trials are not needed")  # fmt: skip
        records = run_cells([proposal.cell for proposal in proposals])
        for proposal in proposals:
            _score(experiment, proposal, records[proposal.cell.id])
    chosen = {(s.model.name, s.fold): s.best[1] for s in studies if s.best is not None}
    return chosen, [trial for study in studies for trial in study.trials]


def _study(experiment: Experiment, space: Space) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=experiment.tune.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(space.default_params())
    return study


def _propose(
    study: Study, experiment: Experiment, prepared: PreparedData, number: int
) -> Proposal | None:
    """Return an untried setting, None where there is none left."""
    new = None if study.exhausted else _new_setting(study)
    if new is None:
        return None
    trial, options = new
    model = plan.with_options(study.model, options)
    cell = plan.cell_of(experiment, prepared, model, study.fold, experiment.seeds[0], VALIDATION)
    study.tried.add(canonical(options))
    study.trials.append(Trial(number, cell))
    return Proposal(study, number, trial, options, cell)


def _new_setting(study: Study) -> tuple[Any, dict[str, Any]] | None:
    """Return Optuna's trial and its options; if Optuna repeats itself, the first untried one."""
    from optuna.trial import TrialState

    size = study.space.size
    if size is not None and len(study.tried) >= size:
        return None
    for _ in range(PROPOSALS):
        trial = study.optuna.ask()
        options = study.space.suggested(trial)
        if canonical(options) not in study.tried:
            return trial, options
        study.optuna.tell(trial, state=TrialState.FAIL)  # a setting must count only once
    if size is None:
        return None
    every = (study.space.numbered(n) for n in range(size))
    params = next(p for p in every if canonical(study.space.options(p)) not in study.tried)
    study.optuna.enqueue_trial(params)
    trial = study.optuna.ask()
    return trial, study.space.suggested(trial)


def _score(experiment: Experiment, proposal: Proposal, record: Mapping[str, Any]) -> None:
    """Tell Optuna the value of a trial, and keep the best options so far."""
    study = proposal.study
    if record["error"] is not None and not record["by_model"]:
        setting = ", ".join(f"{name} {value}" for name, value in proposal.options.items())
        raise MachineError(
            f"{study}: trial {proposal.number} ({setting}) was not finished: {record['error']}; "
            "the run stops so that no setting is chosen by a fault; the same command resumes it"
        )
    value = value_of(experiment, record)
    score = WORST if value is None else value * sign(tuning_metric(experiment))
    study.optuna.tell(proposal.trial, score)
    if study.best is None or score > study.best[0]:
        study.best = score, proposal.options


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

    Models with a failed cell are left out; None where all are. Of the options that tuning chose
    for the folds the most frequent win, then those with the best value on the validation set.
    With early stopping the number of epochs is the mean of those kept.
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
    own = [cell for cell in planned if cell.model.name == best]
    model = _most_frequent(experiment, own, trials, records)
    epochs = [records[cell.id]["epochs"] for cell in own]
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


def refit(winner: Winner, prepared: PreparedData, folder: RunFolder, threads: int | None) -> None:
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
    recipe = recipe_of(winner.model, winner.seed, threads)
    fit_to_epoch(recipe, visible(prepared.whole(), winner.model), winner.epochs).save(path)
    write_json(folder.path / WINNER, {**spec, "sha256": digest(path)})


def failure(folder: str | Path) -> str:
    """Return why a run has no model of its winner; empty if it has one or is not finished."""
    return str((read_json(Path(folder) / WINNER) or {}).get("error", ""))
