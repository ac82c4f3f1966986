"""Ids as bytes: an Arrow table of one column, which polars writes and nobody trusts on reading.

polars takes Arrow bytes at their word and ends the process over some that lie about their sizes. So
they are read here: whatever they say of themselves is held against their length first.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fmpair.arrays import Rows
from fmpair.data.vocabulary import Vocabulary
from fmpair.engine.contract import Parameters
from fmpair.errors import ModelFileError
from fmpair.features import FeatureSpace
from fmpair.features.encoder import FAR
from fmpair.features.history_fields import history_weights
from fmpair.fitted.file_checks import (
    Moments,
    Numbers,
    Places,
    Starts,
    Table,
    check,
    largest,
    longest,
    reach,
    refuse_overflow,
    sparse,
)
from fmpair.fitted.recent_events import Recent, remembers

# Sparse rows as arrays by name, for files, and back.


def arrays_of(tables: Mapping[str, Rows]) -> dict[str, np.ndarray]:
    """Three arrays for each of the rows, such as `near.start`."""
    return {
        f"{name}.{part}": array
        for name, rows in tables.items()
        for part, array in zip(Rows._fields, rows)
    }


def rows_from(arrays: Mapping[str, np.ndarray], name: str) -> Rows:
    """The rows of that name."""
    return Rows(*(arrays[f"{name}.{part}"] for part in Rows._fields))


# The arrays of fitted models in a file: what they must be, and models' parts made of them.


def learned(
    arrays: Mapping[str, np.ndarray], space: FeatureSpace, damping: float
) -> tuple[Parameters, Rows, Rows, Rows, Recent | None]:
    """(parameters, user_rows, item_rows, seen, recent) of a Recommender that always answers."""
    found = check(arrays, {**_tables(space), **_seen_table(space), **_recent_table(space)})
    parameters = Parameters(*(found[name] for name in Parameters._fields))
    if space.pairing is not None and parameters.users.shape[1] <= space.pairing.factors:
        raise ModelFileError("its vectors have no room for pairs beside triples")
    user_rows, item_rows = rows_from(found, "user_rows"), rows_from(found, "item_rows")
    refuse_overflow(*_extremes(space, parameters, user_rows, item_rows, damping))
    recent = None
    if remembers(space):
        recent = Recent(*(found[f"recent.{part}"] for part in Recent._fields))
    return parameters, user_rows, item_rows, _summable(found), recent


def seen_rows(arrays: Mapping[str, np.ndarray], space: FeatureSpace) -> Rows:
    """The seen items, where there is no other array."""
    return _summable(check(arrays, _seen_table(space)))


def _summable(found: Mapping[str, np.ndarray]) -> Rows:
    seen = rows_from(found, "seen")
    refuse_overflow(largest(seen.value) * len(seen.value))  # they are added up
    return seen


def _seen_table(space: FeatureSpace) -> Table:
    return sparse("seen", len(space.users), len(space.items))


def _recent_table(space: FeatureSpace) -> Table:
    if not remembers(space):
        return {}
    return {
        "recent.start": Starts((len(space.users) + 1,), "recent events"),
        "recent.item": Places(("recent events",), len(space.items)),
        "recent.moment": Moments(("recent events",)),
    }


def _tables(space: FeatureSpace) -> Table:
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


def _extremes(
    space: FeatureSpace, p: Parameters, user_rows: Rows, item_rows: Rows, damping: float
) -> tuple[float, ...]:
    """More than the largest numbers that questions to the model can lead to."""
    scales = [encoder.field.scale for encoder in space.query.encoders]
    asked = FAR * sum(scales) * largest(p.query)
    query = largest(p.users) + reach(user_rows, p.query) + asked
    if space.history is not None:
        before = longest(space.earlier_items(item_rows)) * largest(p.query)
        query += float(history_weights(space.history).sum()) * before
    item = largest(p.items) + largest(p.features) + reach(item_rows, p.features)
    bias = largest(p.item_bias) + reach(item_rows, p.feature_bias[:, None])
    scores = p.users.shape[1] * (query + item) * (query + item) + bias
    if space.pairing is not None:
        scores += space.pairing.factors * query * item * (query + item)
    return scores * (1 + abs(damping)), largest(item_rows.value) * largest(item_rows.value)


# Flatbuffers, read without trusting them: whatever points outside the bytes is refused.


@dataclass(frozen=True)
class FlatTable:
    """A table of a flatbuffer: fields by number, each there or not.

    data: the bytes it stands in; at: where. ValueError where a field leads out of the bytes.
    """

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes, at: int = 0) -> FlatTable:
        """The table that the bytes from `at` on are."""
        return cls(data, at + read(data, "<I", at))

    def number(self, field: int, format: str, default: Any = 0) -> Any:
        """A number, or the default where the field is not there."""
        place = self._place(field)
        return default if place is None else read(self.data, format, place)

    def table(self, field: int) -> FlatTable | None:
        place = self._place(field)
        return None if place is None else FlatTable.root(self.data, place)

    def tables(self, field: int) -> list[FlatTable]:
        """The tables of a vector."""
        first, count = self._vector(field, 4)
        return [FlatTable.root(self.data, first + 4 * n) for n in range(count)]

    def rows(self, field: int, format: str) -> list[tuple[Any, ...]]:
        """The structs of a vector, each as a tuple."""
        size = struct.calcsize(format)
        first, count = self._vector(field, size)
        return list(struct.iter_unpack(format, self.data[first : first + size * count]))

    def text(self, field: int) -> str | None:
        if self._place(field) is None:
            return None
        first, count = self._vector(field, 1)
        return self.data[first : first + count].decode()

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """(where the first element of a vector stands, how many there are)."""
        place = self._place(field)
        if place is None:
            return 0, 0
        start = place + read(self.data, "<I", place)
        count = read(self.data, "<I", start)
        if start + 4 + count * size > len(self.data):
            raise ValueError("a vector is longer than the bytes it stands in")
        return start + 4, count

    def _place(self, field: int) -> int | None:
        """Where a field stands; None where it is not there."""
        fields = self.at - read(self.data, "<i", self.at)
        if 4 + 2 * field >= read(self.data, "<H", fields):
            return None
        offset = read(self.data, "<H", fields + 4 + 2 * field)
        return self.at + offset if offset else None


def read(data: bytes, format: str, at: int) -> Any:
    """One number at a place."""
    if not 0 <= at <= len(data) - struct.calcsize(format):
        raise ValueError("a place lies outside the bytes")
    return struct.unpack_from(format, data, at)[0]


MAGIC, MARK = b"ARROW1", 0xFFFFFFFF
ROWS = 3  # what a message of rows says it holds
MOST_BATCHES = 10_000
MOST_SHARED = 4  # times the bytes there are: texts may share some, but not without end
VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])
INLINE = 12  # a text of so many bytes stands in its view
DAY = 24 * 60 * 60
YEARS = (-62_135_596_800 + DAY, 253_402_300_799 - DAY)  # 1 to 9999 in seconds, anywhere on earth
DAYS = (-999_999_998 * DAY, 999_999_998 * DAY)  # as far as Python counts
UNITS = {1: ("ms", 10**3), 2: ("us", 10**6), 3: ("ns", 10**9)}


class Column(NamedTuple):
    """How ids stand in the bytes, and how they are made of them.

    width: bytes of an id, 0 for one bit; texts stand where their views say. make: from the bytes of
    all ids one after the other, or, of texts, from those of each.
    """

    width: int
    make: Callable[[list[bytes]], pl.Series]
    texts: bool = False


def packed(vocabulary: Vocabulary) -> np.ndarray:
    """uint8 [bytes]: ids of any type."""
    buffer = io.BytesIO()
    vocabulary.ids.rename("id").to_frame().write_ipc(buffer)
    return np.frombuffer(buffer.getvalue(), np.uint8)


def unpacked(content: np.ndarray) -> Vocabulary:
    """The ids whose bytes these are; ValueError where they are not distinct ids, all there."""
    data = content.tobytes()
    footer = _footer(data)
    schema, blocks = footer.table(1), footer.rows(3, "<qi4xq")
    fields = schema.tables(1) if schema else []
    if len(fields) != 1 or fields[0].text(0) != "id" or len(blocks) > MOST_BATCHES:
        raise ValueError("no table of one column 'id'")
    column = _column(fields[0])
    cells: list[bytes] = []
    room = MOST_SHARED * len(data)
    for at, header, _ in blocks:
        found = _cells(data, column, at, header)
        room -= sum(map(len, found))
        if room < 0:
            raise ValueError("more ids than there are bytes")
        cells += found
    ids = column.make(cells)
    if ids.n_unique() < len(ids) or (ids.dtype.is_float() and ids.is_nan().any()):
        raise ValueError("an id occurs twice, or is missing")
    return Vocabulary(ids)


def _footer(data: bytes) -> FlatTable:
    length = read(data, "<i", len(data) - 10)
    if not (data.startswith(MAGIC) and data.endswith(MAGIC)):
        raise ValueError("no Arrow file")
    return FlatTable.root(data, len(data) - 10 - length)


def _cells(data: bytes, column: Column, at: int, header: int) -> list[bytes]:
    """The bytes of the ids of one batch, whose message stands at a place."""
    message = FlatTable.root(data, at + 8)
    batch = message.table(2)
    if read(data, "<I", at) != MARK or message.number(1, "<B") != ROWS or batch is None:
        raise ValueError("no batch of rows where one should be")
    if batch.table(3) is not None:
        raise ValueError("compressed ids, which fmpair does not write")
    count, spans = batch.number(0, "<q"), batch.rows(2, "<qq")
    if batch.rows(1, "<qq") != [(count, 0)] or not 0 <= count <= 8 * len(data):
        raise ValueError("an id is missing")
    buffers = [_slice(data, at + header + first, size) for first, size in spans]
    need = count * column.width if column.width else (count + 7) // 8
    if len(buffers) < 2 or len(data[buffers[1]]) < need:
        raise ValueError("fewer bytes than ids")
    if column.texts:
        return _texts(data, buffers[1].start, count, buffers[2:])
    cells = data[buffers[1]][:need]
    if column.width:
        return [cells]
    return [np.unpackbits(np.frombuffer(cells, np.uint8), count=count, bitorder="little").tobytes()]


def _slice(data: bytes, first: int, size: int) -> slice:
    if not (0 <= first <= len(data) and 0 <= size <= len(data) - first):
        raise ValueError("ids outside the bytes")
    return slice(first, first + size)


def _texts(data: bytes, at: int, count: int, buffers: list[slice]) -> list[bytes]:
    """The texts of views: short ones stand in the view itself, others in one of the buffers."""
    views = np.frombuffer(data, VIEW, count, at)
    length, far = views["length"].astype(np.int64), views["length"] > INLINE
    if (length < 0).any() or length.sum() > MOST_SHARED * len(data):
        raise ValueError("texts longer than the bytes there are")
    first = at + 4 + VIEW.itemsize * np.arange(count)
    if far.any():
        limits = np.array([(own.start, own.stop) for own in buffers], np.int64).reshape(-1, 2)
        number, offset = views["buffer"][far], views["offset"][far]
        if number.min() < 0 or number.max() >= len(limits) or offset.min() < 0:
            raise ValueError("a text outside the bytes")
        first[far] = limits[number, 0] + offset
        if (first[far] + length[far] > limits[number, 1]).any():
            raise ValueError("a text outside the bytes")
    return [data[a:b] for a, b in zip(first.tolist(), (first + length).tolist())]


def _column(field: FlatTable) -> Column:
    """What the schema says of the column, by the number of its type."""
    about = field.table(3)
    if about is None or field.table(4) is not None or field.tables(5):
        raise ValueError("ids of no type that ids can have")
    match field.number(2, "<B"):
        case 1:
            return Column(0, _nothing)
        case 2:
            return _whole(about.number(0, "<i"), bool(about.number(1, "<B")))
        case 3 if about.number(0, "<h") in (0, 1, 2):
            return _numbers(np.dtype(f"<f{2 << about.number(0, '<h')}"))
        case 6:
            return _numbers(np.dtype("<u1"), pl.Boolean())._replace(width=0)
        case 7 if about.number(2, "<i", 128) == 128:
            return Column(16, _decimals(about.number(0, "<i"), about.number(1, "<i")))
        case 8 if about.number(0, "<h", 1) == 0:
            return _numbers(np.dtype("<i4"), pl.Date(), (YEARS[0] // DAY, YEARS[1] // DAY))
        case 9 if about.number(0, "<h", 1) == 3:
            return _numbers(np.dtype("<i8"), pl.Time(), (0, DAY * 10**9 - 1))
        case 10 | 18 as kind:
            return _moments(about, kind == 18)
        case 23:
            return Column(VIEW.itemsize, lambda cells: pl.Series(cells, dtype=pl.Binary), True)
        case 24:
            return Column(VIEW.itemsize, _decoded, True)
    raise ValueError("ids of no type that ids can have")


def _nothing(cells: list[bytes]) -> pl.Series:
    """Of a column without any value."""
    if any(cells):
        raise ValueError("an id is missing")
    return pl.Series([], dtype=pl.Null)


def _decoded(cells: list[bytes]) -> pl.Series:
    return pl.Series([cell.decode() for cell in cells], dtype=pl.String)


def _numbers(
    stored: np.dtype, shown: pl.DataType | None = None, limits: tuple[int, int] | None = None
) -> Column:
    """Numbers as numpy has them; shown: what they stand for; limits: the least and the most."""

    def make(cells: list[bytes]) -> pl.Series:
        found = np.frombuffer(b"".join(cells), stored)
        if limits and len(found) and not limits[0] <= found.min() <= found.max() <= limits[1]:
            raise ValueError(f"{shown} that no calendar or clock has")
        return pl.Series(found) if shown is None else pl.Series(found).cast(shown)

    return Column(stored.itemsize, make)


def _whole(bits: int, signed: bool) -> Column:
    if bits in (8, 16, 32, 64):
        return _numbers(np.dtype(f"<{'i' if signed else 'u'}{bits // 8}"))
    if bits != 128:
        raise ValueError("ids of no type that ids can have")
    shown = pl.Int128 if signed else pl.UInt128
    return Column(16, lambda cells: pl.Series(_wide(cells, signed), dtype=shown))


def _decimals(precision: int, scale: int) -> Callable[[list[bytes]], pl.Series]:
    if not 0 <= scale <= precision <= 38:
        raise ValueError("decimal numbers of more digits than there are")

    def make(cells: list[bytes]) -> pl.Series:
        found = _wide(cells, signed=True)
        if any(abs(number) >= 10**precision for number in found):
            raise ValueError("decimal numbers of more digits than there are")
        exact = [Decimal(f"{number}E-{scale}") for number in found]
        return pl.Series(exact, dtype=pl.Decimal(precision, scale))

    return make


def _wide(cells: list[bytes], signed: bool) -> list[int]:
    """Whole numbers of 16 bytes."""
    data = b"".join(cells)
    return [
        int.from_bytes(data[at : at + 16], "little", signed=signed)
        for at in range(0, len(data), 16)
    ]


def _moments(about: FlatTable, lasting: bool) -> Column:
    """Times, or how long something lasts."""
    unit = about.number(0, "<h", int(lasting))
    if unit not in UNITS:
        raise ValueError("times of no unit that times can have")
    name, each = UNITS[unit]
    shown = pl.Duration(name) if lasting else pl.Datetime(name, about.text(1))  # type: ignore[arg-type]
    least, most = DAYS if lasting else YEARS
    return _numbers(np.dtype("<i8"), shown, (least * each, most * each))
