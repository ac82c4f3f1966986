"""`fit`: from a file of events to a model file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.cli.flags import with_flags
from fmpair.cli.show import note, only_errors, size_of
from fmpair.cli.source import READING, Events, opened
from fmpair.cli.update import check_target
from fmpair.errors import OptionError, named
from fmpair.files import shown
from fmpair.text import harmless

VALIDATION = "Validation"


Target = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The model file to write.")
]
Share = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Early stopping: hold out this share of the events and keep the best epoch.",
        rich_help_panel=VALIDATION,
    ),
]
MetricName = Annotated[
    str, typer.Option(help="The metric of early stopping.", rich_help_panel=VALIDATION)
]
Patience = Annotated[
    int,
    typer.Option(
        help="Epochs without improvement before training stops.", rich_help_panel=VALIDATION
    ),
]
KeptIn = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep what is learned so far in this file, every few seconds: interrupted, the same "
        "command goes on from there. Removed when the model is written.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only print what the columns are taken for.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]


def fit(
    events: Events,
    output: Target = Path("model.fmpair"),
    validation: Share = None,
    metric: MetricName = "ndcg@10",
    patience: Patience = 5,
    checkpoint: KeptIn = None,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    reading: Any = None,
    recipe: Any = None,
) -> None:
    """Train on a file of events and write a model."""
    from fmpair.cli.recipe import recipe_from

    model, kept = recipe_from(recipe), _kept_in(checkpoint, output)
    if not dry_run:
        check_target(output)
    found = opened(events, reading)
    if dry_run:
        typer.echo(harmless("\n".join(found.lines())))
        if found.decisions is not None:
            found.dataset()  # which says what rows it leaves out
        return
    data = found.dataset()
    note("" if quiet else "\n".join(found.lines()))
    note("" if quiet else f"read {data!r}"[:-1].replace("Dataset(", ""))
    if checkpoint is not None and checkpoint.exists() and not quiet:
        note(f"going on from {shown(checkpoint)}")
    began = time.perf_counter()
    told = {"validation": validation, "metric": metric, "patience": patience, **kept}
    with only_errors(quiet):
        fitted = model.fit(data, progress=not quiet, **told)
    fitted.save(output)
    for place in kept.values():
        place.remove()
    seconds = time.perf_counter() - began
    note("" if quiet else f"wrote {output} ({size_of(output)}) after {seconds:.1f} s")


def _kept_in(path: Path | None, output: Path) -> dict[str, Any]:
    """What `fit` is told of a checkpoint: it stays until the model is written."""
    if path is None:
        return {}
    if path.absolute() == output.absolute():
        raise OptionError(f"{named('checkpoint')} and {named('output')} must be two files")
    from fmpair.training.checkpoint import Checkpoint

    return {"checkpoint": Checkpoint(path, stays=True)}


def command() -> Any:
    """The command with all its flags."""
    from fmpair.cli.recipe import recipe_flags

    app = typer.Typer(add_completion=False)
    app.command()(with_flags(fit, reading=READING, recipe=recipe_flags()))
    return typer.main.get_command(app)
