"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the learned tables (of a Ranker: the arrays of its scorer) and the sparse rows;
vocabularies are Arrow tables kept as bytes. Everything else is one JSON text in the header, with
the fitted type and the recipe that can read the arrays. The checksum covers the whole file, with
its own 64 digits taken as zeros.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from safetensors import numpy as safetensors

from fmpair.arrays import Rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.engine.problem import Parameters
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace, Side
from fmpair.features.encoder import FAR, Encoder
from fmpair.features.field import field_from
from fmpair.files import write_atomically
from fmpair.models import catalog, option
from fmpair.models.header import LONGEST, LONGEST_TEXT, check_header, header_of
from fmpair.models.ids import packed, unpacked
from fmpair.models.integrity import Numbers, check, largest, reach, refuse_overflow, sparse
from fmpair.models.named_rows import arrays_of, rows_from
from fmpair.models.ranker import Ranker
from fmpair.models.recommender import Recommender

FORMAT = 1
BLANK = "0" * 64
ROWS = ("user_rows", "item_rows", "seen")
SCORER, IDS = "scorer.", "ids."
NO_VALUES = (pl.Boolean, pl.Binary)  # such values are kept as text, or not at all

Model = Recommender | Ranker


def save(model: Model, path: str | Path) -> None:
    """Write the model to a file, all or nothing."""
    space = model.space
    tensors = _learned(model)
    tensors["ids.users"], tensors["ids.items"] = packed(space.users), packed(space.items)
    encoders = [*space.query.encoders, *space.item.encoders]
    for number, encoder in enumerate(encoders):
        if encoder.vocabulary is not None:
            tensors[f"ids.field.{number}"] = packed(encoder.vocabulary)
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
    if header_of(content) is None:  # it could not be loaded again
        raise ModelFileError(
            f"the model cannot be saved: its options, columns and bins take more than {LONGEST:,} "
            f"bytes to write down, or one is text of more than {LONGEST_TEXT:,} letters"
        )
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
    """Read a model; a damaged, foreign or later file is refused, and so is one that was forged.

    Nothing the file says is trusted: what is loaded gives answers, whoever wrote the file.
    """
    content = _content(path)
    header = header_of(content)
    if header is None:
        kind = "damaged, or not an fmpair model" if content else "empty"
        raise ModelFileError(f"{str(path)!r} is {kind}")
    if header["format"] > FORMAT:
        later = str(header["format"])[:20]
        raise ModelFileError(
            f"{str(path)!r} has model format {later}, this fmpair reads up to {FORMAT}: upgrade "
            "with pip install -U fmpair"
        )
    if _digest(content, header["sha256"].encode()) != header["sha256"]:
        raise ModelFileError(
            f"{str(path)!r} is damaged: its checksum does not match. Restore it from a copy or fit "
            "again"
        )
    try:
        tensors = safetensors.load(content)
        check_header(header, tensors)
        return _model(tensors, header)
    except Exception as error:  # of whoever reads a part of the file that is not what it must be
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
        raise ModelFileError(f"cannot read model {str(path)!r}: {said}") from None


def _digest(content: bytes, given: bytes) -> str:
    """The checksum of a file, the digits of that given in it taken as zeros."""
    at, view = content.find(given), memoryview(content)
    hashed = hashlib.sha256(view[: max(at, 0)])
    hashed.update(BLANK.encode())
    hashed.update(view[at + len(given) :])
    return hashed.hexdigest()


def _model(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> Model:
    learned = {name: array for name, array in tensors.items() if not name.startswith(IDS)}
    space, recipe = _space(tensors, header), _recipe(header)
    kind = header["frame"] if find_spec(header["frame"]) else "polars"  # what is there to answer in
    seen_table = sparse("seen", len(space.users), len(space.items))
    if header.get("fitted") == "Ranker":
        scorer = {n.removeprefix(SCORER): a for n, a in learned.items() if n.startswith(SCORER)}
        others = {n: a for n, a in learned.items() if not n.startswith(SCORER)}
        seen = _seen(check(others, seen_table))
        return Ranker(space, recipe.restore(scorer, space, seen), seen, recipe, kind)
    found = check(learned, {**_tables(space), **seen_table})
    parameters = Parameters(*(found[name] for name in Parameters._fields))
    rows = {name: rows_from(found, name) for name in ROWS} | {"seen": _seen(found)}
    damping = header.get("damping") or 0.0
    model = Recommender(space, parameters, recipe=recipe, frame_kind=kind, damping=damping, **rows)
    refuse_overflow(*_extremes(model))
    return model


def _space(tensors: dict[str, np.ndarray], header: dict[str, Any]) -> FeatureSpace:
    ids = {name: _vocabulary(name, array) for name, array in tensors.items()
           if name.startswith(IDS)}  # fmt: skip
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
    )
    if ids:
        raise ModelFileError(f"there are ids {min(ids)!r}, which no field has")
    return space


def _seen(found: Mapping[str, np.ndarray]) -> Rows:
    seen = rows_from(found, "seen")
    refuse_overflow(largest(seen.value) * len(seen.value))  # they are added up
    return seen


def _tables(space: FeatureSpace) -> dict[str, Any]:
    """What the arrays of a Recommender must be, but `seen`."""
    users, items = len(space.users), len(space.items)
    query, features = space.query.size, space.item.size
    return {
        "users": Numbers((users, "factors")),
        "items": Numbers((items, "factors")),
        "item_bias": Numbers((items,)),
        "query": Numbers((query, "factors")),
        "features": Numbers((features, "factors")),
        "feature_bias": Numbers((features,)),
        **sparse("user_rows", users, query),
        **sparse("item_rows", items, features),
    }


def _extremes(model: Recommender) -> tuple[float, ...]:
    """More than the largest numbers that questions to the model can lead to."""
    p, rows = model.parameters, model.item_rows
    scales = [encoder.field.scale for encoder in model.space.query.encoders]
    asked = FAR * sum(scales) * largest(p.query)
    query = largest(p.users) + reach(model.user_rows, p.query) + asked
    item = largest(p.items) + largest(p.features) + reach(rows, p.features)
    bias = largest(p.item_bias) + reach(rows, p.feature_bias[:, None])
    scores = p.users.shape[1] * (query + item) * (query + item) + bias
    return scores * (1 + abs(model.damping)), largest(rows.value) * largest(rows.value)


def _recipe(header: dict[str, Any]) -> Any:
    name = header["recipe"]
    kind = catalog.from_signature(name)
    if kind is None:
        module = name.partition(":")[0]
        hint = f": import {module} first" if ":" in name else ""
        raise ModelFileError(f"the file holds a {name!r}, which this fmpair does not know{hint}")
    return option.recipe(kind, header["options"])


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
        text["role"], text["name"], field_from(text["field"]), vocabulary,
        text["centre"], text["spread"], tuple(text["edges"]),
    )  # fmt: skip


def _vocabulary(name: str, content: np.ndarray) -> Vocabulary:
    """The ids of an array of bytes."""
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ModelFileError(f"the ids {name!r} are {content.dtype}, not bytes")
    try:
        return unpacked(content)
    except Exception as error:
        raise ModelFileError(f"the ids {name!r} cannot be read: {error}") from error
