"""The fitted model of a command: a file, or the best of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fmpair.models.saved import Model as Fitted

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file, or a run folder.")]


def load_model(path: str) -> Fitted:
    """The model of a file, or of the folder of a run."""
    from fmpair.models.saved import load

    return load(model_file(path))


def model_file(path: str) -> str:
    """The file of a model: the one named, or that of the folder of a run."""
    if not Path(path).is_dir():
        return path
    from fmpair.experiment.folder import model_of

    return str(model_of(path))
