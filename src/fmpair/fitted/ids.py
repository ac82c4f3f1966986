"""Ids as bytes: an Arrow table of one column, which polars writes and nobody trusts on reading.

polars takes Arrow bytes at their word and ends the process over some that lie about their sizes. So
they are read here: whatever they say of themselves is held against their length first.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import polars as pl

from fmpair.data.vocabulary import Vocabulary
from fmpair.fitted.flatbuffer import Table, read

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


def _footer(data: bytes) -> Table:
    length = read(data, "<i", len(data) - 10)
    if not (data.startswith(MAGIC) and data.endswith(MAGIC)):
        raise ValueError("no Arrow file")
    return Table.root(data, len(data) - 10 - length)


def _cells(data: bytes, column: Column, at: int, header: int) -> list[bytes]:
    """The bytes of the ids of one batch, whose message stands at a place."""
    message = Table.root(data, at + 8)
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


def _column(field: Table) -> Column:
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


def _moments(about: Table, lasting: bool) -> Column:
    """Times, or how long something lasts."""
    unit = about.number(0, "<h", int(lasting))
    if unit not in UNITS:
        raise ValueError("times of no unit that times can have")
    name, each = UNITS[unit]
    shown = pl.Duration(name) if lasting else pl.Datetime(name, about.text(1))  # type: ignore[arg-type]
    least, most = DAYS if lasting else YEARS
    return _numbers(np.dtype("<i8"), shown, (least * each, most * each))
