"""A field fitted to its column: values in, sparse features out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import polars as pl

from fmpair.arrays import Rows, add_repeats, group_rows
from fmpair.data.vocabulary import Vocabulary, as_plain
from fmpair.errors import DataError
from fmpair.features.calendar import CODING, DATED, SINCE_EDGES, part_of
from fmpair.features.field import Field, kind_of

# The members of a column's cells: one for a category, several for lists and weighted sets.


Entries = tuple[np.ndarray, pl.Series, np.ndarray]


def entries_of(values: pl.Series, field: Field) -> Entries:
    """(row of each member int64 [n], members, weights float32 [n]), row by row.

    What is missing, and what weighs nothing, is no member.
    """
    plain = as_plain(values)
    if field.kind == "weighted":
        owner, members, weight = _weighted(plain, field)
    else:
        owner, members = _members(plain, field) if field.kind == "multi" else _each(plain)
        weight = np.ones(len(owner), np.float32)
    members = as_plain(members)
    if members.dtype == pl.Boolean:
        members = members.cast(pl.String)  # so that a command line's "true" finds it
    kept = members.is_not_null().to_numpy() & np.isfinite(weight) & (weight != 0)
    if kept.all():
        return owner, members, weight
    return owner[kept], members.filter(pl.Series(kept)), weight[kept]


def _each(values: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """Every cell its own member."""
    return np.arange(len(values)), values


def _members(values: pl.Series, field: Field) -> tuple[np.ndarray, pl.Series]:
    """The distinct members of lists, or of text split at the field's separator."""
    if values.dtype == pl.String:
        return _exploded(_parts(values, field.separator).list.unique(maintain_order=True))
    if not values.dtype.is_nested():
        return _each(values)
    return _exploded(_as_lists(values).list.unique(maintain_order=True))


def _weighted(values: pl.Series, field: Field) -> Entries:
    """Names and weights of structs, lists of pairs, or text."""
    dtype = values.dtype
    with suppress(pl.exceptions.PolarsError):  # where a weight is no number
        if dtype in (pl.String, pl.Null):
            return _from_text(values.cast(pl.String), field.separator)
        if isinstance(dtype, pl.Struct):
            return _from_struct(values)
        inner = getattr(dtype, "inner", None)
        if isinstance(inner, pl.Struct) and len(inner.fields) == 2:
            owner, pairs = _exploded(_as_lists(values))
            name, weight = (pairs.struct.field(part.name) for part in inner.fields)
            return owner, name, _weights(weight)
    raise DataError(
        f"column {values.name!r} holds {dtype}: weighted cells are structs of numbers, "
        "lists of (name, weight), or text such as 'rock:0.7|pop:0.3'"
    )


def _from_text(values: pl.Series, separator: str) -> Entries:
    """Text such as rock:0.7|pop:0.3; a name may hold colons itself."""
    owner, parts = _exploded(_parts(values, separator))
    name = parts.str.replace(r":[^:]*$", "").str.strip_chars()
    weight = parts.str.extract(r":([^:]*)$").str.strip_chars().cast(pl.Float32, strict=False)
    wrong = parts.filter(weight.is_null() | (name == ""))
    if len(wrong):
        raise DataError(
            f"column {values.name!r}: {wrong[0]!r} is no name with a weight; write 'name:0.5'"
        )
    return owner, name, weight.to_numpy()


def _from_struct(values: pl.Series) -> Entries:
    """A struct column {rock: 0.7, pop: 0.3}: its field names are the members."""
    table = values.struct.unnest()
    numbers = np.column_stack([_weights(column) for column in table])
    owner, column = np.nonzero(numbers)
    return owner, pl.Series(table.columns, dtype=pl.String).gather(column), numbers[owner, column]


def _weights(values: pl.Series) -> np.ndarray:
    """float32 [n]; 0 where missing."""
    return values.cast(pl.Float32).fill_null(0.0).to_numpy()


def _parts(values: pl.Series, separator: str) -> pl.Series:
    """Text as lists of its parts, without the blanks around them and without empty ones."""
    trimmed = pl.element().str.strip_chars().replace("", None)
    return values.str.split(separator).list.eval(trimmed).list.drop_nulls()


def _as_lists(values: pl.Series) -> pl.Series:
    """Lists, and arrays of fixed length as lists."""
    return values.arr.to_list() if isinstance(values.dtype, pl.Array) else values


def _exploded(lists: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """The row of each member, and the members one after the other."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    members = lists.filter(pl.Series(lengths > 0)).explode()
    return np.repeat(np.arange(len(lists)), lengths), members


NUMBERS = ("boolean", "numeric", "binned")
FAR = (
    5.0  # standardised values are clipped at this, so that an outlier cannot make training diverge
)
LARGEST = float(np.finfo(np.float32).max)  # a number beyond it is taken as missing, as infinity is


@dataclass(frozen=True)
class Encoder:
    """One field with what it learned from the training column.

    vocabulary: the values of categorical, multi, weighted fields.
    centre, spread: of numeric fields. edges: inner bin edges of binned fields.
    A part of a time is a field of its own, named `column.part`, and categorical or binned.
    """

    role: str
    name: str
    field: Field
    vocabulary: Vocabulary | None = None
    centre: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()

    @classmethod
    def fit(cls, role: str, values: pl.Series, field: Field) -> Encoder:
        """The encoder of a training column."""
        encoder = cls(role, values.name, replace(field, kind=kind_of(values, field)))
        return encoder._fitted(values)

    @classmethod
    def fit_part(cls, role: str, values: pl.Series, part: str, field: Field) -> Encoder:
        """The encoder of one part of a training column of times; of `since` of these days."""
        own = replace(field, kind=CODING[part], parts=(part,))
        if part == "since":
            return cls(role, values.name, own, edges=SINCE_EDGES)
        return cls(role, f"{values.name}.{part}", own)._fitted(part_of(values, part, field.zone))

    def _fitted(self, values: pl.Series) -> Encoder:
        encoder = self
        if encoder.field.kind in NUMBERS:
            return _fit_numbers(encoder, values)
        return replace(encoder, vocabulary=Vocabulary.of(encoder._members(values)))

    @property
    def part(self) -> str:
        """The part of a time that the field is, else empty."""
        return self.field.parts[0] if self.field.parts else ""

    @property
    def source(self) -> str:
        """The column it is made of."""
        return self.name.removesuffix(f".{self.part}") if self.part else self.name

    def values(self, frame: pl.DataFrame) -> pl.Series | None:
        """The values to encode, of a frame's column; None where it has none."""
        if self.part == "since":  # which only those can tell who know the user's events
            return frame[self.name] if self.name in frame.columns else None
        if self.source not in frame.columns:
            return None
        values = frame[self.source]
        return part_of(values, self.part, self.field.zone) if self.part else values

    @property
    def size(self) -> int:
        """How many features the field has."""
        if self.field.kind == "binned":
            return len(self.edges) + 1
        return 1 if self.vocabulary is None else len(self.vocabulary)

    def label(self, feature: int) -> str:
        """The readable name of one feature: an attribute may have as many as there are users."""
        if self.vocabulary is None:
            return self.labels()[feature]
        return f"{self.name}={self.vocabulary.ids[feature]}"

    def labels(self) -> list[str]:
        """One readable name per feature."""
        if self.vocabulary is not None:
            return [f"{self.name}={value}" for value in self.vocabulary.ids.to_list()]
        if self.field.kind == "binned":
            inner = _dates(self.edges) if self.part in DATED else _texts(self.edges)
            bounds = ["-inf", *inner, "inf"]
            return [f"{self.name} in ({a}, {b}]" for a, b in pairwise(bounds)]
        return [self.name]

    def encode(self, values: pl.Series) -> tuple[Rows, int]:
        """Features of each row, local to the field, and how many values were unseen."""
        unseen = 0
        if self.vocabulary is None:
            owner, index, value = self._encode_numbers(values)
        else:
            owner, members, value = entries_of(values, self.field)
            index = self.vocabulary.numbers(members)
            known = index >= 0
            unseen = 0 if self.part else len(known) - int(known.sum())
            if not known.all():
                owner, index, value = owner[known], index[known], value[known]
        rows = add_repeats(group_rows(owner, index, len(values), value))
        several = self.field.kind in ("multi", "weighted")
        wanted = several if self.field.normalize is None else self.field.normalize
        return scaled(sum_to_one(rows) if wanted else rows, self.field.scale), unseen

    def _encode_numbers(self, values: pl.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(row, feature, value) of each number; zero is absent."""
        numbers = self._numbers(values)
        owner = np.flatnonzero(~np.isnan(numbers))
        value = numbers[owner]
        if self.field.kind == "binned":
            return owner, self._bins(value), np.ones(len(owner))
        if self.field.kind == "boolean":
            value = (value != 0).astype(np.float64)
        elif self.field.standardize:
            value = np.clip((value - self.centre) / self.spread, -FAR, FAR)
        present = value != 0
        return owner[present], np.zeros(int(present.sum()), np.int32), value[present]

    def _bins(self, numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.asarray(self.edges), numbers, side="left")

    def bins_of(self, values: pl.Series) -> pl.Series:
        """Int64 [rows]: the bin of each number, -1 where it is missing."""
        numbers = self._numbers(values)
        return pl.Series(np.where(np.isnan(numbers), -1, self._bins(numbers)))

    def _numbers(self, values: pl.Series) -> np.ndarray:
        """float64 [rows]; NaN where missing."""
        plain = as_plain(values)
        if plain.dtype == pl.String and self.field.kind == "boolean":
            plain = plain.str.to_lowercase().replace({"true": "1", "false": "0"})
        if plain.dtype.is_nested():
            raise DataError(f"column {self.name!r} holds {plain.dtype}, not {self.field.kind}")
        numbers = plain.cast(pl.Float64, strict=False)
        wrong = values.filter(numbers.is_null() & plain.is_not_null())
        if len(wrong):
            raise DataError(f"column {self.name!r} is {self.field.kind}: {wrong[0]!r} is no number")
        found = numbers.fill_null(float("nan")).to_numpy()
        return np.where(np.abs(found) <= LARGEST, found, np.nan)

    def _members(self, values: pl.Series) -> pl.Series:
        """The members of a column's cells, in order of first appearance, perhaps with repeats."""
        distinct = values if values.dtype.is_nested() else values.unique(maintain_order=True)
        return entries_of(distinct, self.field)[1]

    def extend(self, values: pl.Series) -> Encoder:
        """With new values appended; those known keep their places."""
        if self.vocabulary is None:
            return self
        members = self._members(values)
        if not len(self.vocabulary):  # a column without any value said nothing of its type
            return replace(self, vocabulary=Vocabulary.of(members))
        try:
            return replace(self, vocabulary=self.vocabulary.extend(members))
        except DataError:
            raise DataError(
                f"column {self.name!r} holds {values.dtype}, but the model knows its values as "
                f"{self.vocabulary.ids.dtype}: give both the same type"
            ) from None


def sum_to_one(rows: Rows) -> Rows:
    """Rows whose absolute values sum to one."""
    owner = rows.owner
    total = np.bincount(owner, weights=np.abs(rows.value), minlength=rows.size)
    total[total == 0] = 1.0
    return rows._replace(value=(rows.value / total[owner]).astype(np.float32))


def scaled(rows: Rows, scale: float) -> Rows:
    """Rows with every value multiplied."""
    return rows if scale == 1.0 else rows._replace(value=rows.value * np.float32(scale))


def _fit_numbers(encoder: Encoder, values: pl.Series) -> Encoder:
    """With bin edges, or with centre and spread, where the field asks for them."""
    numbers = encoder._numbers(values)
    known = numbers[~np.isnan(numbers)]
    if encoder.field.kind == "binned":
        return replace(encoder, edges=_edges(known, encoder.field))
    if encoder.field.kind == "boolean" or not encoder.field.standardize or not len(known):
        return encoder
    if known.min() == known.max():  # rounding gives a constant a tiny spread
        return replace(encoder, centre=float(known[0]))
    return replace(encoder, centre=float(known.mean()), spread=float(known.std()) or 1.0)


def _edges(known: np.ndarray, field: Field) -> tuple[float, ...]:
    """Inner bin edges; equal ones fall together. Quantiles are values of the column themselves."""
    if not len(known):
        return ()
    inner = np.arange(1, field.bins)
    if field.binning == "quantile":
        found = np.sort(known)[(inner * len(known) - 1) // field.bins]
    else:
        found = known.min() + (known.max() - known.min()) * inner / field.bins
    return tuple(float(edge) for edge in np.unique(found) if edge < known.max())


def _dates(edges: tuple[float, ...]) -> list[str]:
    """Days since 1970 as dates."""
    return [str(date(1970, 1, 1) + timedelta(days=edge)) for edge in edges]


def _texts(edges: tuple[float, ...]) -> list[str]:
    """Distinct numbers with the fewest digits, from four on, that distinguish them."""
    for digits in range(4, 17):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(edges):
            return texts
    return [repr(edge) for edge in edges]
