"""The paper's experiments carried out one after the other, and the page about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmpair.config.data_section import around_split
from fmpair.config.experiment import Candidate, Experiment, Step
from fmpair.config.option_schema import fold_count
from fmpair.config.read import read
from fmpair.errors import UnknownError, unknown
from fmpair.experiment.folder import PLAN
from fmpair.experiment.plan import size
from fmpair.experiment.results import results
from fmpair.experiment.run import Show, run
from fmpair.experiment.tuning import require_optuna
from fmpair.report import style
from fmpair.report.write import write as write_report
from fmpair.reproduction.summary import Summary, summary

# The parts of the paper and their experiment files; all of them in little, for a smoke test.


FOLDER = Path(__file__).parent / "experiments"
PARTS = (
    "table1",
    "table2",
    "table3",
    "table4",
    "epoch-time",
    "convergence",
    "complexity",
    "ablation",
)
ALL = "all"
QUICK_EVENTS = 3000
QUICK = {"epochs": 2, "samples": 1, "pairs": 5}  # the most of these options in a smoke test


def files(part: str) -> list[Path]:
    """The experiment files of a part, or of all parts, in the order of the paper."""
    if part not in (*PARTS, ALL):
        raise UnknownError(unknown("part of the paper", part, [*PARTS, ALL]))
    wanted = PARTS if part == ALL else (part,)
    return [path for one in wanted for path in sorted(FOLDER.glob(f"{one}-*.yaml"))]


def quick(experiment: Experiment) -> Experiment:
    """The same on a few events, with two folds, one seed and two epochs: to see that it runs."""
    sample = Step("sampled", {"count": QUICK_EVENTS})
    before, after = around_split(experiment.filters)
    split = experiment.split
    if "count" in split.options:
        split = replace(split, options={**split.options, "count": 2})
    return replace(
        experiment,
        filters=(*map(_quick_step, before), sample, *after),
        split=split,
        seeds=experiment.seeds[:1],
        models=tuple(_quick_model(model) for model in experiment.models),
        run=replace(experiment.run, workers=1, curve=min(experiment.run.curve, 1)),
    )


def _quick_step(step: Step) -> Step:
    few = {"events": QUICK_EVENTS} if step.kind == "enlarged" else {}
    return replace(step, options={**step.options, **few})


def _quick_model(model: Candidate) -> Candidate:
    options: dict[str, Any] = dict(model.options)
    known = {name: most for name, most in QUICK.items() if name in options}
    if model.kind == "gpfm":
        known["pairs"] = QUICK["pairs"]
    return replace(model, options={**options, **known}, seeds=None)


def reproduce(
    part: str = ALL,
    folder: str | Path = "runs/paper",
    small: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Show = False,
) -> dict[str, Summary]:
    """Run the experiments of a part of the paper; gives what all that ran so far have found.

    Each has a folder of its own, with its report. What is done is not done again. What is missing
    on this machine is said before the first begins.
    small: a smoke test on a few events, without those reports. say: is given a line per experiment.
    progress: how far each of them is, as in `run`.
    """
    style.require()
    place = Path(folder).absolute()
    chosen = {path.stem: experiment_of(path, place, small) for path in files(part)}
    for experiment in chosen.values():
        require_optuna(experiment)
    fits = [size(one, fold_count(one.split)) for one in chosen.values()]
    began, made = time.perf_counter(), {}
    for number, (name, experiment) in enumerate(chosen.items(), 1):
        say(f"{number} of {len(chosen)}: {name}, {fits[number - 1]:,} fits")
        found = run(experiment, progress)
        if not small:
            write_report(found, experiment.output.folder)
        say(_time_told(time.perf_counter() - began, sum(fits[:number]), sum(fits[number:])))
        for row in found.cells.filter(found.cells["error"].is_not_null()).to_dicts():
            say(f"{name}: {row['model']} failed: {row['error']}")
        if found.cells["error"].is_null().all():
            made[name] = summary(found)
    return gathered(place, made)


def _time_told(seconds: float, done: int, left: int) -> str:
    """How long it took so far, and about how long the rest will take."""
    told = f"{minutes(seconds)} so far"
    return f"{told}, about {minutes(seconds / done * left)} left" if left else f"{told}, all done"


def minutes(seconds: float) -> str:
    """`45 s`, `12 min`, `1 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def experiment_of(path: Path, folder: Path, small: bool = False) -> Experiment:
    """An experiment file with its results in a folder of their own."""
    experiment = read(path)
    output = replace(experiment.output, folder=str(folder / path.stem))
    experiment = replace(experiment, output=output)
    return quick(experiment) if small else experiment


def gathered(folder: str | Path, known: Mapping[str, Summary] | None = None) -> dict[str, Summary]:
    """By name of the experiment what all parts that were run have left in the folder.

    known: those that need not be read again.
    """
    return dict(_finished(Path(folder), known or {}))


def _finished(folder: Path, known: Mapping[str, Summary]) -> Iterator[tuple[str, Summary]]:
    for path in files(ALL):
        if path.stem in known:
            yield path.stem, known[path.stem]
            continue
        if not (folder / path.stem / PLAN).exists():  # not run
            continue
        found = results(folder / path.stem)
        if found.cells["error"].is_null().all():
            yield path.stem, summary(found)
