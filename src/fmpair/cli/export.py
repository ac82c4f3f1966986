"""`export`: a model's vectors for an index, a runtime or a program of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fmpair.cli.model import Model, load_model
from fmpair.cli.show import note, size_of

Target = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="npz, onnx or usearch; by default what FILE's name ends with."
    ),
]


def export(model: Model, output: Target, to: Format = None) -> None:
    """Write a model's vectors for an index or a runtime: arrays, ONNX or USearch."""
    from fmpair.export import export as write

    fitted = load_model(model)
    write(fitted, output, to)
    note(f"wrote {output} ({size_of(output)}) with {len(fitted.item_ids):,} items")
