"""Commands for data: list, describe, fetch, convert, make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.cli.flags import with_flags
from fmpair.cli.input import READ_FLAGS, Events, open_events, read_events
from fmpair.cli.output import Output, OutputFormat, emit, note

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name of `fmpair data list`.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="The file to write, or -.")]
TargetFormat = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="csv, tsv, parquet, jsonl, libfm, atomic, lightgcn or sequences; by default from the "
        "suffix.",
    ),
]


def list_sets(output: Output = None, format: OutputFormat = None) -> None:
    """List the public data sets, and which of them are on this machine."""
    import polars as pl

    from fmpair.data.public_sets import SETS, held

    rows = [(known.name, known.description, "yes" if held(known.name) else "") for known in SETS]
    columns = ["name", "description", "available"]
    emit(pl.DataFrame(rows, columns, orient="row"), output, format)


def describe(events: Events, reading: Any = None, output: Output = None) -> None:
    """Print statistics of a data set."""
    from fmpair.data.describe import describe

    emit(describe(read_events(events, reading)), output)


def fetch(name: Name) -> None:
    """Download a public data set if needed, and print its folder."""
    from fmpair.data import public_sets

    typer.echo(public_sets.fetch(name))


def convert(events: Events, target: Target, to: TargetFormat = None, reading: Any = None) -> None:
    """Convert data from one format to another."""
    from fmpair.data.write import is_table, write

    opened = open_events(events, reading)
    if opened.decisions is not None and is_table(target, to):
        data = opened.dataset(**opened.decisions.lossless)
    else:
        note(opened.surprises())
        data = opened.dataset()
    write(data, target, to)
    note(f"wrote {len(data):,} events to {target}" if target != "-" else "")


def make(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder to write; created if needed.")
    ],
    users: Annotated[int, typer.Option(help="Number of users.")] = 800,
    items: Annotated[int, typer.Option(help="Number of items.")] = 600,
    events: Annotated[int, typer.Option(help="Number of events.")] = 40_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same data anywhere.")] = 0,
    format: Annotated[str, typer.Option(help="csv, tsv, parquet or jsonl.")] = "csv",
) -> None:
    """Write the generated data of `fmpair demo` as files: events, users, items."""
    from fmpair.data import synthetic
    from fmpair.data.write import write
    from fmpair.files import make_folder

    data = synthetic.make(users, items, events, seed).data
    tables = {
        "events": data.frame(),
        "users": data.users.ids.to_frame("user").hstack(data.user_table),
        "items": data.items.ids.to_frame("item").hstack(data.item_table),
    }
    make_folder(folder)
    for name, frame in tables.items():
        write(frame, folder / f"{name}.{format}", format)
        note(f"wrote {len(frame):,} {name} to {folder / name}.{format}")


def app() -> typer.Typer:
    group = typer.Typer(help="Public data sets, statistics, conversion, generated data.")
    group.command("list")(list_sets)
    group.command()(with_flags(describe, reading=READ_FLAGS))
    group.command()(fetch)
    group.command()(with_flags(convert, reading=READ_FLAGS))
    group.command()(make)
    return group
