"""From a fitted model to a file that other programs read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fmpair.checks import one_of
from fmpair.errors import OptionError, listing, named
from fmpair.export.npz import write_npz
from fmpair.export.onnx import write_onnx
from fmpair.export.usearch import write_usearch
from fmpair.export.vectors import folded
from fmpair.files import check_writable, shown
from fmpair.fitted.recommender import Recommender

FORMATS: dict[str, Callable[[Recommender, str | Path], None]] = {
    "npz": write_npz,
    "onnx": write_onnx,
    "usearch": write_usearch,
}


def export(model: Any, path: str | Path, to: str | None = None) -> None:
    """Write the model's vectors to one file, whole or not at all.

    to: npz, onnx or usearch; by default what the file's name ends with. Each item's constant is
    the last dimension of its vector, where that of a query has a 1.
    """
    if to is None:
        to = Path(path).suffix.removeprefix(".")
        if to not in FORMATS:
            raise OptionError(
                f"the name {shown(path)} does not tell the format: give {named('to')}, one of "
                f"{listing(FORMATS)}"
            )
    one_of("to", to, list(FORMATS))
    check_writable(path)
    FORMATS[to](folded(model), path)
