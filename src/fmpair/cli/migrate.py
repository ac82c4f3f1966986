"""`migrate`: WrapRec's configuration as experiment files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fmpair.cli.flags import pairs
from fmpair.cli.show import note
from fmpair.errors import DataError


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
