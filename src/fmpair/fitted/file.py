"""A model as one file: safetensors with the schema inside, a checksum, no pickle.

The tensors are the arrays of the fitted model and its ids. Ids are numbers as they are, or texts as
UTF-8 bytes with their offsets. Everything else is one JSON text in the header: the types of the
ids, the fitted type, and the recipe that can read the arrays. The checksum covers the whole file,
with its own 64 digits taken as zeros.
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
from decimal import Decimal
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

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
from fmpair.fitted.file_checks import (
    LONGEST,
    LONGEST_TEXT,
    Place,
    check_header,
    header_of,
    places_of,
)
from fmpair.threads import check_process

FORMAT = 4
BLANK = "0" * 64
NO_VALUES = (pl.Boolean, pl.Binary)  # types that the values of a field never have

IDS, OFFSETS = "ids.", ".offsets"  # names of tensors: ids.users, ids.users.offsets
DAY = 24 * 60 * 60
YEARS = (-62_135_596_800 + DAY, 253_402_300_799 - DAY)  # 1 to 9999 in seconds, in every time zone
DAYS = (-999_999_998 * DAY, 999_999_998 * DAY)  # the limits of Python's timedelta
UNITS = {"ms": 10**3, "us": 10**6, "ns": 10**9}
NUMBERS: dict[str, Any] = {
    "Int8": np.int8, "Int16": np.int16, "Int32": np.int32, "Int64": np.int64,
    "UInt8": np.uint8, "UInt16": np.uint16, "UInt32": np.uint32, "UInt64": np.uint64,
    "Float32": np.float32, "Float64": np.float64,
    "Boolean": np.bool_, "Date": np.int32, "Time": np.int64, "Datetime": np.int64,
    "Duration": np.int64, "Null": np.int8,
}  # fmt: skip
TEXTS = ("String", "Binary", "Int128", "UInt128", "Decimal")
MOST_DIGITS = 40  # of a number that is kept as text


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
    tensors = dict(saved.arrays)
    for name, vocabulary in vocabularies.items():
        tensors |= ids_arrays(name, vocabulary.ids)
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
        "history": None if space.history is None else asdict(space.history),
        "pairing": None if space.pairing is None else asdict(space.pairing),
        "event_weights": space.event_weights and list(space.event_weights),
    }
    write(path, tensors, header)


def write(path: str | Path, tensors: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays and a header with "format" and a blank "sha256", which is filled in."""
    text = json.dumps(header, sort_keys=True, default=np.generic.item)
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    content = safetensors.save(arrays, metadata={"fmpair": text})
    if header_of(content) is None:  # it could not be loaded again
        raise ModelFileError(
            f"the model cannot be saved: its options, columns and bins take more than {LONGEST:,} "
            f"bytes, or one is a text of more than {LONGEST_TEXT:,} characters"
        )
    digest = hashlib.sha256(content).hexdigest()
    write_atomically(path, content.replace(BLANK.encode(), digest.encode(), 1))


def read(path: str | Path, mapped: bool = False) -> Saved:
    """Return the contents of a model file; raise ModelFileError for any other file.

    Nothing in the file is trusted; whoever makes a model of the arrays checks them first.
    mapped: the arrays are the file's pages, which processes share; see `catalog.load`.
    """
    header, tensors = contents(path, mapped)
    with understood(path):
        check_header(header)
        kind = header["frame"] if find_spec(header["frame"]) else "polars"  # what is installed
        return Saved(
            header["fitted"],
            header["recipe"],
            header["options"],
            _space(tensors, header),
            {name: array for name, array in tensors.items() if not name.startswith(IDS)},
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
    if header["format"] != FORMAT:
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
    with understood(path):
        return header, {name: _tensor(content, at, mapped) for name, at in places.items()}


def checksum_of(path: str | Path) -> str:
    """Return the checksum inside a model file, which identifies it; the rest is not read."""
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
    return header["sha256"]


@contextmanager
def understood(path: str | Path) -> Iterator[None]:
    """Turn any error of a block that reads a file's parts into a ModelFileError of one line."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"{str(path)!r} cannot be read as a model: {reason}") from error


def _content(path: str | Path) -> mmap.mmap | bytes:
    """Return the bytes of a file, which are read when they are used; only of a plain file.

    A pipe could block, and a device may have no end.
    """
    try:
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # to open a folder raises
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


def _tensor(content: mmap.mmap | bytes, place: Place, mapped: bool) -> np.ndarray:
    """Return an array of the file, a copy unless it is mapped."""
    kind, shape, start = place
    size = math.prod(shape)
    if not size:
        return np.zeros(shape, kind)
    array = np.frombuffer(content, kind, size, start).reshape(shape)
    return array if mapped and array.flags.aligned else array.copy()


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
    for name in sorted(tensors):
        if name.startswith(IDS) and name not in used:
            raise ModelFileError(f"the ids {name!r} belong to no field")
    encoders = [
        _encoder(text, ids.pop(f"field.{number}", None))
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
        event_weights=weights
        and EventWeights(weights[0], tuple((kind, float(weight)) for kind, weight in weights[1])),
    )
    space = space if history is None else space.with_history(history_field(history))
    if pairing is not None:
        pairing = Pairing(pairing["factors"], pairs_from(pairing["pairs"]), pairing["items"])
    return space.with_pairing(pairing)


def _described(encoder: Encoder) -> dict[str, Any]:
    """Return an encoder without its vocabulary as plain values."""
    return {
        "role": encoder.role,
        "name": encoder.name,
        "field": asdict(encoder.field),
        "centre": encoder.centre,
        "spread": encoder.spread,
        "edges": list(encoder.edges),
    }


def _encoder(text: dict[str, Any], values: pl.Series | None) -> Encoder:
    if values is not None and values.dtype in NO_VALUES:
        raise ModelFileError(f"the field {text['name']!r} has values of {values.dtype}")
    return Encoder(
        text["role"],
        text["name"],
        field_from(text["field"]),
        None if values is None else Vocabulary(values),
        text["centre"],
        text["spread"],
        tuple(text["edges"]),
    )


# Ids as tensors


def ids_type(dtype: pl.DataType) -> list[Any]:
    """Return a type of ids as plain values: its name and its parameters."""
    name = str(dtype.base_type())
    if isinstance(dtype, pl.Datetime):
        return [name, dtype.time_unit, dtype.time_zone]
    if isinstance(dtype, pl.Duration):
        return [name, dtype.time_unit]
    if isinstance(dtype, pl.Decimal):
        return [name, dtype.precision, dtype.scale]
    if name not in NUMBERS and name not in TEXTS:
        raise ModelFileError(f"the model cannot be saved: ids of type {dtype}")
    return [name]


def ids_arrays(name: str, ids: pl.Series) -> dict[str, np.ndarray]:
    """Return the tensors of ids, by name."""
    kind = ids_type(ids.dtype)[0]
    if kind not in TEXTS:
        values = np.zeros(0, np.int8) if kind == "Null" else ids.to_physical().to_numpy()
        return {IDS + name: values.astype(NUMBERS[kind])}
    cells = ids.to_list()
    if kind != "Binary":
        cells = [str(value).encode() for value in cells]
    offsets = np.zeros(len(cells) + 1, np.int64)
    np.cumsum([len(cell) for cell in cells], out=offsets[1:])
    content = np.frombuffer(b"".join(cells), np.uint8)
    return {IDS + name: content, IDS + name + OFFSETS: offsets}


def ids_from(name: str, kind: list[Any], tensors: Mapping[str, np.ndarray]) -> pl.Series:
    """Return the ids of a file; raise ModelFileError unless they are distinct and valid.

    kind: as `ids_type` gives it, not checked yet.
    """
    try:
        dtype = _dtype(*kind)
        values = tensors.get(IDS + name)
        if values is None or values.ndim != 1:
            raise ValueError("there is no list of them")
        offsets = tensors.get(IDS + name + OFFSETS)
        if (offsets is not None) != (kind[0] in TEXTS):
            raise ValueError(f"{kind[0]} ids and {'no ' if offsets is None else ''}offsets")
        if offsets is not None:
            ids = _from_texts(kind, dtype, values, offsets)
        else:
            ids = _from_numbers(kind, dtype, values)
        if ids.n_unique() < len(ids) or ids.null_count():
            raise ValueError("an id occurs twice, or is missing")
    except Exception as error:
        raise ModelFileError(f"the ids of {name} cannot be read: {error}") from error
    return ids


def _dtype(name: Any, *parameters: Any) -> pl.DataType:
    """Return the type that `ids_type` describes; raise ValueError for any other."""
    match name, parameters:
        case "Datetime", (str() as unit, None | str() as zone) if unit in UNITS:
            dtype = pl.Datetime(unit, zone)  # type: ignore[arg-type]  # one of UNITS
            pl.Series([0], dtype=dtype).dt.hour()  # raises for an unknown time zone
            return dtype
        case "Duration", (str() as unit,) if unit in UNITS:
            return pl.Duration(unit)  # type: ignore[arg-type]
        case "Decimal", (int() as precision, int() as scale) if 0 <= scale <= precision <= 38:
            return pl.Decimal(precision, scale)
        case str(), () if name in (*NUMBERS, *TEXTS):
            if name not in ("Datetime", "Duration", "Decimal"):
                return getattr(pl, name)()
    raise ValueError("no type that ids can have")


def _from_numbers(kind: list[Any], dtype: pl.DataType, values: np.ndarray) -> pl.Series:
    name = kind[0]
    if values.dtype != NUMBERS[name]:
        raise ValueError(f"{name} ids are {values.dtype}, not {np.dtype(NUMBERS[name])}")
    if name == "Null":
        if len(values):
            raise ValueError("an id is missing")
        return pl.Series([], dtype=pl.Null)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise ValueError("an id is missing")
    limits = _limits(kind)
    if limits and len(values) and not limits[0] <= values.min() <= values.max() <= limits[1]:
        raise ValueError(f"{dtype} out of range")
    return pl.Series(values).cast(dtype)


def _limits(kind: list[Any]) -> tuple[int, int] | None:
    """Return the least and the largest number of a type of times, None for other types."""
    match kind:
        case "Date", *_:
            return YEARS[0] // DAY, YEARS[1] // DAY
        case "Time", *_:
            return 0, DAY * 10**9 - 1
        case "Datetime", unit, _:
            return YEARS[0] * UNITS[unit], YEARS[1] * UNITS[unit]
        case "Duration", unit:
            return DAYS[0] * UNITS[unit], DAYS[1] * UNITS[unit]
    return None


def _check_offsets(content: np.ndarray, offsets: np.ndarray) -> None:
    """Raise ValueError unless the offsets divide the bytes into texts."""
    if content.dtype != np.uint8 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise ValueError("texts are uint8 bytes and int64 offsets")
    rising = len(offsets) and offsets[0] == 0 and (offsets[1:] >= offsets[:-1]).all()
    if not rising or offsets[-1] != len(content):
        raise ValueError(f"the offsets do not rise from 0 to {len(content)}")


def _from_texts(
    kind: list[Any], dtype: pl.DataType, content: np.ndarray, offsets: np.ndarray
) -> pl.Series:
    _check_offsets(content, offsets)
    data, places = content.tobytes(), pairwise(offsets.tolist())
    if kind[0] == "Binary":
        return pl.Series([data[first:end] for first, end in places], dtype=pl.Binary)
    if data.isascii():  # twice as fast
        whole_text = data.decode()
        texts = [whole_text[first:end] for first, end in places]
    else:
        texts = [data[first:end].decode() for first, end in places]  # raises for invalid UTF-8
    if kind[0] == "String":
        return pl.Series(texts, dtype=pl.String)
    if max(map(len, texts), default=0) > MOST_DIGITS:
        raise ValueError("numbers of too many digits")
    if kind[0] != "Decimal":
        whole = [int(text) for text in texts]
        least = 0 if kind[0] == "UInt128" else -(2**127)
        if whole and not least <= min(whole) <= max(whole) < least + 2**128:
            raise ValueError("numbers of too many digits")
        return pl.Series(whole, dtype=dtype)
    numbers = [Decimal(text) for text in texts]
    precision, scale = kind[1:]
    for number in numbers:
        exponent = number.as_tuple().exponent  # text for what is not finite
        if not isinstance(exponent, int) or not -scale <= exponent <= precision:
            raise ValueError("numbers with too many decimals")
        if number.copy_abs() >= 10 ** (precision - scale):  # abs would round
            raise ValueError("numbers of too many digits")
    return pl.Series(numbers, dtype=dtype)
