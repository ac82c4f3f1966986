"""Run the paper's experiments one after the other, or small versions of them as a smoke test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmpair.config.data_section import around_split
from fmpair.config.experiment import Candidate, Experiment, Step
from fmpair.config.option_schema import fold_count
from fmpair.config.read import read
from fmpair.errors import UnknownError, unknown
from fmpair.experiment.folder import PLAN, results
from fmpair.experiment.plan import size
from fmpair.experiment.progress import Show
from fmpair.experiment.run import run
from fmpair.report import figures
from fmpair.report.output import write as write_report
from fmpair.reproduction.summary import Summary, summary

FOLDER = Path(__file__).parent / "experiments"
PAPER_SECTIONS = ("table1", "table2", "table3", "table4", "epoch-time", "convergence",
                  "complexity", "ablation")  # fmt: skip
ALL = "all"
QUICK_EVENTS = 3000
QUICK = {"epochs": 2, "samples": 1, "pairs": 5}  # upper limits of these options in a smoke test


def files(part: str) -> list[Path]:
    """Return the experiment files of a section of the paper, or of all, in the paper's order."""
    if part not in (*PAPER_SECTIONS, ALL):
        raise UnknownError(unknown("part of the paper", part, [*PAPER_SECTIONS, ALL]))
    wanted = PAPER_SECTIONS if part == ALL else (part,)
    return [path for name in wanted for path in sorted(FOLDER.glob(f"{name}-*.yaml"))]


def quick(experiment: Experiment) -> Experiment:
    """Return a smoke test of the experiment: few events, two folds, one seed, two epochs."""
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
    limits = {name: most for name, most in QUICK.items() if name in options}
    if model.kind == "gpfm":
        limits["pairs"] = QUICK["pairs"]
    return replace(model, options={**options, **limits}, seeds=None)


def reproduce(
    part: str = ALL,
    folder: str | Path = "runs/paper",
    small: bool = False,
    say: Callable[[str], None] = lambda line: None,
    progress: Show = False,
) -> dict[str, Summary]:
    """Run the experiments of a section of the paper; return summaries of all runs so far.

    Each experiment has its own folder with a report. Finished experiments are not repeated. Missing
    requirements raise an error before the first begins.
    small: a smoke test on few events, without reports. say: called with a line per experiment.
    progress: as in `run`.
    """
    figures.require()
    folder = Path(folder).absolute()
    experiments = {path.stem: experiment_of(path, folder, small) for path in files(part)}
    fits = [size(each, fold_count(each.split)) for each in experiments.values()]
    began, made = time.perf_counter(), {}
    for number, (name, experiment) in enumerate(experiments.items(), 1):
        say(f"{number} of {len(experiments)}: {name}, {fits[number - 1]:,} fits")
        finished = run(experiment, progress)
        if not small:
            write_report(finished, experiment.output.folder)
        say(_time_left(time.perf_counter() - began, sum(fits[:number]), sum(fits[number:])))
        for row in finished.cells.filter(finished.cells["error"].is_not_null()).to_dicts():
            say(f"{name}: {row['model']} failed: {row['error']}")
        if finished.cells["error"].is_null().all():
            made[name] = summary(finished)
    return read_summaries(folder, made)


def _time_left(seconds: float, done: int, left: int) -> str:
    """The time so far, and an estimate of the time left."""
    so_far = f"{minutes(seconds)} so far"
    return f"{so_far}, about {minutes(seconds / done * left)} left" if left else f"{so_far}, done"


def minutes(seconds: float) -> str:
    """Format a time as `45 s`, `12 min` or `1 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest} min" if hours else f"{rest} min"


def experiment_of(path: Path, folder: Path, small: bool = False) -> Experiment:
    """Read an experiment file, with an output folder of its own."""
    experiment = read(path)
    output = replace(experiment.output, folder=str(folder / path.stem))
    experiment = replace(experiment, output=output)
    return quick(experiment) if small else experiment


def read_summaries(
    folder: str | Path, known: Mapping[str, Summary] | None = None
) -> dict[str, Summary]:
    """Return summaries of all finished experiments in the folder, by experiment name.

    known: summaries that need not be read again.
    """
    summaries = {}
    for path in files(ALL):
        if known and path.stem in known:
            summaries[path.stem] = known[path.stem]
        elif (Path(folder) / path.stem / PLAN).exists():
            finished = results(Path(folder) / path.stem)
            if finished.cells["error"].is_null().all():
                summaries[path.stem] = summary(finished)
    return summaries
