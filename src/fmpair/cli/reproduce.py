"""`reproduce`: the paper's tables and figures beside its own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fmpair.cli.failure import INTERRUPTED
from fmpair.cli.show import note, show

FOLDER, QUICK_FOLDER = Path("runs/paper"), Path("runs/paper-quick")


def reproduce(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            help="table1 to table4, epoch-time, convergence, complexity, ablation, or all.",
        ),
    ] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="A smoke test on a few events, in about a minute.")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", "-f", metavar="DIR", help="Where results go.")
    ] = None,
    listing: Annotated[
        bool, typer.Option("--list", help="Name the experiment files and stop.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write reproduction.md and its images here too."),
    ] = None,
) -> None:
    """Reproduce the FM-Pair paper: its tables and figures, and a verdict on every claim."""
    from fmpair.experiment.run import Stopped
    from fmpair.reproduction.page import write, write_page
    from fmpair.reproduction.part import files
    from fmpair.reproduction.run import reproduce as carry_out

    if listing:
        show(*(str(path) for path in files(part)))
        return
    place = folder or (QUICK_FOLDER if quick else FOLDER)
    try:
        found = carry_out(part, place, quick, note, progress=not quick)
    except Stopped as stop:
        note(str(stop))
        raise typer.Exit(INTERRUPTED) from None
    if page is not None:
        note(f"wrote {write_page(found, page)}")
    show(str(write(found, place)))
