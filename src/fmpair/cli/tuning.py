"""Tuning before a fit: its flags, and the files it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.input import reading_options
from fmpair.cli.output import note, only_errors

if TYPE_CHECKING:
    from fmpair.data import Dataset
    from fmpair.models.fm_pair.fm_pair import FMPair
    from fmpair.training import Tuned

TUNING = "Tuning"

TuningTime = Annotated[
    str | None,
    typer.Option(
        "--tune",
        metavar="TIME",
        help="Search this long (90s, 5m, 2h) for better options on each user's latest event, then "
        "fit to all events. Options given as flags are kept. Ctrl-C ends the search with the best "
        "so far. The fits are stored beside the model; the same command continues.",
        rich_help_panel=TUNING,
    ),
]
Trials = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="As --tune, but try N settings; the result does not depend on the machine's speed.",
        rich_help_panel=TUNING,
    ),
]


def tuning_options(budget: str | None, trials: int | None) -> dict[str, Any]:
    """Return the options of `FMPair.tune`, checked before any file is read; {} for no tuning."""
    from fmpair.training.search import Budget

    if budget is None and trials is None:
        return {}
    Budget.of(budget, trials)
    return {"budget": budget, "trials": trials}


def tuned(
    recipe: FMPair,
    data: Dataset,
    output: Path,
    quiet: bool,
    budget: dict[str, Any],
    source: dict[str, Any] | None,
) -> Tuned:
    """Tune a recipe, and write an experiment file of the result beside the model.

    source: the section `data` of the file, None for events that no file can name.
    """
    from fmpair.files import check_writable

    trials, file = (output.with_name(output.name + end) for end in (".trials.jsonl", ".yaml"))
    check_writable(file)
    with only_errors(quiet):
        best = recipe.tune(data, **budget, file=trials, progress=not quiet)
    if not best.complete:
        note("stopped: fitting the best so far; the same command continues the search")
    if source is not None:
        best.write(file, source)
    names = f"{trials} has the trials" + (f", {file} is for fmpair run" if source else "")
    note("" if quiet else f"{best}\n{names}")
    return best


def data_section(source: str, reading: dict[str, Any]) -> dict[str, Any] | None:
    """Return the section `data` of an experiment file for events; None for standard input."""
    from fmpair.data import public_sets

    if source == "-":
        return None
    is_set = source in public_sets.names() and not Path(source).exists()
    return {"set" if is_set else "path": source, **reading_options(reading)}
