"""Hyper-parameter search on the validation set: equal budgets, in a fixed order, resumable.

Optuna proposes settings from the values so far. All studies go ahead by one trial at a time, and
a trial is a cell like any other: a stored one is not run again, so going through the same
proposals is all that resuming takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fmpair.config.experiment import Candidate, Experiment, Range
from fmpair.config.option_schema import options_of
from fmpair.errors import OptionError
from fmpair.experiment.cell import VALIDATION, Cell
from fmpair.experiment.direction import sign
from fmpair.experiment.plan import Chosen, Trial, cell_of, tuning_metric, with_options
from fmpair.experiment.prepare import PreparedData
from fmpair.models.catalog import find

CarryOut = Callable[[list[Cell]], Mapping[str, dict[str, Any]]]  # cells -> records by id
WORST = float("-inf")


@dataclass(eq=False)
class Study:
    """The search for one model's options on one fold; best: (score, options)."""

    model: Candidate
    fold: int
    optuna: Any
    best: tuple[float, dict[str, Any]] | None = None
    trials: list[Trial] = field(default_factory=list)


def require_optuna(experiment: Experiment) -> None:
    """Said before any training: what tuning needs."""
    if not any(model.search for model in experiment.models):
        return
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise OptionError("tuning needs Optuna: pip install 'fmpair[tune]'") from None


def tune(
    experiment: Experiment, bench: PreparedData, carry_out: CarryOut
) -> tuple[Chosen, list[Trial]]:
    """(options chosen by model and fold, all trials): nothing is evaluated on the test set."""
    studies = [
        Study(model, fold, _study(experiment, model))
        for model in experiment.models
        if model.search
        for fold in range(len(bench.splits))
    ]
    for number in range(experiment.tune.trials):
        asked = [_ask(study, experiment, bench, number) for study in studies]
        records = carry_out([cell for _, _, cell in asked])
        for study, (trial, options, cell) in zip(studies, asked):
            _tell(study, experiment, trial, options, records[cell.id])
    chosen = {(s.model.name, s.fold): s.best[1] for s in studies if s.best is not None}
    return chosen, [trial for study in studies for trial in study.trials]


def _study(experiment: Experiment, model: Candidate) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=experiment.tune.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.enqueue_trial(_defaults(model))
    return study


def _ask(
    study: Study, experiment: Experiment, bench: PreparedData, number: int
) -> tuple[Any, dict[str, Any], Cell]:
    trial = study.optuna.ask()
    usual = recipe_defaults(study.model.kind)
    options = {
        name: _suggest(trial, name, within, usual.get(name))
        for name, within in study.model.search.items()
    }
    model = with_options(study.model, options)
    cell = cell_of(experiment, bench, model, study.fold, experiment.seeds[0], VALIDATION)
    study.trials.append(Trial(number, cell))
    return trial, options, cell


def _tell(
    study: Study,
    experiment: Experiment,
    trial: Any,
    options: dict[str, Any],
    record: Mapping[str, Any],
) -> None:
    value = value_of(experiment, record)
    score = WORST if value is None else value * sign(tuning_metric(experiment))
    study.optuna.tell(trial, score)
    if study.best is None or score > study.best[0]:
        study.best = score, options


def value_of(experiment: Experiment, record: Mapping[str, Any]) -> float | None:
    """The metric of tuning under the first protocol, None where the trial failed."""
    if record["error"] is not None:
        return None
    protocol = next(iter(experiment.protocols.values()))
    return record["protocols"][0]["means"][protocol.name(tuning_metric(experiment))]


def recipe_defaults(kind: str) -> dict[str, Any]:
    """What a recipe's options are when nobody sets them."""
    return {name: option.default for name, option in options_of(find(kind)).known.items()}


def _defaults(model: Candidate) -> dict[str, Any]:
    """The recipe's own settings as a first trial, as far as they lie inside the ranges."""
    found: dict[str, Any] = {}
    for name, value in recipe_defaults(model.kind).items():
        within = model.search.get(name)
        if within is None:
            continue
        if value in within.values:
            found[name] = within.values.index(value)
        elif isinstance(value, int | float) and _inside(value, within):
            found[name] = value
    return found


def _inside(value: float, within: Range) -> bool:
    ends = within.low, within.high
    return ends[0] is not None and ends[1] is not None and ends[0] <= value <= ends[1]


def _suggest(trial: Any, name: str, within: Range, usual: Any) -> Any:
    """One option's value; a choice is made by place, since a value may be of any type."""
    if within.values:
        return within.values[trial.suggest_categorical(name, list(range(len(within.values))))]
    whole = isinstance(usual, int) or (
        usual is None and isinstance(within.low, int) and isinstance(within.high, int)
    )
    if whole and not isinstance(usual, bool):
        return trial.suggest_int(name, int(within.low or 0), int(within.high or 0), log=within.log)
    return trial.suggest_float(name, within.low, within.high, log=within.log)
