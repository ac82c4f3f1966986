"""Commands for the events that a service keeps: export, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.cli.input import Model, model_file
from fmpair.cli.output import Output, OutputFormat, emit, note

# `serve`: a model file as a service.


Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Where to listen; beyond 127.0.0.1 with a key.")
]
Port = Annotated[int, typer.Option(metavar="PORT", help="0 takes any that is free.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Processes that share the port.")]
Events = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where events are kept: sqlite:PATH or postgresql://...; by default a file beside the "
        "model.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Keys, one a line: every request must bring one."),
]
Rate = Annotated[
    float, typer.Option(metavar="N", help="Most requests a second of one client; 0: any.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Take a new model file into service when it is there.")
]
Candidate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A second model, which answers a share of the users."),
]
Share = Annotated[
    float | None,
    typer.Option(metavar="X", help="The share of the candidate's users; by default 0.1."),
]


def serve(
    model: Model,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    events: Events = None,
    api_key_file: Keys = None,
    rate: Rate = 100.0,
    watch: Watch = False,
    candidate: Candidate = None,
    share: Share = None,
) -> None:
    """Answer over HTTP, with a page to look at."""
    from fmpair.serve.settings import Settings
    from fmpair.serve.supervisor import serve as carry_out

    file = Path(model_file(model))
    settings = Settings(
        file, host, port, workers, events, api_key_file, rate, watch, candidate, share
    )
    carry_out(settings, note)


Store = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="Where events are kept: sqlite:PATH, a path, or postgresql://..."
    ),
]


def export(
    store: Store,
    output: Output = None,
    after: Annotated[
        int, typer.Option(metavar="POSITION", min=0, help="Only the events after this one.")
    ] = 0,
    format: OutputFormat = None,
) -> None:
    """The events as a table: user, item, timestamp, context, arm, model, position."""
    from fmpair.events.frame import frame_of

    with opened(store) as own:
        emit(frame_of(own, after), output, format)


def compare(
    store: Store,
    within: Annotated[
        str, typer.Option(metavar="TIME", help="How soon after a list an event follows it.")
    ] = "1d",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only lists from then on, such as a date.")
    ] = None,
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Whether users of the candidate do more than those of the current model.

    A row for each measure: both models, the difference with its 95 % interval, and p. Compared
    are users who were shown lists while both models were in service (`serve --candidate`).
    """
    from fmpair.events.compare import compared
    from fmpair.events.event import event_time
    from fmpair.features.field import duration

    with opened(store) as own:
        start = None if since is None else event_time(since)
        frame = compared(own, duration(within), start)
    emit(frame, output, format)
    sure = frame.filter((frame["low"] > 0) | (frame["high"] < 0))["measure"].to_list()
    note(
        f"the interval of {', '.join(sure)} leaves out 0"
        if sure
        else "every interval holds 0: no difference is shown, which is not to say there is none"
    )


def opened(url: str) -> Any:
    """The store of a URL for the time of a block; it must be there."""
    from contextlib import closing

    from fmpair.events.store import open_store

    return closing(open_store(url, make=False))


def app() -> typer.Typer:
    """The verbs as one group."""
    group = typer.Typer(help="What users of a service did: export, compare two models.")
    group.command()(export)
    group.command()(compare)
    return group
