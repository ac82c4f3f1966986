"""A field fitted to its column: values in, sparse features out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from fmpair.arrays import Rows, group_rows, starts
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import DataError
from fmpair.features.entries import entries_of
from fmpair.features.field import Field, kind_by_type

FAR = 5.0  # standardised values beyond this are drawn in, so that an outlier cannot blow up a step


@dataclass(frozen=True)
class Encoder:
    """One field with what it learned from the training column.

    vocabulary: the values of categorical, multi, weighted fields.
    centre, spread: of numeric fields. edges: inner bin edges of binned fields.
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
        name = values.name
        kind = kind_by_type(name, values) if field.kind == "auto" else field.kind
        encoder = cls(role, name, replace(field, kind=kind))
        if kind in ("numeric", "binned"):
            return _fit_numbers(encoder, values)
        if kind == "boolean":
            return encoder
        _, members, _ = entries_of(values, encoder.field)
        return replace(encoder, vocabulary=Vocabulary.of(members))

    @property
    def size(self) -> int:
        """How many features the field has."""
        if self.field.kind == "binned":
            return len(self.edges) + 1
        return 1 if self.vocabulary is None else len(self.vocabulary)

    def labels(self) -> list[str]:
        """One readable name per feature."""
        if self.vocabulary is not None:
            return [f"{self.name}={value}" for value in self.vocabulary.ids.to_list()]
        if self.field.kind == "binned":
            bounds = ["-inf", *(f"{edge:.4g}" for edge in self.edges), "inf"]
            return [f"{self.name} in ({a}, {b}]" for a, b in zip(bounds, bounds[1:])]
        return [self.name]

    def encode(self, values: pl.Series) -> tuple[Rows, int]:
        """Features of each row, local to the field, and how many values were unseen."""
        if self.field.kind in ("numeric", "binned", "boolean"):
            owner, index, value = self._encode_numbers(values)
            unseen = 0
        else:
            owner, members, value = entries_of(values, self.field)
            assert self.vocabulary is not None
            index = self.vocabulary.numbers(members)
            known = index >= 0
            unseen = int((~known).sum())
            owner, index, value = owner[known], index[known], value[known]
        rows = combine(group_rows(owner, index, len(values), value))
        several = self.field.kind in ("multi", "weighted")
        wanted = several if self.field.normalize is None else self.field.normalize
        return scaled(sum_to_one(rows) if wanted else rows, self.field.scale), unseen

    def _encode_numbers(self, values: pl.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        numbers = _numbers(values, self.name)
        owner = np.flatnonzero(np.isfinite(numbers)).astype(np.int64)
        value = numbers[owner]
        if self.field.kind == "binned":
            index = np.searchsorted(np.asarray(self.edges), value, side="left")
            return owner, index.astype(np.int32), np.ones(len(owner), np.float32)
        if self.field.kind == "numeric" and self.field.standardize:
            value = np.clip((value - self.centre) / self.spread, -FAR, FAR)
        present = value != 0
        index = np.zeros(int(present.sum()), np.int32)
        return owner[present], index, value[present].astype(np.float32)

    def extend(self, values: pl.Series) -> Encoder:
        """With new values appended; those known keep their places."""
        if self.vocabulary is None:
            return self
        _, members, _ = entries_of(values, self.field)
        return replace(self, vocabulary=self.vocabulary.extend(members))


def combine(rows: Rows) -> Rows:
    """Rows in which an index occurs once; the values of repeats are added up."""
    if not len(rows.column):
        return rows
    owner = np.repeat(np.arange(rows.size), np.diff(rows.start))
    new = np.ones(len(owner), bool)
    new[1:] = (owner[1:] != owner[:-1]) | (rows.column[1:] != rows.column[:-1])
    first = np.flatnonzero(new)
    value = np.add.reduceat(rows.value, first).astype(np.float32)
    return Rows(starts(np.bincount(owner[first], minlength=rows.size)), rows.column[first], value)


def sum_to_one(rows: Rows) -> Rows:
    """Rows whose absolute values sum to one."""
    owner = np.repeat(np.arange(rows.size), np.diff(rows.start))
    total = np.bincount(owner, weights=np.abs(rows.value), minlength=rows.size)
    return rows._replace(value=(rows.value / np.maximum(total, 1e-12)[owner]).astype(np.float32))


def scaled(rows: Rows, scale: float) -> Rows:
    return rows if scale == 1.0 else rows._replace(value=rows.value * np.float32(scale))


def _fit_numbers(encoder: Encoder, values: pl.Series) -> Encoder:
    numbers = _numbers(values, encoder.name)
    known = numbers[np.isfinite(numbers)]
    if encoder.field.kind == "binned":
        return replace(encoder, edges=_edges(known, encoder.field))
    if not encoder.field.standardize or not len(known):
        return encoder
    spread = float(known.std())
    return replace(encoder, centre=float(known.mean()), spread=spread if spread > 0 else 1.0)


def _edges(known: np.ndarray, field: Field) -> tuple[float, ...]:
    """Inner bin edges; equal ones fall together."""
    if not len(known):
        return ()
    inner = np.linspace(0, 1, field.bins + 1)[1:-1]
    if field.binning == "quantile":
        found = np.quantile(known, inner)
    else:
        found = known.min() + inner * (known.max() - known.min())
    return tuple(float(edge) for edge in np.unique(found) if edge < known.max())


def _numbers(values: pl.Series, name: str) -> np.ndarray:
    """float64 [rows]; NaN where missing."""
    try:
        cast: Any = values.cast(pl.Float64)
    except pl.exceptions.PolarsError:
        raise DataError(f"column {name!r} holds {values.dtype}: it cannot be numeric") from None
    return cast.fill_null(float("nan")).to_numpy()
