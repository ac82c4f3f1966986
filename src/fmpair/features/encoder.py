"""`Encoder`: a field fitted to its training column; it turns values into sparse features."""

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
from fmpair.features.field import FAR, Field, kind_of
from fmpair.features.vectors import keys_of, matrix_of, moments_of, rows_of

NUMBERS = ("boolean", "numeric", "binned", "vector")  # kinds without a list of values
NEW_OWNERS = 2  # assumed for a value that is new to a fitted model
LARGEST = float(np.finfo(np.float32).max)  # larger numbers are missing, as infinity is

Entries = tuple[np.ndarray, pl.Series, np.ndarray]


@dataclass(frozen=True)
class Encoder:
    """One field with its vocabulary or statistics of the training column.

    vocabulary: the values of categorical, multi, weighted fields.
    centre, spread: of numeric fields. edges: inner bin edges of binned fields.
    means, spreads: of each dimension of vectors. owners: for lists of items, the number of items
    with each value; described: the number of items with a list.
    Each part of a time is a field, named `column.part`, and categorical or binned.
    """

    role: str
    name: str
    field: Field
    vocabulary: Vocabulary | None = None
    centre: float = 0.0
    spread: float = 1.0
    edges: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    spreads: tuple[float, ...] = ()
    owners: tuple[int, ...] = ()
    described: int = 0

    @classmethod
    def fit(cls, role: str, values: pl.Series, field: Field) -> Encoder:
        """Fit the encoder of a training column."""
        return cls(role, values.name, replace(field, kind=kind_of(values, field)))._fitted(values)

    @classmethod
    def fit_part(cls, role: str, values: pl.Series, part: str, field: Field) -> Encoder:
        """Fit the encoder of one part of a training column of times (days for `since`)."""
        field = replace(field, kind=CODING[part], parts=(part,))
        if part == "since":
            return cls(role, values.name, field, edges=SINCE_EDGES)
        return cls(role, f"{values.name}.{part}", field)._fitted(part_of(values, part, field.zone))

    def _fitted(self, values: pl.Series) -> Encoder:
        """Return the encoder with its vocabulary, bin edges, or centre and spread."""
        if self.field.kind not in NUMBERS:
            return replace(self, vocabulary=Vocabulary.of(self._members(values)))._counted(values)
        if self.is_vector:
            means, spreads = moments_of(matrix_of(values, self.field)[1], self.field)
            return replace(self, means=means, spreads=spreads)
        numbers = self._numbers(values)
        known = numbers[~np.isnan(numbers)]
        if self.field.kind == "binned":
            return replace(self, edges=_edges(known, self.field))
        if self.field.kind == "boolean" or self.field.standardize is False or not len(known):
            return self
        if known.min() == known.max():  # rounding gives a constant a tiny spread
            return replace(self, centre=float(known[0]))
        return replace(self, centre=float(known.mean()), spread=float(known.std()) or 1.0)

    def _counted(self, values: pl.Series) -> Encoder:
        """Return the encoder of an item's lists with the items of each value, for its weight."""
        if self.role != "item" or self.field.kind != "multi" or self.field.normalize is not None:
            return self
        rows, _ = self.encode(values)
        owners = np.bincount(rows.column, minlength=self.size)
        described = int(np.count_nonzero(np.diff(rows.start)))
        return replace(self, owners=tuple(owners.tolist()), described=described)

    def _weighted(self, rows: Rows) -> Rows:
        """Return the lists of items as TF-IDF vectors, shorter for values of few items.

        The weight of a value is log(items / items with the value), and each vector is scaled to
        length one. Then the square of each entry is multiplied by (n - 1) / n, the share of other
        items among the n items with the value: a value of a single item would only repeat the
        vector of that item.
        """
        owners = np.maximum(np.array(self.owners), 1)[rows.column]
        weight = rows.value * np.log((1 + self.described) / (1 + owners))
        squares = np.bincount(rows.owner, weight**2, rows.size)
        length = np.sqrt(np.where(squares > 0, squares, 1.0))[rows.owner]
        return rows._replace(value=(weight / length * np.sqrt(1 - 1 / owners)).astype(np.float32))

    @property
    def is_vector(self) -> bool:
        """Whether the features are the dimensions of one vector."""
        return self.field.kind == "vector"

    @property
    def is_content(self) -> bool:
        """Whether the field is a vector, or lists of items."""
        return self.is_vector or bool(self.owners)

    @property
    def part(self) -> str:
        """The part of a time that the field encodes, else empty."""
        return self.field.parts[0] if self.field.parts else ""

    @property
    def source(self) -> str:
        """The column that the field encodes."""
        return self.name.removesuffix(f".{self.part}") if self.part else self.name

    def values(self, frame: pl.DataFrame) -> pl.Series | None:
        """Return the values of a frame to encode; None if it has no such column."""
        if self.part == "since":  # computed by the caller, who knows the user's events
            return frame[self.name] if self.name in frame.columns else None
        if self.source not in frame.columns:
            return None
        values = frame[self.source]
        return part_of(values, self.part, self.field.zone) if self.part else values

    @property
    def size(self) -> int:
        """The number of features."""
        if self.field.kind == "binned":
            return len(self.edges) + 1
        if self.is_vector:
            return len(self.means)
        return 1 if self.vocabulary is None else len(self.vocabulary)

    @property
    def reach(self) -> float:
        """An upper bound of the sum of absolute values of a row, if standardised."""
        return FAR * self.field.scale * (self.size if self.is_vector else 1)

    def label(self, feature: int) -> str:
        """Return the name of one feature, without building all of them."""
        if self.vocabulary is None:
            return self.labels()[feature]
        return f"{self.name}={self.vocabulary.ids[feature]}"

    def labels(self) -> list[str]:
        """Return one readable name per feature."""
        if self.vocabulary is not None:
            return [f"{self.name}={value}" for value in self.vocabulary.ids.to_list()]
        if self.field.kind == "binned":
            inner = _texts(self.edges)
            if self.part in DATED:
                inner = [str(date(1970, 1, 1) + timedelta(days=edge)) for edge in self.edges]
            bounds = ["-inf", *inner, "inf"]
            return [f"{self.name} in ({a}, {b}]" for a, b in pairwise(bounds)]
        if self.is_vector:
            return [f"{self.name}[{dimension}]" for dimension in range(self.size)]
        return [self.name]

    def encode(self, values: pl.Series) -> tuple[Rows, int]:
        """Return the features of each row, numbered within the field, and the unseen values."""
        unseen = 0
        if self.is_vector:
            row, matrix = matrix_of(values, self.field, self.size)
            moments = (self.means, self.spreads)
            return rows_of(row, matrix, len(values), self.field, moments), 0
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
        if self.owners:
            return scaled(self._weighted(rows), self.field.scale), unseen
        several = self.field.kind in ("multi", "weighted")
        normalize = several if self.field.normalize is None else self.field.normalize
        return scaled(sum_to_one(rows) if normalize else rows, self.field.scale), unseen

    def keys(self, values: pl.Series) -> pl.Series:
        """Return keys that are equal if the features of the values are (nearly) equal."""
        if self.is_vector:
            return keys_of(values, self.field, self.size)
        if not self.part or self.field.kind != "binned":
            return values
        numbers = self._numbers(values)
        return pl.Series(np.where(np.isnan(numbers), -1, self._bins(numbers)))

    def _encode_numbers(self, values: pl.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (row, feature, value) of each number; zeros are left out."""
        numbers = self._numbers(values)
        owner = np.flatnonzero(~np.isnan(numbers))
        value = numbers[owner]
        if self.field.kind == "binned":
            return owner, self._bins(value), np.ones(len(owner))
        if self.field.kind == "boolean":
            value = (value != 0).astype(np.float64)
        elif self.field.standardize is not False:
            value = np.clip((value - self.centre) / self.spread, -FAR, FAR)
        present = value != 0
        return owner[present], np.zeros(int(present.sum()), np.int32), value[present]

    def _bins(self, numbers: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.asarray(self.edges), numbers, side="left")

    def _numbers(self, values: pl.Series) -> np.ndarray:
        """Return the values as numbers, NaN if missing: float64 [rows]."""
        plain = as_plain(values)
        if plain.dtype == pl.String and self.field.kind == "boolean":
            plain = plain.str.to_lowercase().replace({"true": "1", "false": "0"})
        if plain.dtype.is_nested():
            raise DataError(
                f"column {self.name!r} holds {plain.dtype}, not {self.field.kind}: give one value "
                "per row"
            )
        numbers = plain.cast(pl.Float64, strict=False)
        wrong = values.filter(numbers.is_null() & plain.is_not_null())
        if len(wrong):
            raise DataError(
                f"column {self.name!r} is {self.field.kind}, but {wrong[0]!r} is not a number"
            )
        array = numbers.fill_null(float("nan")).to_numpy()
        return np.where(np.abs(array) <= LARGEST, array, np.nan)

    def _members(self, values: pl.Series) -> pl.Series:
        """Return the members of all cells in order of first appearance, perhaps repeated."""
        distinct = values if values.dtype.is_nested() else values.unique(maintain_order=True)
        return entries_of(distinct, self.field)[1]

    def extend(self, values: pl.Series) -> Encoder:
        """Return the encoder with new values appended; known values keep their numbers."""
        if self.vocabulary is None:
            return self
        members = self._members(values)
        if not len(self.vocabulary):  # the type of an empty column means nothing
            return replace(self, vocabulary=Vocabulary.of(members))
        try:
            extended = self.vocabulary.extend(members)
            new = len(extended) - len(self.vocabulary)
            owners = self.owners and self.owners + (NEW_OWNERS,) * new
            return replace(self, vocabulary=extended, owners=owners)
        except DataError:
            raise DataError(
                f"column {self.name!r} holds {values.dtype}, but the model knows its values as "
                f"{self.vocabulary.ids.dtype}: give both the same type"
            ) from None


def sum_to_one(rows: Rows) -> Rows:
    """Return rows whose absolute values sum to one."""
    owner = rows.owner
    total = np.bincount(owner, weights=np.abs(rows.value), minlength=rows.size)
    total[total == 0] = 1.0
    return rows._replace(value=(rows.value / total[owner]).astype(np.float32))


def scaled(rows: Rows, scale: float) -> Rows:
    """Return rows with every value multiplied."""
    return rows if scale == 1.0 else rows._replace(value=rows.value * np.float32(scale))


def _edges(known: np.ndarray, field: Field) -> tuple[float, ...]:
    """Return the distinct inner bin edges; quantiles are values of the column."""
    if not len(known):
        return ()
    inner = np.arange(1, field.bins)
    if field.binning == "quantile":
        edges = np.sort(known)[(inner * len(known) - 1) // field.bins]
    else:
        edges = known.min() + (known.max() - known.min()) * inner / field.bins
    return tuple(float(edge) for edge in np.unique(edges) if edge < known.max())


def _texts(edges: tuple[float, ...]) -> list[str]:
    """Return numbers with the fewest digits, at least four, that keep them distinct."""
    for digits in range(4, 17):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if len(set(texts)) == len(edges):
            return texts
    return [repr(edge) for edge in edges]


# Members of cells: one of a category, several of lists and weighted sets.


def entries_of(values: pl.Series, field: Field) -> Entries:
    """Return (row of each member int64 [n], members, weights float32 [n]), row by row.

    Members that are missing or have weight 0 are left out.
    """
    plain = as_plain(values)
    if field.kind == "weighted":
        owner, members, weight = _weighted(plain, field)
    else:
        owner, members = np.arange(len(plain)), plain
        if field.kind == "multi" and plain.dtype == pl.String:
            owner, members = _exploded(_parts(plain, field).list.unique(maintain_order=True))
        elif field.kind == "multi" and plain.dtype.is_nested():
            owner, members = _exploded(_as_lists(plain).list.unique(maintain_order=True))
        weight = np.ones(len(owner), np.float32)
    members = as_plain(members)
    if members.dtype == pl.Boolean:
        members = members.cast(pl.String)  # so that "true" of a command line matches
    usable = members.is_not_null().to_numpy() & np.isfinite(weight) & (weight != 0)
    if usable.all():
        return owner, members, weight
    return owner[usable], members.filter(pl.Series(usable)), weight[usable]


def _weighted(values: pl.Series, field: Field) -> Entries:
    """Return the entries of structs, lists of pairs, or text."""
    dtype = values.dtype
    with suppress(pl.exceptions.PolarsError):  # if a weight is not a number
        if dtype in (pl.String, pl.Null):
            return _from_text(values.cast(pl.String), field)
        if isinstance(dtype, pl.Struct):  # the names of its fields are the members
            table = values.struct.unnest()
            numbers = np.column_stack([_weights(column) for column in table])
            owner, column = np.nonzero(numbers)
            members = pl.Series(table.columns, dtype=pl.String).gather(column)
            return owner, members, numbers[owner, column]
        inner = getattr(dtype, "inner", None)
        if isinstance(inner, pl.Struct) and len(inner.fields) == 2:
            owner, pairs = _exploded(_as_lists(values))
            name, weight = (pairs.struct.field(part.name) for part in inner.fields)
            return owner, name, _weights(weight)
    raise DataError(
        f"column {values.name!r} holds {dtype}: weighted values must be structs of numbers, "
        "lists of (name, weight), or text such as 'rock:0.7|pop:0.3'"
    )


def _from_text(values: pl.Series, field: Field) -> Entries:
    """Return the entries of text such as rock:0.7|pop:0.3; a name may contain colons."""
    owner, parts = _exploded(_parts(values, field))
    name = parts.str.replace(r":[^:]*$", "").str.strip_chars()
    weight = parts.str.extract(r":([^:]*)$").str.strip_chars().cast(pl.Float32, strict=False)
    wrong = parts.filter(weight.is_null() | (name == ""))
    if len(wrong):
        raise DataError(
            f"column {values.name!r}: {wrong[0]!r} is not a name with a weight; write 'name:0.5'"
        )
    return owner, name, weight.to_numpy()


def _weights(values: pl.Series) -> np.ndarray:
    """Return weights as numbers, 0 if missing: float32 [n]."""
    return values.cast(pl.Float32).fill_null(0.0).to_numpy()


def _parts(values: pl.Series, field: Field) -> pl.Series:
    """Split text at the separator, without surrounding blanks and empty parts."""
    trimmed = pl.element().str.strip_chars().replace("", None)
    return values.str.split(field.separator).list.eval(trimmed).list.drop_nulls()


def _as_lists(values: pl.Series) -> pl.Series:
    return values.arr.to_list() if isinstance(values.dtype, pl.Array) else values


def _exploded(lists: pl.Series) -> tuple[np.ndarray, pl.Series]:
    """Return the row of each member, and all members one after the other."""
    lengths = lists.list.len().fill_null(0).to_numpy()
    members = lists.filter(pl.Series(lengths > 0)).explode()
    return np.repeat(np.arange(len(lists)), lengths), members
