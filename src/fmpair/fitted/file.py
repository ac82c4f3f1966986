"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the fitted model's arrays; vocabularies are Arrow tables kept as bytes. Everything
else is one JSON text in the header, with the fitted type and the recipe that can read the arrays.
The checksum covers the whole file, with its own 64 digits taken as zeros.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from safetensors import numpy as safetensors

from fmpair.data.event_types import EventWeights
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import ModelFileError, nearest
from fmpair.features import FeatureSpace, Pairing, Side
from fmpair.features.encoder import Encoder
from fmpair.features.field import field_from
from fmpair.features.history_fields import HISTORY, history_field
from fmpair.features.space import pairs_from
from fmpair.files import write_atomically
from fmpair.fitted import recipe as option
from fmpair.fitted.file_arrays import packed, unpacked
from fmpair.fitted.file_checks import LONGEST, LONGEST_TEXT, check_header, header_of
from fmpair.fitted.recipe import name_of
from fmpair.threads import check_process

FORMAT = 2
ORDER_THREE = 3  # of models whose rows are longer: what reads format 2 would take them for others
BLANK = "0" * 64
IDS = "ids."
NO_VALUES = (pl.Boolean, pl.Binary)  # such values are kept as text, or not at all


class Savable(Protocol):
    """What a file needs of a fitted model. arrays: by name, all that was learned."""

    @property
    def space(self) -> FeatureSpace: ...
    @property
    def recipe(self) -> Any: ...
    @property
    def frame_kind(self) -> str: ...
    @property
    def damping(self) -> float: ...

    def arrays(self) -> dict[str, np.ndarray]: ...


class Saved(NamedTuple):
    """What a file holds. format: of the file; fitted: the type of the model; recipe, options: of
    its recipe, by name; arrays: as `Savable.arrays` gave them,
    not checked yet.
    """

    format: int
    fitted: str
    recipe: str
    options: Mapping[str, Any]
    space: FeatureSpace
    arrays: Mapping[str, np.ndarray]
    frame_kind: str
    damping: float


def save(model: Savable, path: str | Path) -> None:
    """Write the model to a file, all or nothing."""
    check_process()
    space, tensors = model.space, model.arrays()
    tensors["ids.users"], tensors["ids.items"] = packed(space.users), packed(space.items)
    encoders = [e for e in (*space.query.encoders, *space.item.encoders) if e.role != HISTORY]
    for number, encoder in enumerate(encoders):
        if encoder.vocabulary is not None:
            tensors[f"ids.field.{number}"] = packed(encoder.vocabulary)
    header = {
        "format": ORDER_THREE if space.pairing else FORMAT,
        "sha256": BLANK,
        "fitted": type(model).__name__,
        "recipe": name_of(type(model.recipe)),
        "options": option.plain(model.recipe),
        "frame": model.frame_kind,
        "damping": model.damping,
        "whole": space.whole,
        "id_columns": list(space.id_columns),
        "fields": [_described(encoder) for encoder in encoders],
        "history": None if space.history is None else asdict(space.history),
        "pairing": None if space.pairing is None else asdict(space.pairing),
        "event_weights": space.event_weights and list(space.event_weights),
    }
    text = json.dumps(header, sort_keys=True, default=np.generic.item)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = safetensors.save(arrays, metadata={"fmpair": text})
    if header_of(content) is None:  # it could not be loaded again
        raise ModelFileError(
            f"the model cannot be saved: its options, columns and bins take more than {LONGEST:,} "
            f"bytes to write down, or one is text of more than {LONGEST_TEXT:,} letters"
        )
    digest = hashlib.sha256(content).hexdigest()
    write_atomically(path, content.replace(BLANK.encode(), digest.encode(), 1))


def read(path: str | Path) -> Saved:
    """What a model file holds; a damaged, foreign or later one is refused.

    Nothing the file says is trusted; whoever makes a model of the arrays checks them (`integrity`).
    """
    check_process()
    content = _content(path)
    header = header_of(content)
    if header is None:
        kind = "damaged, or not an fmpair model" if content else "empty"
        raise ModelFileError(
            f"{str(path)!r} is {kind}: a model file is what `save` or `fmpair fit` writes"
        )
    if header["format"] > ORDER_THREE:
        later = str(header["format"])[:20]
        raise ModelFileError(
            f"{str(path)!r} has model format {later}, this fmpair reads up to {ORDER_THREE}: "
            "upgrade with pip install -U fmpair"
        )
    if _digest(content, header["sha256"].encode()) != header["sha256"]:
        raise ModelFileError(
            f"{str(path)!r} is damaged: its checksum does not match. Restore it from a copy or fit "
            "again"
        )
    with understood(path):
        tensors = safetensors.load(content)
        check_header(header, tensors)
        return _saved(tensors, header)


def checksum_of(path: str | Path) -> str:
    """The checksum that a model file has inside, by which it is known; the rest is not read."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            text = file.read(min(int.from_bytes(start, "little"), LONGEST))
    except (OSError, ValueError):
        _content(path)  # says why it cannot be read
        raise
    header = header_of(start + text)
    if header is None:
        raise ModelFileError(f"{str(path)!r} is damaged, or not an fmpair model")
    return header["sha256"]


@contextmanager
def understood(path: str | Path) -> Iterator[None]:
    """A block that makes something of a file's parts; what is wrong with them is said in one line.

    Any error is one of the file: a part that is not what it must be may fail in whoever reads it.
    """
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"{str(path)!r} cannot be read as a model: {said}") from error


def _content(path: str | Path) -> bytes:
    """The bytes of a file; a device, which may have no end, is refused."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "it is a device, not a file")
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        near = _near(Path(path)) if isinstance(error, FileNotFoundError) else ""
        raise ModelFileError(f"cannot read model {str(path)!r}: {said}{near}") from None


def _near(path: Path) -> str:
    """The name of a file beside it that looks like the one meant."""
    with suppress(OSError):
        guess = nearest(path.name, [other.name for other in path.parent.iterdir()])
        return f". Did you mean {str(path.parent / guess)!r}?" if guess else ""
    return f": there is no folder {str(path.parent)!r}"


def _digest(content: bytes, given: bytes) -> str:
    """The checksum of a file, the digits of that given in it taken as zeros."""
    at, view = content.find(given), memoryview(content)
    hashed = hashlib.sha256(view[: max(at, 0)])
    hashed.update(BLANK.encode())
    hashed.update(view[at + len(given) :])
    return hashed.hexdigest()


def _saved(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Saved:
    learned = {name: array for name, array in tensors.items() if not name.startswith(IDS)}
    kind = header["frame"] if find_spec(header["frame"]) else "polars"  # what is there to answer in
    return Saved(
        header["format"],
        header.get("fitted") or "Recommender",
        header["recipe"],
        header["options"],
        _space(tensors, header),
        learned,
        kind,
        header.get("damping") or 0.0,
    )


def _space(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> FeatureSpace:
    ids = {
        name: _vocabulary(name, array) for name, array in tensors.items() if name.startswith(IDS)
    }
    encoders = [
        _encoder(text, ids.pop(f"{IDS}field.{number}", None))
        for number, text in enumerate(header["fields"])
    ]
    for name in ("users", "items"):
        if not len(ids.get(f"{IDS}{name}", ())):
            raise ModelFileError(f"it knows no {name}")
    space = FeatureSpace(
        ids.pop(f"{IDS}users"),
        ids.pop(f"{IDS}items"),
        Side(tuple(e for e in encoders if e.role != "item")),
        Side(tuple(e for e in encoders if e.role == "item")),
        header["whole"],
        tuple(header.get("id_columns") or ("user", "item")),
        event_weights=_event_weights(header.get("event_weights")),
    )
    if ids:
        raise ModelFileError(f"there are ids {min(ids)!r}, which no field has")
    history = header.get("history")
    space = space if history is None else space.with_history(history_field(history))
    return space.with_pairing(_pairing(header.get("pairing")))


def _event_weights(text: list[Any] | None) -> EventWeights | None:
    if text is None:
        return None
    return EventWeights(text[0], tuple((kind, float(weight)) for kind, weight in text[1]))


def _pairing(text: dict[str, Any] | None) -> Pairing | None:
    if text is None:
        return None
    return Pairing(text["factors"], pairs_from(text["pairs"]), text["items"])


def _described(encoder: Encoder) -> dict[str, Any]:
    """An encoder without its vocabulary, as plain values."""
    return {
        "role": encoder.role,
        "name": encoder.name,
        "field": asdict(encoder.field),
        "centre": encoder.centre,
        "spread": encoder.spread,
        "edges": list(encoder.edges),
    }


def _encoder(text: dict[str, Any], vocabulary: Vocabulary | None) -> Encoder:
    if vocabulary is not None and vocabulary.ids.dtype in NO_VALUES:
        raise ModelFileError(f"the field {text['name']!r} has values of {vocabulary.ids.dtype}")
    return Encoder(
        text["role"],
        text["name"],
        field_from(text["field"]),
        vocabulary,
        text["centre"],
        text["spread"],
        tuple(text["edges"]),
    )


def _vocabulary(name: str, content: np.ndarray) -> Vocabulary:
    """The ids of an array of bytes."""
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ModelFileError(f"the ids {name!r} are {content.dtype}, not bytes")
    try:
        return unpacked(content)
    except Exception as error:
        raise ModelFileError(f"the ids {name!r} cannot be read: {error}") from error
