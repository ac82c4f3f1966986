"""`fit`: from a file of events to a model file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.cli.flags import with_flags
from fmpair.cli.show import note, size_of
from fmpair.cli.source import READING, Events, read_events
from fmpair.cli.update import check_target

VALIDATION = "Validation"


def fit(
    events: Events,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
    ] = Path("model.fmpair"),
    validation: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Early stopping: hold out this share of the events and keep the best epoch.",
            rich_help_panel=VALIDATION,
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of early stopping.", rich_help_panel=VALIDATION)
    ] = "ndcg@10",
    patience: Annotated[
        int,
        typer.Option(
            help="Epochs without improvement before training stops.", rich_help_panel=VALIDATION
        ),
    ] = 5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    reading: Any = None,
    recipe: Any = None,
) -> None:
    """Train on a file of events and write a model."""
    from fmpair.cli.recipe import recipe_from

    model = recipe_from(recipe)
    check_target(output)
    data = read_events(events, reading)
    note("" if quiet else f"read {data!r}"[:-1].replace("Dataset(", ""))
    began = time.perf_counter()
    fitted = model.fit(
        data, validation=validation, metric=metric, patience=patience, progress=not quiet
    )
    fitted.save(output)
    seconds = time.perf_counter() - began
    note("" if quiet else f"wrote {output} ({size_of(output)}) after {seconds:.1f} s")


def command() -> Any:
    """The command with all its flags."""
    from fmpair.cli.recipe import recipe_flags

    app = typer.Typer(add_completion=False)
    app.command()(with_flags(fit, reading=READING, recipe=recipe_flags()))
    return typer.main.get_command(app)
