"""`serve`: a model file as a service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fmpair.cli.show import note


def serve(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or a run folder.")],
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; beyond 127.0.0.1 with a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="0 takes any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(metavar="N", help="Processes that share the port.")] = 1,
    events: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where events are kept: sqlite:PATH or postgresql://...; by default a file beside "
            "the model.",
        ),
    ] = None,
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keys, one a line: every request must bring one."),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="N", help="Most requests a second of one client; 0: any.")
    ] = 100.0,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Take a new model file into service as soon as it is there."),
    ] = False,
    candidate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A second model, which answers a share of the users."),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(metavar="X", help="The share of the candidate's users; by default 0.1."),
    ] = None,
) -> None:
    """Answer over HTTP, with a page to look at."""
    from fmpair.serve.settings import Settings
    from fmpair.serve.supervisor import serve as carry_out

    settings = Settings(
        model, host, port, workers, events, api_key_file, rate, watch, candidate, share
    )
    carry_out(settings, note)
