"""Commands for experiment files: init, validate, schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.decisions import table_of
from fmpair.cli.flags import with_flags
from fmpair.cli.show import note
from fmpair.cli.source import READING, reading_options
from fmpair.errors import DataError, in_file
from fmpair.text import harmless

if TYPE_CHECKING:
    from fmpair.config.experiment import Experiment

# Flags of `init`: what the file it writes says again.
SAID_AGAIN = (
    *("user", "item", "rating", "weight", "timestamp", "domain", "session", "event_type"),
    *("event_weights", "context", "leaks", "ignore", "item_columns", "order", "missing"),
    *("format", "separator", "encoding", "header", "columns", "ragged", "nulls"),
)
UNSAID = "full ranking, seen items by how often users repeat them"  # protocols a file leaves out

ExperimentFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="An experiment file: YAML, TOML or JSON.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Override a value of the file, such as models.0.factors=8."
    ),
]


def init(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A file of events.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, or -.")
    ] = Path("experiment.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what the columns are taken for.")
    ] = False,
    reading: Any = None,
) -> None:
    """Write a commented experiment file for your events."""
    from fmpair.config.starter import findings, written

    if not dry_run:
        _refuse_to_overwrite(output, force)
    found = findings(events, **reading_options(reading))
    lines = table_of(found.decisions, in_file)
    if dry_run:
        typer.echo(harmless("\n".join(lines)))
        return
    _write(output, written(found, events, output.parent))
    note("\n".join(lines))


def init_command() -> Any:
    """The verb with the flags that its file can say again."""
    return with_flags(init, reading=[one for one in READING if one.name in SAID_AGAIN])


def validate(file: ExperimentFile, overrides: Overrides = None) -> None:
    """Report all mistakes of an experiment file, or what it would run."""
    from fmpair.config.code import is_foreign
    from fmpair.config.columns import validate as validated

    experiment = validated(file, overrides or ())
    for kind in dict.fromkeys(model.kind for model in experiment.models if is_foreign(model.kind)):
        note(f"the options of {kind!r} cannot be checked: that would run its code, which takes "
             "run --allow-code")  # fmt: skip
    typer.echo("\n".join([*_summary(experiment), *_lacking(experiment)]))


def schema(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ] = Path("-"),
) -> None:
    """Print the JSON Schema of experiment files, for editors that complete and check."""
    from fmpair.config.schema import json_schema

    _write(output, json.dumps(json_schema(), indent=2) + "\n")


def _summary(experiment: Experiment) -> list[str]:
    from fmpair.config.option_schema import fold_count

    source, models = experiment.data, experiment.models
    made = f"generated {dict(source.generate)}" if source.generate is not None else None
    folds = fold_count(experiment.split)
    counts = [len(model.seeds or experiment.seeds) for model in models]
    steps = " ".join([*(step.kind for step in experiment.filters), experiment.split.kind])
    tuned = [model.name for model in models if model.search]
    lines = {
        "data": source.path or source.set or made or f"{source.train}, {source.test}",
        "then": steps,
        "models": ", ".join(model.name for model in models),
        "tuned": f"{', '.join(tuned)} ({experiment.tune.trials} trials each)" if tuned else "",
        "cells": f"{folds * sum(counts)} = {_count(len(models), 'model')} x "
        f"{_count(folds, 'fold')} x {_seeds(counts)}",
        "protocols": ", ".join(experiment.protocols) or UNSAID,
        "metrics": ", ".join(experiment.metrics),
        "results": experiment.output.folder,
    }
    return [f"{name:<10} {text}" for name, text in lines.items() if text]


def _seeds(counts: list[int]) -> str:
    """`2 seeds`, or `2 to 6 seeds` where models have seeds of their own."""
    least, most = min(counts), max(counts)
    return _count(most, "seed") if least == most else f"{least} to {most} seeds"


def _lacking(experiment: Experiment) -> list[str]:
    """What is not installed: what a run cannot do without, and what it does without."""
    from fmpair.errors import OptionError
    from fmpair.experiment.tuning import require_optuna
    from fmpair.report import style

    try:
        require_optuna(experiment)
        lines = []
    except OptionError as error:
        lines = [f"{'missing':<10} {error}"]
    if not style.available():
        lines.append(f"{'figures':<10} none without matplotlib: {style.INSTALL}")
    return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _refuse_to_overwrite(target: Path, force: bool) -> None:
    if str(target) != "-" and target.exists() and not force:
        raise DataError(f"{target} exists already: --force writes over it, -o FILE elsewhere")


def _write(target: Path, text: str) -> None:
    from fmpair.files import write_atomically

    if str(target) == "-":
        typer.echo(text, nl=False)
        return
    write_atomically(target, text.encode())
    note(f"wrote {target}")
