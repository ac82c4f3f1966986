"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the arrays of the fitted model, its ids and its catalogue. Everything else is one
JSON text in the header: the types of ids and columns, the fitted type, and the recipe that can read
the arrays. The checksum covers the whole file, with its own 64 digits taken as zeros.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.data.event_types import DROPPED, EventWeights, Refunds
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import ModelFileError, nearest
from fmpair.features import FeatureSpace, Pairing, Side
from fmpair.features.encoder import Encoder
from fmpair.features.field import field_from
from fmpair.features.history_fields import HISTORY, history_field
from fmpair.features.space import pairs_from
from fmpair.files import atomic_path
from fmpair.fitted.file_checks import (
    LONGEST,
    LONGEST_TEXT,
    STORED,
    Place,
    check_header,
    header_of,
    places_of,
)
from fmpair.fitted.file_columns import (
    CATALOGUE,
    IDS,
    OFFSETS,
    columns_from,
    ids_arrays,
    ids_from,
    ids_type,
    table_arrays,
)
from fmpair.threads import check_process

FORMAT, OLDEST = 5, 4  # 4 had no catalogue
BLANK = "0" * 64
NO_VALUES = (pl.Boolean, pl.Binary)  # types that the values of a field never have
DESCRIBED = ("role", "name", "centre", "spread", "edges", "means", "spreads", "described")
OWNERS = "owners."  # prefix of tensors: the number of items with each value of a list


class Saved(NamedTuple):
    """The contents of a file. fitted: the type of the model; recipe, options: of its recipe.

    arrays: all that was learned, by name; not checked when they come from a file.
    """

    fitted: str
    recipe: str
    options: Mapping[str, Any]
    space: FeatureSpace
    arrays: Mapping[str, np.ndarray]
    frame_kind: str
    damping: float


def save(saved: Saved, path: str | Path) -> None:
    """Write a model to a file, all or nothing."""
    check_process()
    space = saved.space
    encoders = [e for e in (*space.query.encoders, *space.item.encoders) if e.role != HISTORY]
    vocabularies = {"users": space.users, "items": space.items}
    for number, encoder in enumerate(encoders):
        if encoder.vocabulary is not None:
            vocabularies[f"field.{number}"] = encoder.vocabulary
    owners = {f"{OWNERS}{n}": np.array(e.owners) for n, e in enumerate(encoders) if e.owners}
    tensors = dict(saved.arrays) | owners
    for name, vocabulary in vocabularies.items():
        tensors |= ids_arrays(name, vocabulary.ids)
    columns, catalogue = table_arrays(space.catalogue)
    tensors |= catalogue
    header = {
        "format": FORMAT,
        "sha256": BLANK,
        "fitted": saved.fitted,
        "recipe": saved.recipe,
        "options": saved.options,
        "frame": saved.frame_kind,
        "damping": saved.damping,
        "whole": space.whole,
        "id_columns": list(space.id_columns),
        "ids": {name: ids_type(ids.ids.dtype) for name, ids in vocabularies.items()},
        "fields": [_described(encoder) for encoder in encoders],
        "catalogue": columns,
        "history": None if space.history is None else asdict(space.history),
        "pairing": None if space.pairing is None else asdict(space.pairing),
        "event_weights": space.event_weights and list(space.event_weights),
        "refunds": list(space.refunds),
    }
    write(path, tensors, header)


def write(path: str | Path, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays and a header with "format" and a blank "sha256", which is filled in.

    The arrays are written as they are: safetensors would copy them, and a large model takes half
    of the memory.
    """
    text = json.dumps(header, sort_keys=True, default=np.generic.item)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    kinds = {np.dtype(kind): name for name, kind in STORED.items()}
    position = {kind: n for n, kind in enumerate(kinds)}
    ordered = sorted(arrays.items(), key=lambda pair: (position[pair[1].dtype], pair[0]))
    begin = _beginning(dict(ordered), text, kinds)
    if header_of(begin) is None:  # it could not be loaded again
        raise ModelFileError(
            f"the model cannot be saved: its options, columns and bins take more than {LONGEST:,} "
            f"bytes, or one is a text of more than {LONGEST_TEXT:,} characters"
        )
    parts = [array.reshape(-1).view(np.uint8).data for _, array in ordered if array.size]
    hashed = hashlib.sha256(begin)
    for part in parts:
        hashed.update(part)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(begin.replace(BLANK.encode(), hashed.hexdigest().encode(), 1))
        for part in parts:
            file.write(part)


def _beginning(arrays: Mapping[str, np.ndarray], text: str, kinds: Mapping[np.dtype, str]) -> bytes:
    """Return the bytes of a safetensors file before its first array.

    text: its metadata; kinds: the names of types.
    """
    entries: dict[str, Any] = {"__metadata__": {"fmpair": text}}
    start = 0
    for name, array in arrays.items():
        end = start + array.nbytes
        offsets = [start, end]
        entries[name] = {"dtype": kinds[array.dtype], "shape": array.shape, "data_offsets": offsets}
        start = end
    json_text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    json_text += b" " * (-len(json_text) % 8)
    return len(json_text).to_bytes(8, "little") + json_text


def read(path: str | Path, mapped: bool = False) -> Saved:
    """Return the contents of a model file; raise ModelFileError for any other file.

    The arrays are not checked here; the caller checks them before it builds a model.
    mapped: map the arrays from the file, so that processes share them; see `catalog.load`.
    """
    header, tensors = contents(path, mapped)
    with model_file_errors(path):
        check_header(header)
        kind = header["frame"] if find_spec(header["frame"]) else "polars"  # what is installed
        return Saved(
            header["fitted"],
            header["recipe"],
            header["options"],
            _space(tensors, header),
            {
                n: array
                for n, array in tensors.items()
                if not n.startswith((IDS, CATALOGUE, OWNERS))
            },
            kind,
            header["damping"],
        )


def contents(path: str | Path, mapped: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a file; nothing but format and checksum is checked."""
    check_process()
    content = _content(path)
    header = header_of(content)
    if header is None:
        kind = "damaged, or not an fmpair model" if content else "empty"
        raise ModelFileError(
            f"{str(path)!r} is {kind}: a model file is what `save` or `fmpair fit` writes"
        )
    if not OLDEST <= header["format"] <= FORMAT:
        later = header["format"] > FORMAT
        raise ModelFileError(
            f"{str(path)!r} is a model file of format {str(header['format'])[:20]}; this fmpair "
            f"reads {FORMAT}: {'upgrade with pip install -U fmpair' if later else 'fit again'}"
        )
    places = places_of(content)
    if places is None or _digest(content, header["sha256"].encode()) != header["sha256"]:
        wrong = f"its {'size' if places is None else 'checksum'} does not match"
        raise ModelFileError(
            f"{str(path)!r} is damaged: {wrong}. Restore it from a copy or fit again"
        )
    if header["format"] == OLDEST:
        header["catalogue"] = []
    header.setdefault("refunds", list(DROPPED))  # files of early versions of format 5 have none
    with model_file_errors(path):
        return header, {name: _tensor(content, at, mapped) for name, at in places.items()}


def checksum_of(path: str | Path) -> str:
    """Return the checksum inside a model file, which identifies it; the rest is not read."""
    return header_at(path)["sha256"]


def header_at(path: str | Path) -> dict[str, Any]:
    """Return the header of a model file, not checked; the rest is not read."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            text = file.read(min(int.from_bytes(start, "little"), LONGEST))
    except (OSError, ValueError):
        _content(path)  # raises with the reason
        raise
    header = header_of(start + text)
    if header is None:
        raise ModelFileError(f"{str(path)!r} is damaged, or not an fmpair model")
    return header


@contextmanager
def model_file_errors(path: str | Path) -> Iterator[None]:
    """Turn any error of a block that reads a file's parts into a ModelFileError of one line."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"{str(path)!r} cannot be read as a model: {reason}") from error


def _content(path: str | Path) -> mmap.mmap | bytes:
    """Map the bytes of a plain file; refuse a pipe, which could block, and a device."""
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a folder raises anyway
            raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")
        with Path(path).open("rb") as file:
            if not os.fstat(file.fileno()).st_size:
                return b""
            # Kernels take arrays that can be written. What is written would be a private copy.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        near = _near(Path(path)) if isinstance(error, FileNotFoundError) else ""
        raise ModelFileError(f"cannot read model {str(path)!r}: {reason}{near}") from None


def _tensor(content: mmap.mmap | bytes, location: Place, mapped: bool) -> np.ndarray:
    """Return an array of the file, a copy unless it is mapped."""
    kind, shape, start = location
    size = math.prod(shape)
    if not size:
        return np.zeros(shape, kind)
    array = np.frombuffer(content, kind, size, start).reshape(shape)
    return array if mapped and array.flags.aligned else array.copy()


def has_lists(header: Mapping[str, Any]) -> bool:
    """Return whether a checked header has columns of lists, which polars reads on its threads."""
    return any(column[1:2] not in ([], [False]) for column in header.get("catalogue", ()))


def _near(path: Path) -> str:
    """Return a hint to a file of a similar name in the same folder."""
    with suppress(OSError):
        guess = nearest(path.name, [other.name for other in path.parent.iterdir()])
        return f". Did you mean {str(path.parent / guess)!r}?" if guess else ""
    return f": there is no folder {str(path.parent)!r}"


def _digest(content: mmap.mmap | bytes, given: bytes) -> str:
    """Return the checksum of a file, with the digits of the one in it taken as zeros."""
    at, view = content.find(given), memoryview(content)
    hashed = hashlib.sha256(view[: max(at, 0)])
    hashed.update(BLANK.encode())
    hashed.update(view[at + len(given) :])
    return hashed.hexdigest()


def _space(tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> FeatureSpace:
    ids = {name: ids_from(name, kind, tensors) for name, kind in header["ids"].items()}
    used = {IDS + name for name in ids} | {f"{IDS}{name}{OFFSETS}" for name in ids}
    used |= {f"{OWNERS}{number}" for number in range(len(header["fields"]))}
    for name in sorted(tensors):
        if name.startswith((IDS, OWNERS)) and name not in used:
            raise ModelFileError(f"the ids {name!r} belong to no field")
    encoders = [
        _encoder(text, ids.pop(f"field.{number}", None), tensors.get(f"{OWNERS}{number}"))
        for number, text in enumerate(header["fields"])
    ]
    for name in ("users", "items"):
        if not len(ids.get(name, ())):
            raise ModelFileError(f"it knows no {name}")
    users, items = Vocabulary(ids.pop("users")), Vocabulary(ids.pop("items"))
    if ids:
        raise ModelFileError(f"the ids {min(ids)!r} belong to no field")
    weights, pairing, history = (header[name] for name in ("event_weights", "pairing", "history"))
    space = FeatureSpace(
        users,
        items,
        Side(tuple(e for e in encoders if e.role != "item")),
        Side(tuple(e for e in encoders if e.role == "item")),
        header["whole"],
        tuple(header["id_columns"]),
        catalogue=columns_from(header["catalogue"], tensors, len(items)),
        event_weights=weights
        and EventWeights(weights[0], tuple((kind, float(weight)) for kind, weight in weights[1])),
        refunds=Refunds(*header["refunds"]),
    )
    space = space if history is None else space.with_history(history_field(history))
    if pairing is not None:
        pairing = Pairing(pairing["factors"], pairs_from(pairing["pairs"]), pairing["items"])
    return space.with_pairing(pairing)


def _described(encoder: Encoder) -> dict[str, Any]:
    """Return an encoder without its vocabulary as plain values."""
    plain = {name: getattr(encoder, name) for name in DESCRIBED}
    return {**plain, "field": asdict(encoder.field)}


def _encoder(text: dict[str, Any], values: pl.Series | None, owners: np.ndarray | None) -> Encoder:
    if values is not None and values.dtype in NO_VALUES:
        raise ModelFileError(f"the field {text['name']!r} has values of {values.dtype}")
    listed = text["role"] == "item" and text["field"]["kind"] == "multi"
    if owners is None and text.get("described"):
        raise ModelFileError(f"the numbers of items by value of {text['name']!r} are missing")
    if owners is not None and not (listed and values is not None and _are_counts(owners, values)):
        raise ModelFileError(f"the field {text['name']!r} has wrong numbers of items by value")
    return Encoder(
        text["role"],
        text["name"],
        field_from(text["field"]),
        None if values is None else Vocabulary(values),
        text["centre"],
        text["spread"],
        edges=tuple(text["edges"]),
        means=tuple(text.get("means") or ()),
        spreads=tuple(text.get("spreads") or ()),
        owners=() if owners is None else tuple(owners.tolist()),
        described=text.get("described") or 0,
    )


def _are_counts(owners: np.ndarray, values: pl.Series) -> bool:
    return owners.dtype == np.int64 and owners.shape == (len(values),) and owners.min() >= 0
