"""A fit that may be interrupted: what it has learned so far in a file, and how it goes on from it.

The file has the parameters and the engine's state after an epoch, those of the best epoch, and what
the fit was begun with. The same fit goes on from it to the same bits; any other is refused.
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
from fmpair.device import CPU, settled
from fmpair.engine.contract import Parameters
from fmpair.errors import DataError, OptionError, named
from fmpair.files import check_writable, shown, write_atomically
from fmpair.fitted.recipe import name_of
from fmpair.training.epochs import Epoch, Standing, best_epoch, prepared
from fmpair.training.loop import Kept, Learning

EVERY = 5.0  # seconds between two writings, at least
DIGEST = 32  # bytes of the checksum at the end
NOTE = "fmpair.checkpoint"
OTHERWISE = "give what it was begun with, name another file, or remove it to begin anew"


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit is kept. stays: until `remove`, for whoever writes the model first."""

    path: Path
    stays: bool = False

    def remove(self) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()


class Interrupted(KeyboardInterrupt):
    """A fit was interrupted; the message says how far it is."""


class Stored(NamedTuple):
    """What a file holds. begun: what the fit was begun with; best: of the best epoch, or None."""

    begun: dict[str, Any]
    kept: Kept
    best: Parameters | None
    best_number: int
    best_value: float


def fit_kept(
    recipe: Any,
    data: Any,
    seed: int | None,
    progress: bool | Callable[[Epoch], None],
    judged: tuple[Any, str, int],
    checkpoint: Any,
) -> Any:
    """As `early_stopping.best_fit`, with a checkpoint: a path, or a `Checkpoint`.

    judged: validation, metric and patience.
    """
    place = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(Path(checkpoint))
    check_writable(place.path)
    data = as_dataset(data)
    recipe, events, judge = prepared(recipe, data, seed, *judged)
    begun = _begun_with(recipe, data, judged)
    stored = read(place.path, begun) if place.path.exists() else None
    learning = recipe.train(events)
    if not (isinstance(learning, Learning) and learning.resumable):
        raise OptionError(
            f"{type(recipe).__name__} takes no {named('checkpoint')}: it cannot go on from the "
            "middle of a fit"
        )
    keeper = _Keeper(place.path, learning, begun)
    standing = keeper.resumed(stored) if stored else None
    try:
        model = best_epoch(learning, judge, progress, recipe.epochs, standing, keeper.keep)
    except KeyboardInterrupt:
        raise Interrupted(keeper.told(recipe.epochs)) from None
    if place.stays:
        keeper.write()  # whatever interrupts the writing of the model, nothing is learned again
    else:
        place.remove()
    return model


def read(path: Path, begun: dict[str, Any]) -> Stored:
    """What a checkpoint holds; a broken one is refused, and one of another fit."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read {shown(path)}: {error.strerror}") from error
    try:
        stored = _stored(content)
    except Exception as error:  # whatever is wrong with it
        raise DataError(
            f"{shown(path)} is no checkpoint, or a broken one: remove it to begin anew"
        ) from error
    if difference := _difference(stored.begun, begun):
        raise DataError(f"{shown(path)} is a checkpoint of {difference}: {OTHERWISE}")
    return stored


@dataclass
class _Keeper:
    """Writes how far a fit is. best: the parameters of its best epoch; written: of which epoch."""

    path: Path
    learning: Learning
    begun: dict[str, Any]
    best: Parameters | None = None
    written: int = 0
    last: float = field(default=-np.inf)
    standing: Standing = field(default_factory=Standing)

    def resumed(self, stored: Stored) -> Standing:
        """Tell training to go on from what is stored; how far that is."""
        self.learning.resume(stored.kept)
        self.best, self.written = stored.best, stored.kept.number
        made = self.learning.recommender
        best = None if stored.best is None else made(stored.best)
        model = made(stored.kept.parameters)
        own = Standing(stored.kept.number, model, best, stored.best_number, stored.best_value)
        self.standing = own
        return own

    def keep(self, standing: Standing) -> None:
        """After an epoch: write it, unless one was written a moment ago."""
        self.standing = standing
        if standing.best_number == standing.number:
            self.best = self.learning.parameters()
        if time.monotonic() - self.last >= EVERY:
            self.write()

    def write(self) -> None:
        """Write how far the fit is, whole or not at all."""
        if self.written == self.standing.number:
            return
        kept, at = self.learning.kept(), self.standing
        write_atomically(
            self.path, _content(Stored(self.begun, kept, self.best, at.best_number, at.best_value))
        )
        self.written, self.last = kept.number, time.monotonic()

    def told(self, total: int) -> str:
        """The line of a fit that is interrupted."""
        if not self.written:
            return "interrupted in the first epoch: nothing is kept yet"
        return (
            f"interrupted: {shown(self.path)} holds what was learned up to epoch {self.written} of "
            f"{total}; the same fit goes on from there"
        )


def _begun_with(recipe: Any, data: Dataset, judged: tuple[Any, str, int]) -> dict[str, Any]:
    """All that the result of a fit depends on."""
    validation, metric, patience = judged
    if validation is not None and not isinstance(validation, int | float):
        validation = fingerprint(as_dataset(validation, columns_of(data)))
    found = {
        "version of fmpair": _version(),
        "recipe": name_of(type(recipe)),
        "options": recipe.options(),
        "device": settled(getattr(recipe, "device", CPU)),
        "data": fingerprint(data),
        "validation": validation,
        "metric": metric,
        "patience": patience,
    }
    return json.loads(json.dumps(found, default=np.generic.item))


def _version() -> str:
    """That of the package; another may learn other bits. Empty where it is not installed."""
    with suppress(PackageNotFoundError):
        return version("fmpair")
    return ""


def _difference(old: dict[str, Any], new: dict[str, Any]) -> str:
    """What differs between two fits, in words; empty where nothing does."""
    options = {**old["options"], **new["options"]}
    for name in options:
        was, now = (own["options"].get(name) for own in (old, new))
        if was != now:
            return f"another recipe ({name} was {was!r}, now {now!r})"
    if old["data"] != new["data"]:
        return "other data"
    for name in new:
        if old[name] != new[name]:
            return f"another fit ({name} was {old[name]!r}, now {new[name]!r})"
    return ""


def _content(stored: Stored) -> bytes:
    """A checkpoint as bytes: safetensors, then a checksum of them."""
    arrays = {f"state.{name}": array for name, array in stored.kept.state.items()}
    for part, own in (("last", stored.kept.parameters), ("best", stored.best)):
        tables = {} if own is None else own._asdict()
        arrays |= {f"{part}.{name}": table for name, table in tables.items()}
    told = {
        "begun": stored.begun,
        "number": stored.kept.number,
        "best_number": stored.best_number,
        "best_value": stored.best_value,
    }
    plain = {name: np.array(array, order="C") for name, array in arrays.items()}
    content = safetensors.save(plain, metadata={NOTE: json.dumps(told)})
    return content + sha256(content).digest()


def _stored(content: bytes) -> Stored:
    """The same read back. Any error is one of the file."""
    content, digest = content[:-DIGEST], content[-DIGEST:]
    if sha256(content).digest() != digest:
        raise ValueError("the checksum does not match")
    length = int.from_bytes(content[:8], "little")
    told = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][NOTE])
    arrays = safetensors.load(content)

    def tables(part: str) -> Parameters:
        return Parameters(*(arrays[f"{part}.{name}"] for name in Parameters._fields))

    state = {
        name.removeprefix("state."): array
        for name, array in arrays.items()
        if name.startswith("state.")
    }
    best = tables("best") if "best.users" in arrays else None
    kept = Kept(told["number"], tables("last"), state)
    return Stored(told["begun"], kept, best, told["best_number"], told["best_value"])
