"""Models that are code from outside the catalogue, and who may let them run."""

from __future__ import annotations

import os
from typing import Literal

from fmpair.config.experiment import Experiment
from fmpair.errors import OptionError
from fmpair.models.catalog import MODELS

VARIABLE = "FMPAIR_ALLOW_CODE"  # modules that may always run, with commas between

# What is done about such a model when a file is read: a mistake, an import, or no look at it.
Code = Literal["refused", "allowed", "unseen"]


def is_foreign(kind: str) -> bool:
    """Whether the kind of a model is package.module:Class of somebody else."""
    return ":" in kind and kind not in MODELS.values()


def is_trusted(kind: str) -> bool:
    """Whether the user's own settings name the module, or a package it is in."""
    trusted = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    module = kind.partition(":")[0]
    return any(name and f"{module}.".startswith(f"{name}.") for name in trusted)


def refusal(kind: str) -> str:
    """Why such a model is not run, and what would let it."""
    return (
        f"{kind!r} is code from outside fmpair, which runs only if you say so: --allow-code at the "
        f"shell, allow_code=True in Python, or {VARIABLE}={kind.partition(':')[0]} in the "
        "environment for this module alone"
    )


def check(experiment: Experiment) -> None:
    """Refuse to carry out code that nobody has allowed; a run folder cannot allow it either."""
    for model in experiment.models:
        if is_foreign(model.kind) and not (experiment.allow_code or is_trusted(model.kind)):
            raise OptionError(refusal(model.kind))
