"""Engines: the back ends that run training. They see arrays only; see `engine.contract`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from fmpair.engine.contract import Engine
from fmpair.errors import OptionError, listing

ENGINES = {
    "cpu": "fmpair.engine.cpu",
    "ray": "fmpair.engine.ray",
    "reference": "fmpair.engine.reference",
    "torch": "fmpair.engine.torch",
}


def engine(name: str) -> Engine:
    """Return the engine of the given name, imported on first use because compilers load slowly."""
    if name not in ENGINES:
        raise OptionError(f"engine must be one of {listing(list(ENGINES))}, not {name!r}")
    return cast(Engine, import_module(ENGINES[name]))
