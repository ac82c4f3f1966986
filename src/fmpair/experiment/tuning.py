"""Hyper-parameter search on the validation set: equal budgets, in a fixed order, resumable.

Optuna proposes settings from the values so far. All studies go ahead by as many trials at a time
as the experiment says, and a trial is a cell like any other: a stored one is not run again, so
going through the same proposals is all that resuming takes. No setting is tried twice. A trial that
its model gives up counts as the worst; one that a fault of the machine ended decides nothing: the
run ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Candidate, Experiment
from fmpair.errors import MachineError, OptionError
from fmpair.experiment.cell import VALIDATION, Cell, canonical, fit_to_epoch, recipe_of, visible
from fmpair.experiment.folder import MODEL, WINNER, RunFolder, digest, read_json, write_json
from fmpair.experiment.plan import (
    Chosen,
    Space,
    Trial,
    cell_of,
    space_of,
    tuning_metric,
    with_options,
)
from fmpair.experiment.prepared import PreparedData
from fmpair.metrics import ERRORS, Metric

# Whether more of a metric is better.


LOWER_IS_BETTER = (*ERRORS, "gini", "popularity")


def sign(metric: str) -> int:
    """1 where a higher value is better, -1 where a lower one is; metric: as `recall@10`."""
    return -1 if Metric.parse(metric).name in LOWER_IS_BETTER else 1


CarryOut = Callable[[list[Cell]], Mapping[str, dict[str, Any]]]  # cells -> records by id
WORST = float("-inf")
ASKS = 10  # of Optuna for a setting that is new, before one is taken in their order


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
    over: bool = False

    def __str__(self) -> str:
        return f"{self.model.name}, fold {self.fold}"


@dataclass(frozen=True, eq=False)
class Asked:
    """A setting that Optuna (trial) wants to know the worth of."""

    study: Study
    number: int
    trial: Any
    options: dict[str, Any]
    cell: Cell


def require_optuna(experiment: Experiment) -> None:
    """Said before any training: what tuning needs."""
    if not any(model.search for model in experiment.models):
        return
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise OptionError("tuning needs Optuna: pip install 'fmpair[tune]'") from None


def tune(
    experiment: Experiment, bench: PreparedData, carry_out: CarryOut,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Chosen, list[Trial]]:  # fmt: skip
    """(options chosen by model and fold, all trials): nothing is evaluated on the test set.

    say: is given a line for every search that ends before its budget does.
    """
    studies = [
        Study(model, fold, space := space_of(model), _study(experiment, space))
        for model in experiment.models
        if model.search
        for fold in range(len(bench.splits))
    ]
    budget, at_once = experiment.tune.trials, experiment.tune.parallel
    for first in range(0, budget, at_once):
        numbers = range(first, min(first + at_once, budget))
        asked = [
            one
            for number in numbers
            for study in studies
            if (one := _next(study, experiment, bench, number, say)) is not None
        ]
        records = carry_out([one.cell for one in asked])
        for one in asked:
            _tell(experiment, one, records[one.cell.id])
    chosen = {(s.model.name, s.fold): s.best[1] for s in studies if s.best is not None}
    return chosen, [trial for study in studies for trial in study.trials]


def _next(
    study: Study, experiment: Experiment, bench: PreparedData, number: int,
    say: Callable[[str], None],
) -> Asked | None:  # fmt: skip
    """The next setting of a study; None where it is over, of which a line is said once."""
    one = None if study.over else _ask(study, experiment, bench, number)
    if one is None and not study.over:
        study.over, budget = True, experiment.tune.trials
        say(f"{study}: all {number} settings are tried, {budget - number} of {budget} trials are "
            "not needed")  # fmt: skip
    return one


def _study(experiment: Experiment, space: Space) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=experiment.tune.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(space.defaults())
    return study


def _ask(study: Study, experiment: Experiment, bench: PreparedData, number: int) -> Asked | None:
    """A setting that was not tried before, None where there is none left."""
    found = _new(study)
    if found is None:
        return None
    trial, options = found
    model = with_options(study.model, options)
    cell = cell_of(experiment, bench, model, study.fold, experiment.seeds[0], VALIDATION)
    study.tried.add(canonical(options))
    study.trials.append(Trial(number, cell))
    return Asked(study, number, trial, options, cell)


def _new(study: Study) -> tuple[Any, dict[str, Any]] | None:
    """(Optuna's trial, its options); where Optuna only repeats itself, the first that is left."""
    from optuna.trial import TrialState

    size = study.space.size
    if size is not None and len(study.tried) >= size:
        return None
    for _ in range(ASKS):
        trial = study.optuna.ask()
        options = study.space.asked(trial)
        if canonical(options) not in study.tried:
            return trial, options
        study.optuna.tell(trial, state=TrialState.FAIL)  # it is to count once
    if size is None:
        return None
    every = (study.space.numbered(n) for n in range(size))
    params = next(p for p in every if canonical(study.space.options(p)) not in study.tried)
    study.optuna.enqueue_trial(params)
    trial = study.optuna.ask()
    return trial, study.space.asked(trial)


def _tell(experiment: Experiment, asked: Asked, record: Mapping[str, Any]) -> None:
    study = asked.study
    if record["error"] is not None and not record["by_model"]:
        told = ", ".join(f"{name} {value}" for name, value in asked.options.items())
        raise MachineError(
            f"{study}: trial {asked.number} ({told}) was not finished: "
            f"{record['error']}; no setting is chosen by a fault: the same command goes on"
        )
    value = value_of(experiment, record)
    score = WORST if value is None else value * sign(tuning_metric(experiment))
    study.optuna.tell(asked.trial, score)
    if study.best is None or score > study.best[0]:
        study.best = score, asked.options


def value_of(experiment: Experiment, record: Mapping[str, Any]) -> float | None:
    """The metric of tuning under the first protocol, None where the trial failed."""
    if record["error"] is not None:
        return None
    protocol = next(iter(experiment.protocols.values()))
    return record["protocols"][0]["means"][protocol.name(tuning_metric(experiment))]


# The best model of a run, fitted to all events.


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
