"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the fitted model's arrays; vocabularies are Arrow tables kept as bytes. Everything
else is one JSON text in the header, with the fitted type and the recipe that can read the arrays.
The checksum covers the whole file, with its own 64 digits taken as zeros.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace, Side
from fmpair.features.encoder import Encoder
from fmpair.features.field import Field
from fmpair.files import write_atomically
from fmpair.fitted import option
from fmpair.fitted.recipe import name_of
from fmpair.forked import check_process

FORMAT = 2
BLANK = "0" * 64


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
    its recipe, by name; arrays: as `Savable.arrays` gave them.
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
    tensors["ids.users"], tensors["ids.items"] = _packed(space.users), _packed(space.items)
    encoders = [*space.query.encoders, *space.item.encoders]
    for number, encoder in enumerate(encoders):
        if encoder.vocabulary is not None:
            tensors[f"ids.field.{number}"] = _packed(encoder.vocabulary)
    header = {
        "format": FORMAT,
        "sha256": BLANK,
        "fitted": type(model).__name__,
        "recipe": name_of(type(model.recipe)),
        "options": option.plain(model.recipe),
        "frame": model.frame_kind,
        "damping": model.damping,
        "whole": space.whole,
        "fields": [_described(encoder) for encoder in encoders],
    }
    text = json.dumps(header, sort_keys=True, default=np.generic.item)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = safetensors.save(arrays, metadata={"fmpair": text})
    digest = hashlib.sha256(content).hexdigest()
    write_atomically(path, content.replace(BLANK.encode(), digest.encode(), 1))


def read(path: str | Path) -> Saved:
    """What a model file holds; a damaged, foreign or later one is refused."""
    check_process()
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"cannot read model {str(path)!r}: {error.strerror}") from None
    header = _header(content, path)
    if header["format"] > FORMAT:
        raise ModelFileError(
            f"{str(path)!r} has model format {header['format']}, this fmpair reads up to {FORMAT}: "
            "upgrade with pip install -U fmpair"
        )
    blank = content.replace(header["sha256"].encode(), BLANK.encode(), 1)
    if hashlib.sha256(blank).hexdigest() != header["sha256"]:
        raise ModelFileError(
            f"{str(path)!r} is damaged: its checksum does not match. Restore it from a copy or fit "
            "again"
        )
    with understood(path):
        return _saved(safetensors.load(content), header)


@contextmanager
def understood(path: str | Path) -> Iterator[None]:
    """A block that makes something of a file's parts; what is not there is said in one line."""
    try:
        yield
    except (SafetensorError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise ModelFileError(f"{str(path)!r} cannot be read as a model: {error}") from error


def _header(content: bytes, path: str | Path) -> dict[str, Any]:
    """The JSON text of a model file."""
    length = int.from_bytes(content[:8], "little") if len(content) > 8 else 0
    with suppress(ValueError, KeyError, TypeError):  # whatever is not such a header is foreign
        outer = json.loads(content[8 : 8 + length])
        header: dict[str, Any] = json.loads(outer["__metadata__"]["fmpair"])
        if isinstance(header["format"], int) and len(header["sha256"]) == len(BLANK):
            return header
    kind = "empty" if not content else "damaged, or not an fmpair model"
    raise ModelFileError(f"{str(path)!r} is {kind}")


def _saved(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Saved:
    encoders = [
        _encoder(text, tensors.get(f"ids.field.{number}"))
        for number, text in enumerate(header["fields"])
    ]
    space = FeatureSpace(
        _unpacked(tensors["ids.users"]),
        _unpacked(tensors["ids.items"]),
        Side(tuple(e for e in encoders if e.role != "item")),
        Side(tuple(e for e in encoders if e.role == "item")),
        header["whole"],
    )
    return Saved(
        header["format"],
        header.get("fitted", "Recommender"),
        header["recipe"],
        header["options"],
        space,
        tensors,
        header["frame"],
        header.get("damping", 0.0),
    )


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


def _encoder(text: dict[str, Any], ids: np.ndarray | None) -> Encoder:
    vocabulary = None if ids is None else _unpacked(ids)
    return Encoder(
        text["role"],
        text["name"],
        Field(**text["field"]),
        vocabulary,
        text["centre"],
        text["spread"],
        tuple(text["edges"]),
    )


def _packed(vocabulary: Vocabulary) -> np.ndarray:
    """Ids of any type as bytes: an Arrow table of one column."""
    buffer = io.BytesIO()
    vocabulary.ids.rename("id").to_frame().write_ipc(buffer)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def _unpacked(content: np.ndarray) -> Vocabulary:
    return Vocabulary(pl.read_ipc(io.BytesIO(content.tobytes()))["id"])
