"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the learned tables (of a Ranker: the arrays of its scorer) and the sparse rows;
vocabularies are Arrow tables kept as bytes. Everything else is one JSON text in the header, with
the fitted type and the recipe that can read the arrays. The checksum covers the whole file, with
its own 64 digits taken as zeros.
"""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from fmpair.data.vocabulary import Vocabulary
from fmpair.engine.problem import Parameters
from fmpair.errors import FmpairError, ModelFileError
from fmpair.features import FeatureSpace, Side
from fmpair.features.encoder import Encoder
from fmpair.features.field import Field
from fmpair.files import write_atomically
from fmpair.forked import check_process
from fmpair.models import catalog, option
from fmpair.models.named_rows import arrays_of, rows_from
from fmpair.models.ranker import Ranker
from fmpair.models.recommender import Recommender

FORMAT = 1
BLANK = "0" * 64
ROWS = ("user_rows", "item_rows", "seen")
SCORER = "scorer."

Model = Recommender | Ranker


def save(model: Model, path: str | Path) -> None:
    """Write the model to a file, all or nothing."""
    check_process()
    space = model.space
    tensors = _learned(model)
    tensors["ids.users"], tensors["ids.items"] = _packed(space.users), _packed(space.items)
    encoders = [*space.query.encoders, *space.item.encoders]
    for number, encoder in enumerate(encoders):
        if encoder.vocabulary is not None:
            tensors[f"ids.field.{number}"] = _packed(encoder.vocabulary)
    header = {
        "format": FORMAT,
        "sha256": BLANK,
        "fitted": type(model).__name__,
        "recipe": catalog.signature(type(model.recipe)),
        "options": option.plain(model.recipe),
        "frame": model.frame_kind,
        "damping": 0.0 if isinstance(model, Ranker) else model.damping,
        "whole": space.whole,
        "fields": [_described(encoder) for encoder in encoders],
    }
    text = json.dumps(header, sort_keys=True, default=np.generic.item)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = safetensors.save(arrays, metadata={"fmpair": text})
    digest = hashlib.sha256(content).hexdigest()
    write_atomically(path, content.replace(BLANK.encode(), digest.encode(), 1))


def _learned(model: Model) -> dict[str, np.ndarray]:
    """All arrays but the ids, by name."""
    if isinstance(model, Ranker):
        found = {SCORER + name: array for name, array in model.scorer.arrays().items()}
        return found | arrays_of({"seen": model.seen})
    found = dict(zip(Parameters._fields, model.parameters))
    return found | arrays_of({name: getattr(model, name) for name in ROWS})


def load(path: str | Path) -> Model:
    """Read a model; a damaged, foreign or later file is refused."""
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
    try:
        return _model(safetensors.load(content), header)
    except (SafetensorError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise ModelFileError(f"{str(path)!r} cannot be read as a model: {error}") from error


def _header(content: bytes, path: str | Path) -> dict[str, Any]:
    """The JSON text of a model file."""
    length = int.from_bytes(content[:8], "little") if len(content) > 8 else 0
    with suppress(ValueError, KeyError, TypeError):  # whatever is not such a header is foreign
        outer = json.loads(content[8 : 8 + length])
        header = json.loads(outer["__metadata__"]["fmpair"])
        if isinstance(header["format"], int) and len(header["sha256"]) == len(BLANK):
            return header
    kind = "empty" if not content else "damaged, or not an fmpair model"
    raise ModelFileError(f"{str(path)!r} is {kind}")


def _model(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Model:
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
    recipe, kind, seen = _recipe(header), header["frame"], rows_from(tensors, "seen")
    if header.get("fitted") == "Ranker":
        arrays = {name.removeprefix(SCORER): array for name, array in tensors.items()
                  if name.startswith(SCORER)}  # fmt: skip
        return Ranker(space, recipe.restore(arrays, space, seen), seen, recipe, kind)
    parameters = Parameters(*(tensors[name] for name in Parameters._fields))
    rows = {name: rows_from(tensors, name) for name in ROWS}
    damping = header.get("damping", 0.0)
    return Recommender(space, parameters, recipe=recipe, frame_kind=kind, damping=damping, **rows)


def _recipe(header: dict[str, Any]) -> Any:
    name = header["recipe"]
    kind = catalog.from_signature(name)
    if kind is None:
        module = name.partition(":")[0]
        hint = f": import {module} first" if ":" in name else ""
        raise ModelFileError(f"the file holds a {name!r}, which this fmpair does not know{hint}")
    try:
        return option.recipe(kind, header["options"])
    except FmpairError as error:
        raise ModelFileError(f"the file's options are not understood: {error}") from error


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
        text["role"], text["name"], Field(**text["field"]), vocabulary,
        text["centre"], text["spread"], tuple(text["edges"]),
    )  # fmt: skip


def _packed(vocabulary: Vocabulary) -> np.ndarray:
    """Ids of any type as bytes: an Arrow table of one column."""
    buffer = io.BytesIO()
    vocabulary.ids.rename("id").to_frame().write_ipc(buffer)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def _unpacked(content: np.ndarray) -> Vocabulary:
    return Vocabulary(pl.read_ipc(io.BytesIO(content.tobytes()))["id"])
