"""Commands that run an experiment file: run, and estimate, which says how long it will take."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import On, pairs, with_flags
from fmpair.cli.input import READING, reading_options, table_of
from fmpair.cli.output import INTERRUPTED, USER_MISTAKE, busy, note, note_no_figures, show
from fmpair.errors import DataError, in_file
from fmpair.text import harmless

if TYPE_CHECKING:
    import polars as pl

    from fmpair.config.experiment import Experiment
    from fmpair.experiment.results import Results


# Commands for experiment files: init, validate, schema.


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
    from fmpair.config.model_section import is_foreign
    from fmpair.config.read import validate as validated

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
    from fmpair.config.json_schema import json_schema

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


# `migrate`: WrapRec's configuration as experiment files.


def migrate(
    config: Annotated[str, typer.Argument(metavar="XML", help="A WrapRec configuration.")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Override the file's <param> of that name."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--folder", "-f", metavar="FOLDER", help="Where the files go.")
    ] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Turn a WrapRec configuration into experiment files; list what has no equivalent."""
    from fmpair.config.migration import migrate as migrated
    from fmpair.files import write_atomically

    found = migrated(config, pairs(parameters or (), "a parameter"), folder)
    targets = [folder / f"{one.name}.yaml" for one in found]
    taken = [str(path) for path in targets if path.exists()]
    if taken and not force:
        raise DataError(f"{taken[0]} exists already: --force writes over it, --folder elsewhere")
    for one, path in zip(found, targets):
        write_atomically(path, one.text().encode())
        typer.echo(path)
        for line in one.notes:
            note(f"  {line}")


File = Annotated[
    str, typer.Argument(metavar="FILE", help="An experiment file: YAML, TOML or JSON.")
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Processes in parallel, in place of the file's number."),
]

Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where models learn: cpu, cuda, torch or auto, in place of the file's."
    ),
]

AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Run models that the file names as package.module:Class."),
]


def run(
    file: File,
    overrides: Overrides = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = None,
    workers: Workers = None,
    device: Device = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Run an experiment; the same command resumes an interrupted run."""
    experiment = _experiment(file, _with_device(overrides, device), folder, workers, allow_code)
    note_no_figures()
    results = carried_out(experiment, progress=not quiet, on=on)
    show(comparison(results))
    conclude(results, quiet)


def carried_out(experiment: Experiment, progress: bool = True, on: str | None = None) -> Results:
    """The results; interrupted, what is done is kept and one line says so."""
    from fmpair.experiment.run import Stopped, run

    try:
        return run(experiment, progress=progress, on=on)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None


def comparison(results: Results) -> Any:
    """The tables of a run, to be shown."""
    from fmpair.report.output import terminal

    return terminal(results)


def conclude(results: Results, quiet: bool = False) -> None:
    """Write the report and say where it is; exit code 1 where a cell or the winner failed."""
    from fmpair.report.output import write

    with nullcontext() if quiet else busy("writing the report"):
        page = write(results, results.experiment.output.folder)
    failed = note_failures(results)
    show(str(_shortest(page)))
    if failed:
        raise typer.Exit(USER_MISTAKE)


def note_failures(results: Results) -> bool:
    """Say what failed, if anything did: a line per model, or one where nothing went well."""
    from fmpair.experiment.tuning import failure

    errors = results.cells.filter(results.cells["error"].is_not_null())
    failed, total = len(errors), len(results.cells)
    if failed and failed == total:
        note(f"no model finished: all {total} cells failed, first {errors['model'][0]}: "
             f"{errors['error'][0]}; fmpair run tries them again")  # fmt: skip
        return True
    for (model,), part in errors.group_by("model", maintain_order=True):
        note(f"{model} failed {len(part)} times, first: {part['error'][0]}")
    if failed:
        note(f"{failed} of {total} cells failed; the same command tries them again")
    winner = failure(results.experiment.output.folder) if results.experiment.output.refit else ""
    note(f"no model is kept: {winner}" if winner else "")
    return bool(failed or winner)


def estimate(
    file: File,
    overrides: Overrides = None,
    workers: Workers = None,
    device: Device = None,
    allow_code: AllowCode = False,
) -> None:
    """How long an experiment will take, and how much memory."""
    from fmpair.experiment.estimate import estimate as estimated

    experiment = _experiment(file, _with_device(overrides, device), None, workers, allow_code)
    with busy("trying each model briefly"):
        found = estimated(experiment)
    show(_estimates(found.models), str(found))


def _estimates(models: pl.DataFrame) -> Any:
    """A row per model; beside its name the reason where one could not be tried."""
    from fmpair.report.output import rich_table
    from fmpair.report.table import ReportTable, seconds
    from fmpair.report.table import cells as text_cells

    columns = ("model", "cells", "trials", "s to fit", "s to evaluate", "s in all", "peak MB")
    rows = []
    for name, cells, trials, *figures, error in models.rows():
        first = name if error is None else f"{name}: {error}"
        rows.append(text_cells(first, str(cells), str(trials), *map(seconds, figures)))
    return rich_table(ReportTable("estimate", "", columns, tuple(rows), models))


def _with_device(overrides: list[str] | None, device: str | None) -> list[str]:
    """The overrides, with the flag's device among them."""
    return [*(overrides or []), *([] if device is None else [f"run.device={device}"])]


def _experiment(
    file: str,
    overrides: list[str],
    folder: Path | None,
    workers: int | None,
    allow_code: bool,
) -> Experiment:
    """The file's experiment, with what the flags say in place of its own."""
    from fmpair.config.read import read

    experiment = read(file, overrides, allow_code)
    if folder is not None:
        output = replace(experiment.output, folder=str(folder.absolute()))
        experiment = replace(experiment, output=output)
    if workers is not None:
        experiment = replace(experiment, run=replace(experiment.run, workers=workers))
    return experiment


def _shortest(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
