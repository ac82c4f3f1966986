"""Commands for services: serve, index, events export, events compare, items push."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.cli.input import Model, load_model, model_file
from fmpair.cli.output import Output, OutputFormat, emit, note, size_of

Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS", help="The address to listen on; others than 127.0.0.1 require API keys."
    ),
]
Port = Annotated[int, typer.Option(metavar="PORT", help="The port; 0 takes any free port.")]
Workers = Annotated[int, typer.Option(metavar="N", help="Number of processes.")]
Events = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The event store: sqlite:PATH or postgresql://...; by default beside the model.",
    ),
]
Keys = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="API keys, one per line; every request must send one. Words after a key limit it: "
        "ask, send, read, metrics.",
    ),
]
Rate = Annotated[
    float, typer.Option(metavar="N", help="Maximum requests per second of a client; 0: no limit.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Put new model files into service while running.")
]
Candidate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A second model, for a share of the users."),
]
Share = Annotated[
    float | None,
    typer.Option(metavar="X", help="The share of users who get the candidate; by default 0.1."),
]
Proxy = Annotated[
    bool,
    typer.Option(
        "--proxy", help="Behind a proxy on this machine: apply --rate to X-Forwarded-For addresses."
    ),
]
Index = Annotated[bool, typer.Option("--index", help="Search the index that `fmpair index` built.")]
NamedRules = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A YAML file of named rules, which requests may name."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse unknown users, items, context and attributes; by default the rest of the "
        "request is answered.",
    ),
]
Images = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A column of the catalogue with image URLs, which the web page shows.",
    ),
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
    proxy: Proxy = False,
    index: Index = False,
    rules: NamedRules = None,
    strict: Strict = False,
    images: Images = None,
) -> None:
    """Serve a model over HTTP, with a web page to try it."""
    from fmpair.serve.settings import ServiceSettings
    from fmpair.serve.supervisor import serve as run_service

    file = Path(model_file(model))
    settings = ServiceSettings(
        file,
        host,
        port,
        workers,
        events,
        api_key_file,
        rate,
        watch,
        candidate,
        share,
        proxy,
        index,
        rules,
        strict,
        images,
    )
    run_service(settings, note)


Recall = Annotated[
    float,
    typer.Option(metavar="SHARE", help="The share of exact lists to find; 1: lists stay exact."),
]


def index(model: Model, recall: Recall = 0.99) -> None:
    """Build an index beside a model, for lists of a large catalogue (`serve --index`)."""
    from fmpair.fitted.file import checksum_of
    from fmpair.fitted.large_catalogue import build_index, index_path, save_index

    file = model_file(model)
    built = build_index(load_model(model), recall, checksum_of(file))
    path = index_path(file)
    save_index(built, path)
    note(
        f"wrote {path} ({size_of(path)}): {built.cells:,} cells; it finds {built.recall:.2%} of "
        f"the exact lists of {built.asked:,} users, 10 items each"
    )


Store = Annotated[
    str,
    typer.Argument(metavar="URL", help="The event store: sqlite:PATH, a path, or postgresql://..."),
]


def export(
    store: Store,
    output: Output = None,
    after: Annotated[
        int, typer.Option(metavar="POSITION", min=0, help="Only the events after this position.")
    ] = 0,
    format: OutputFormat = None,
) -> None:
    """Export events: user, item, timestamp, context, event_type, value, arm, model, position."""
    from fmpair.events.frame import frame_of

    with open_existing(store) as events:
        emit(frame_of(events, after), output, format)


def compare(
    store: Store,
    within: Annotated[
        str, typer.Option(metavar="TIME", help="The time after a list in which events count.")
    ] = "1d",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only lists since this time, such as a date.")
    ] = None,
    outcome: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="What counts: clicks (all events), purchases, or revenue (their values).",
        ),
    ] = "clicks",
    output: Output = None,
    format: OutputFormat = None,
) -> None:
    """Compare the candidate with the current model by what their users did.

    Prints a row per measure: both models, the difference with its 95 % interval, and p. Only users
    who were shown lists while both models were served (`serve --candidate`) are compared.
    """
    from fmpair.events.compare import compared
    from fmpair.events.event import event_time
    from fmpair.features.field import duration

    with open_existing(store) as events:
        start = None if since is None else event_time(since)
        frame = compared(events, duration(within), start, outcome)
    emit(frame, output, format)
    clear = frame.filter((frame["low"] > 0) | (frame["high"] < 0))["measure"].to_list()
    note(
        f"significant (the interval excludes 0): {', '.join(clear)}"
        if clear
        else "no significant difference: every interval contains 0"
    )


def push(
    table: Annotated[
        Path, typer.Argument(metavar="FILE", help="A table with an item column and any others.")
    ],
    url: Annotated[
        str, typer.Option(metavar="URL", help="The address of the service.")
    ] = "http://127.0.0.1:8000",
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="API keys; the first one for send is used.")
    ] = None,
) -> None:
    """Change items of a running service: stock, price and other columns; new and removed items.

    All workers use the changes from the next request on. An empty cell leaves a value as it is; a
    column `removed` (true, false) removes items from all lists. New items are ranked by the
    attributes that the model has learned.
    """
    from fmpair.serve.item_push import push as push_items
    from fmpair.serve.item_push import read_changes
    from fmpair.serve.settings import SEND, read_keys

    keys = [key for key, purposes in read_keys(api_key_file).items() if SEND in purposes]
    counts = push_items(read_changes(table), url, keys[0].decode() if keys else None)
    new = f", {counts['new']:,} of them new" if counts.get("new") else ""
    taken = counts.get("taken", 0)
    note(f"changed {taken:,} item{'s' * (taken != 1)}{new}")
    if counts.get("new_columns"):
        note(f"new columns, which no item had before: {', '.join(counts['new_columns'])}")
    if counts.get("unranked"):
        note(
            f"{counts['unranked']:,} new items are in no list before the next `fmpair update`: the "
            "model has learned no attributes of items"
        )


def open_existing(url: str) -> Any:
    """Open the event store of a URL, which must exist, for a `with` block."""
    from contextlib import closing

    from fmpair.events.store import open_store

    return closing(open_store(url, make=False))


def app() -> typer.Typer:
    group = typer.Typer(help="Events of a service: export them, compare two models.")
    group.command()(export)
    group.command()(compare)
    return group


def items_app() -> typer.Typer:
    group = typer.Typer(help="Items of a running service: change its catalogue.")
    group.callback()(lambda: None)  # a group, even with one command
    group.command()(push)
    return group
