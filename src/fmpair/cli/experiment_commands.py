"""Commands for experiment files: init, validate, schema, migrate, run, estimate."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fmpair.cli.flags import DryRun, On, ResultsFolder, pairs, with_flags
from fmpair.cli.input import READ_FLAGS, reading_options, role_table, table_lines
from fmpair.cli.output import (
    INTERRUPTED,
    USER_MISTAKE,
    busy,
    note,
    note_no_figures,
    only_errors,
    show,
)
from fmpair.errors import DataError, in_file
from fmpair.text import harmless

if TYPE_CHECKING:
    import polars as pl

    from fmpair.config.experiment import Experiment
    from fmpair.experiment.folder import Results

# Flags of `init`, which writes them to the file.
INIT_FLAGS = (
    *("user", "item", "rating", "weight", "timestamp", "domain", "session", "event_type"),
    *("event_weights", "context", "no_context", "leaks", "ignore", "item_columns", "display"),
    *("order", "missing"),
    *("users", "items", "vectors", "impressions", "refunds", "merge_repeats"),
    *("format", "separator", "encoding", "header", "columns", "ragged", "nulls"),
)
DEFAULT_PROTOCOL = "full ranking, seen items by how often users repeat them"

ExperimentFile = Annotated[
    str, typer.Argument(metavar="FILE", help="An experiment file: YAML, TOML or JSON.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE", help="Override a value of the file, such as models.0.factors=8."
    ),
]
Target = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write, or -.")
]


def init(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="A file of events.")],
    output: Target = Path("experiment.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    dry_run: DryRun = False,
    reading: Any = None,
) -> None:
    """Write a commented experiment file for your events."""
    from fmpair.config.starter import findings, written

    if not dry_run and str(output) != "-" and output.exists() and not force:
        raise DataError(f"{output} exists already: --force overwrites it, -o FILE writes elsewhere")
    log = findings(events, **reading_options(reading))
    lines = role_table(log.decisions, in_file)
    of_tables = table_lines(log.data, log.decisions, in_file)
    lines += ["", *of_tables] if of_tables else []
    if dry_run:
        typer.echo(harmless("\n".join(lines)))
    else:
        _write(output, written(log, events, output.parent))
        note("\n".join(lines))
    note(log.repeat_note)
    note(log.copies_note)


def init_command() -> Any:
    return with_flags(init, reading=[option for option in READ_FLAGS if option.name in INIT_FLAGS])


def validate(file: ExperimentFile, overrides: Overrides = None) -> None:
    """Report all mistakes of an experiment file, or summarize what it would run."""
    from fmpair.config.model_section import is_foreign
    from fmpair.config.read import validate as validated

    experiment = validated(file, overrides or ())
    for kind in dict.fromkeys(model.kind for model in experiment.models if is_foreign(model.kind)):
        note(f"the options of {kind!r} are not checked: that would run its code, which needs "
             "run --allow-code")  # fmt: skip
    typer.echo("\n".join([*_summary(experiment), *_low_ratings(experiment), *_missing_packages()]))


def _low_ratings(experiment: Experiment) -> list[str]:
    """Return a line if no filter says which ratings are positive."""
    from fmpair.config.data_columns import header_of, uses_ratings

    header = header_of(experiment.data, experiment.filters)
    if header is None or "rating" not in header.events or uses_ratings(experiment):
        return []
    return [f"{'ratings':<10} low ones count as positive too: filter: [above_mean] keeps those "
            "above the user's mean"]  # fmt: skip


def schema(output: Target = Path("-")) -> None:
    """Print the JSON Schema of experiment files, for completion and checks in editors."""
    from fmpair.config.option_schema import json_schema

    _write(output, json.dumps(json_schema(), indent=2) + "\n")


def _summary(experiment: Experiment) -> list[str]:
    from fmpair.config.data_section import around_split
    from fmpair.config.model_section import budget_of
    from fmpair.config.option_schema import fold_count

    source, models = experiment.data, experiment.models
    generated = f"generated {dict(source.generate)}" if source.generate is not None else None
    folds = fold_count(experiment.split)
    counts = [len(model.seeds or experiment.seeds) for model in models]
    first, late = around_split(experiment.filters)
    steps = " ".join(step.kind for step in (*first, experiment.split))
    if late:
        steps += f"; after the split, on test events too: {' '.join(step.kind for step in late)}"
    tuned = [model for model in models if model.tuned]
    lines = {
        "data": source.path or source.set or generated or f"{source.train}, {source.test}",
        "then": steps,
        "models": ", ".join(model.name for model in models),
        "tuned": f"{', '.join(model.name for model in tuned)} "
        f"({budget_of(tuned[0], experiment.tune.trials)} each)"
        if tuned
        else "",
        "cells": f"{folds * sum(counts)} = {_count(len(models), 'model')} x "
        f"{_count(folds, 'fold')} x {_seeds(counts)}",
        "protocols": ", ".join(experiment.protocols) or DEFAULT_PROTOCOL,
        "metrics": ", ".join(experiment.metrics),
        "results": experiment.output.folder,
    }
    return [f"{name:<10} {text}" for name, text in lines.items() if text]


def _seeds(counts: list[int]) -> str:
    """Return `2 seeds`, or `2 to 6 seeds` if models have their own."""
    least, most = min(counts), max(counts)
    return _count(most, "seed") if least == most else f"{least} to {most} seeds"


def _missing_packages() -> list[str]:
    """Return lines about packages that a run works without."""
    from fmpair.report import figures

    if figures.available():
        return []
    return [f"{'figures':<10} none without matplotlib: {figures.INSTALL}"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _write(target: Path, text: str) -> None:
    from fmpair.files import write_atomically

    if str(target) == "-":
        typer.echo(text, nl=False)
        return
    write_atomically(target, text.encode())
    note(f"wrote {target}")


def migrate(
    config: Annotated[str, typer.Argument(metavar="XML", help="A WrapRec configuration.")],
    parameters: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="Override a <param> of the file."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--folder", "-f", metavar="FOLDER", help="The folder to write.")
    ] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
) -> None:
    """Convert a WrapRec configuration to experiment files; list what has no equivalent."""
    from fmpair.config.migration import migrate as migrated
    from fmpair.files import write_atomically

    experiments = migrated(config, pairs(parameters or (), "a parameter"), folder)
    paths = [folder / f"{experiment.name}.yaml" for experiment in experiments]
    taken = [path for path in paths if path.exists()]
    if taken and not force:
        raise DataError(
            f"{taken[0]} exists already: --force overwrites it, --folder FOLDER writes elsewhere"
        )
    for experiment, path in zip(experiments, paths):
        write_atomically(path, experiment.text().encode())
        typer.echo(path)
        for line in experiment.notes:
            note(f"  {line}")


Workers = Annotated[
    int | None,
    typer.Option(min=1, max=256, help="Number of parallel processes, instead of the file's."),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Where to train: cpu, cuda, torch or auto, instead of the file's."
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option("--allow-code", help="Run models that the file names as package.module:Class."),
]


def run(
    file: ExperimentFile,
    overrides: Overrides = None,
    folder: ResultsFolder = None,
    workers: Workers = None,
    device: Device = None,
    on: On = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    allow_code: AllowCode = False,
) -> None:
    """Run an experiment, or resume an interrupted run."""
    from fmpair.report.output import terminal

    experiment = _experiment(file, overrides, device, folder, workers, allow_code)
    note_no_figures()
    results = run_experiment(experiment, progress=not quiet, on=on)
    show(terminal(results))
    conclude(results, quiet)


def run_experiment(experiment: Experiment, progress: bool = True, on: str | None = None) -> Results:
    """Return the results; after an interrupt, print how to resume and exit."""
    from fmpair.experiment.run import Stopped, run

    try:
        return run(experiment, progress=progress, on=on)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None


def conclude(results: Results, quiet: bool = False) -> None:
    """Write the report and print its path; exit with 1 if a cell or the final fit failed."""
    from fmpair.report.output import write

    with nullcontext() if quiet else busy("writing the report"):
        page = write(results, results.experiment.output.folder)
    failed = note_failures(results)
    here = Path.cwd()
    show(str(page.relative_to(here) if page.is_relative_to(here) else page))
    if failed:
        raise typer.Exit(USER_MISTAKE)


def note_failures(results: Results) -> bool:
    """Print what failed, if anything: a line per model, or one if nothing succeeded."""
    from fmpair.experiment.tuning import failure

    errors = results.failed
    failed, total = len(errors), len(results.cells)
    if failed and failed == total:
        note(f"no model finished: all {total} cells failed, first {errors['model'][0]}: "
             f"{errors['error'][0]}; fmpair run retries them")  # fmt: skip
        return True
    for (model,), part in errors.group_by("model", maintain_order=True):
        note(f"{model} failed {len(part)} times, first: {part['error'][0]}")
    if failed:
        note(f"{failed} of {total} cells failed; the same command retries them")
    winner = failure(results.experiment.output.folder) if results.experiment.output.refit else ""
    note(f"no model was saved: {winner}" if winner else "")
    return bool(failed or winner)


def estimate(
    file: ExperimentFile,
    overrides: Overrides = None,
    workers: Workers = None,
    device: Device = None,
    allow_code: AllowCode = False,
) -> None:
    """Estimate the duration and memory of an experiment."""
    from fmpair.experiment.estimate import estimate as estimated
    from fmpair.experiment.prepared import prepare

    experiment = _experiment(file, overrides, device, None, workers, allow_code)
    with busy("reading the events") as tell:
        prepare(experiment.data, experiment.filters, experiment.split)  # kept for the estimate
        with only_errors():  # what short fits say is not about the run
            result = estimated(experiment, tell)
    show(_estimates(result.models), str(result))


def _estimates(models: pl.DataFrame) -> Any:
    """Return a table with a row per model; a model that failed shows its error."""
    from fmpair.report.output import rich_table
    from fmpair.report.table import ReportTable, seconds
    from fmpair.report.table import cells as text_cells

    columns = ("model", "cells", "trials", "s to fit", "s to evaluate", "s in all", "peak MB")
    rows = []
    for name, cells, trials, *figures, error in models.rows():
        first = name if error is None else f"{name}: {error}"
        rows.append(text_cells(first, str(cells), str(trials), *map(seconds, figures)))
    return rich_table(ReportTable("estimate", "", columns, tuple(rows), models))


def _experiment(
    file: str,
    overrides: list[str] | None,
    device: str | None,
    folder: Path | None,
    workers: int | None,
    allow_code: bool,
) -> Experiment:
    """Return the experiment of a file, changed by the flags."""
    from fmpair.config.read import read

    on_device = [] if device is None else [f"run.device={device}"]
    experiment = read(file, [*(overrides or []), *on_device], allow_code)
    if folder is not None:
        output = replace(experiment.output, folder=str(folder.absolute()))
        experiment = replace(experiment, output=output)
    if workers is not None:
        experiment = replace(experiment, run=replace(experiment.run, workers=workers))
    return experiment
