"""Checkpoints: an interrupted fit is saved to a file and continues from it.

The file has the parameters and the engine's state after an epoch, the parameters of the best epoch,
and all that the result of the fit depends on. The same fit continues from it bit for bit; any other
fit is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import numpy as safetensors

from fmpair.data import Dataset, as_dataset, columns_of
from fmpair.data.describe import fingerprint
from fmpair.device import CPU, resolve_device
from fmpair.engine.contract import Parameters
from fmpair.errors import DataError, OptionError, named
from fmpair.files import check_writable, shown, write_atomically
from fmpair.fitted.recipe import name_of
from fmpair.training.epochs import Epoch, FitProgress, Validation, best_epoch, prepare_fit
from fmpair.training.loop import EpochState, TrainingRun

EVERY = 5.0  # smallest number of seconds between two writes
DIGEST = 32  # bytes of the checksum at the end
NOTE = "fmpair.checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The file of a checkpoint. stays: keep it until `remove`, for callers that save the model."""

    path: Path
    stays: bool = False

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()


class Interrupted(KeyboardInterrupt):
    """A fit was interrupted; the message says how far it is."""


class SavedFit(NamedTuple):
    """A saved fit. fit: what the result depends on; best: parameters of the best epoch."""

    fit: dict[str, Any]
    last: EpochState
    best: Parameters | None
    best_number: int
    best_value: float


def fit_with_checkpoint(
    recipe: Any,
    data: Any,
    seed: int | None,
    progress: bool | Callable[[Epoch], None],
    validated: tuple[Any, str, int],
    checkpoint: Any,
) -> Any:
    """Fit as `epochs.best_fit` does, with a checkpoint: a path, or a `Checkpoint`.

    validated: validation, metric and patience.
    """
    file = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(Path(checkpoint))
    check_writable(file.path)
    data = as_dataset(data)
    recipe, events, judge = prepare_fit(recipe, data, seed, *validated)
    fit = identity(recipe, data, validated)
    saved = read(file.path, fit) if file.path.exists() else None
    return run_with_checkpoint(recipe, recipe.train(events), (fit, saved), judge, progress, file)


def run_with_checkpoint(
    recipe: Any,
    run: Any,
    fit: tuple[dict[str, Any], SavedFit | None],
    judge: Validation | None,
    progress: bool | Callable[[Epoch], None],
    file: Checkpoint,
) -> Any:
    """Run the epochs of a fit, from its saved state if any. fit: its identity, and that state."""
    if not (isinstance(run, TrainingRun) and run.resumable):
        raise OptionError(f"{type(recipe).__name__} does not support {named('checkpoint')}")
    begun, saved = fit
    writer = _Writer(file.path, run, begun)
    state = writer.resume(saved) if saved else None
    try:
        model = best_epoch(run, judge, progress, recipe.epochs, state, writer.keep)
    except KeyboardInterrupt:
        raise Interrupted(writer.interrupted(recipe.epochs)) from None
    if file.stays:
        writer.write()  # so that nothing is lost if saving the model is interrupted
    else:
        file.remove()
    return model


def read(path: Path, fit: dict[str, Any]) -> SavedFit:
    """Read a checkpoint; raise DataError if it is damaged or belongs to another fit."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {shown(path)}: {error.strerror}") from error
    try:
        saved = _decoded(content)
    except Exception as error:  # whatever is wrong with the file
        raise DataError(
            f"{shown(path)} is not a checkpoint, or damaged: remove it to start again"
        ) from error
    if difference := difference_of(saved.fit, fit):
        raise DataError(
            f"{shown(path)} is a checkpoint of {difference}: use the same arguments, choose "
            "another file, or remove it to start again"
        )
    return saved


@dataclass
class _Writer:
    """Saves the progress of a fit. best: parameters of the best epoch; written: the epoch saved."""

    path: Path
    run: TrainingRun
    fit: dict[str, Any]
    best: Parameters | None = None
    written: int = 0
    last: float = field(default=-np.inf)
    state: FitProgress = field(default_factory=FitProgress)

    def resume(self, saved: SavedFit) -> FitProgress:
        """Continue training from what was saved; return how far it is."""
        self.run.resume(saved.last)
        self.best, self.written = saved.best, saved.last.number
        best = None if saved.best is None else self.run.recommender(saved.best)
        model = self.run.recommender(saved.last.parameters)
        number, of_best = saved.last.number, (saved.best_number, saved.best_value)
        self.state = FitProgress(number, model, best, *of_best)
        return self.state

    def keep(self, state: FitProgress) -> None:
        """Save the epoch, unless one was saved a moment ago."""
        self.state = state
        if state.best_number == state.number:
            self.best = self.run.parameters()
        if time.monotonic() - self.last >= EVERY:
            self.write()

    def write(self) -> None:
        """Write the file atomically."""
        if self.written == self.state.number:
            return
        last, state = self.run.state(), self.state
        saved = SavedFit(self.fit, last, self.best, state.best_number, state.best_value)
        write_atomically(self.path, _encoded(saved))
        self.written, self.last = last.number, time.monotonic()

    def interrupted(self, total: int) -> str:
        if not self.written:
            return "interrupted in the first epoch: nothing was saved"
        return (
            f"interrupted: epoch {self.written} of {total} was saved to {shown(self.path)}; run "
            "the same fit again to continue"
        )


def identity(recipe: Any, data: Dataset, validated: tuple[Any, str, int]) -> dict[str, Any]:
    """Return everything that the result of a fit depends on."""
    validation, metric, patience = validated
    if validation is not None and not isinstance(validation, int | float):
        validation = fingerprint(as_dataset(validation, columns_of(data)))
    return identity_of(
        recipe, fingerprint(data), validation=validation, metric=metric, patience=patience
    )


def identity_of(recipe: Any, data: str, **others: Any) -> dict[str, Any]:
    """Return everything that the result of a fit depends on; data: a hash of the events."""
    fit = {
        "version of fmpair": _version(),
        "recipe": name_of(type(recipe)),
        "options": recipe.options(),
        "device": resolve_device(getattr(recipe, "device", CPU)),
        "data": data,
        **others,
    }
    return json.loads(json.dumps(fit, default=np.generic.item))


def _version() -> str:
    """Return the version of the package, or "" if it is not installed."""
    with suppress(PackageNotFoundError):
        return version("fmpair")
    return ""


def difference_of(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Describe how two fits differ; empty if they do not."""
    for name in {**old["options"], **new["options"]}:
        was, now = old["options"].get(name), new["options"].get(name)
        if was != now:
            return f"another recipe ({name} was {was!r}, now {now!r})"
    if old["data"] != new["data"]:
        return "other data"
    for name in new:
        if old[name] != new[name]:
            return f"another fit ({name} was {old[name]!r}, now {new[name]!r})"
    return ""


def _encoded(saved: SavedFit) -> bytes:
    """Return a checkpoint as safetensors, followed by a checksum."""
    arrays = {f"state.{name}": array for name, array in saved.last.state.items()}
    for part, parameters in (("last", saved.last.parameters), ("best", saved.best)):
        tables = {} if parameters is None else parameters._asdict()
        arrays |= {f"{part}.{name}": table for name, table in tables.items()}
    note = {
        "begun": saved.fit,
        "number": saved.last.number,
        "best_number": saved.best_number,
        "best_value": saved.best_value,
    }
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    content = safetensors.save(plain, metadata={NOTE: json.dumps(note)})
    return content + sha256(content).digest()


def _decoded(content: bytes) -> SavedFit:
    """Read a checkpoint back. Any error means that the file is damaged."""
    content, digest = content[:-DIGEST], content[-DIGEST:]
    if sha256(content).digest() != digest:
        raise ValueError("the checksum does not match")
    length = int.from_bytes(content[:8], "little")
    note = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][NOTE])
    arrays = safetensors.load(content)

    def tables(part: str) -> Parameters:
        return Parameters(*(arrays[f"{part}.{name}"] for name in Parameters._fields))

    state = {
        name.removeprefix("state."): array
        for name, array in arrays.items()
        if name.startswith("state.")
    }
    best = tables("best") if "best.users" in arrays else None
    last = EpochState(note["number"], tables("last"), state)
    return SavedFit(note["begun"], last, best, note["best_number"], note["best_value"])
