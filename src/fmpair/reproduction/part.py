"""The parts of the paper and their experiment files; all of them in little, for a smoke test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fmpair.config.experiment import Candidate, Experiment, Step
from fmpair.config.step import by_place
from fmpair.errors import UnknownError, unknown

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
    before, after = by_place(experiment.filters)
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
