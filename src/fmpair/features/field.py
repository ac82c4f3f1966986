"""`Field`: the options that decide how one column becomes features."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from fmpair.checks import one_of, whole
from fmpair.data.frame import has_bars
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.features.calendar import check_parts

KINDS = ("auto", "categorical", "multi", "boolean", "numeric", "binned", "weighted", "time",
         "vector", "history")  # fmt: skip
OF_TIME = ("time", "categorical", "binned")  # kinds of a time and of its parts
BINNINGS = ("quantile", "uniform")
MAX_BINS = 10_000
MAX_LAST = 1_000  # items of a history
MAX_DIMENSIONS = 16_384  # length of a vector
FAR = 5.0  # standardised values are clipped here, so that outliers cannot make training diverge
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
NO_ENCODING = (pl.Object, pl.Binary)

# An integer column is a code (an hour, a city) if its values repeat, else a quantity.
CODE_REPEATS = 5
CODE_MOST = 1000


@dataclass(frozen=True)
class Field:
    """Options of one column.

    kind: one of KINDS; `auto` decides by the type of the column.
    scale: factor of every value.
    normalize: whether the values of one row sum to one (None: only if a row has several, but lists
        of an item's attributes are weighted by TF-IDF); of kind `vector`, whether vectors get
        length 1 (None: yes).
    standardize: whether numbers get mean 0 and standard deviation 1 (None: yes); of kind `vector`,
        each dimension (None: mean 0 only).
    bins, binning: number and kind of bins of kind `binned`.
    separator: splits text of kind `multi`, `weighted` (`rock:0.7|pop:0.3`) and `vector`.
    parts: of kind `time`, a field each: hour, daypart, weekday, weekend, month, period (bins of
        the whole time range), since (days since the user's last event), age (of items); by
        default a few of them.
    zone: time zone of hours and days, such as Europe/Berlin.
    last, fade, within, per, of: of kind `history`, a user's earlier items: the `last` items, the
        n-th latest with weight n to the power -fade; not older than `within` (such as 30d), with
        the same value of column `per` (such as session); of: `item`, attributes, or both.
    repeat: of kind `history`, the score that an earlier item gains, times its weight. 1 is the
        distance from the median score to the best one; 0.7 is good where users return to items.
        It is added after training.
    shared: whether earlier items use the items' own vectors instead of a separate table.
    start: standard deviation of the initial vectors; with 0, a field has no effect at first.
    regularization: by default that of the model.
    """

    kind: str = "auto"
    scale: float = 1.0
    normalize: bool | None = None
    standardize: bool | None = None
    bins: int = 10
    binning: str = "quantile"
    separator: str = "|"
    parts: Sequence[str] = ()
    zone: str = "UTC"
    last: int = 10
    fade: float = 1.0
    within: str | None = None
    per: str | None = None
    of: Sequence[str] = ("item",)
    repeat: float = 0.0
    shared: bool = False
    start: float = 0.0
    regularization: float | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("binning", self.binning, BINNINGS)
        if not (isinstance(self.bins, int) and 2 <= self.bins <= MAX_BINS):
            raise OptionError(
                f"bins must be a whole number from 2 to {MAX_BINS:,}, not {self.bins!r}"
            )
        if not (isinstance(self.separator, str) and self.separator):
            raise OptionError(f"separator must be text such as '|', not {self.separator!r}")
        if not all(isinstance(x, bool | None) for x in (self.normalize, self.standardize)):
            raise OptionError("normalize and standardize of a field must be true or false")
        object.__setattr__(self, "parts", check_parts(self.parts, self.zone))
        if self.parts and self.kind not in ("auto", *OF_TIME):
            raise OptionError(f"parts requires {named('kind', 'time')}, not {self.kind!r}")
        self._check_history()
        for name in ("scale", "fade", "repeat", "start", "regularization"):
            value = getattr(self, name)
            if value is None and name == "regularization":
                continue
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise OptionError(f"{name} of a field must be 0 or more, not {value!r}")

    def _check_history(self) -> None:
        """Check the options of kind `history`, and make `of` a tuple."""
        whole("last", self.last, 1)
        if self.last > MAX_LAST:
            raise OptionError(f"last must be at most {MAX_LAST:,}, not {self.last:,}")
        if self.within is not None:
            duration(self.within)
        if self.per is not None and not (isinstance(self.per, str) and self.per):
            raise OptionError(f"per must be the name of a column, not {self.per!r}")
        names = [self.of] if isinstance(self.of, str) else self.of
        if not (isinstance(names, Sequence) and names and all(isinstance(n, str) for n in names)):
            raise OptionError(f"of must be names such as [item, genre], not {self.of!r}")
        object.__setattr__(self, "of", tuple(names))
        if not isinstance(self.shared, bool) or (self.shared and self.of != ("item",)):
            raise OptionError("shared must be true or false, and cannot be combined with of")
        if self.repeat and (self.shared or "item" not in self.of):
            raise OptionError("repeat requires 'item' in of, and cannot be combined with shared")


def duration(text: Any, option: str = "within") -> int:
    """Return the microseconds of a text such as 30d, 12h, 45m or 10s."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text) if isinstance(text, str) else None
    if not match or not float(match[1]):
        raise OptionError(f"{named(option)} must be a time such as '30d' or '12h', not {text!r}")
    return int(float(match[1]) * SECONDS[match[2]] * 1_000_000)


def field_from(options: Any) -> Field:
    """Return a Field from a Field, the name of a kind, or a mapping of options."""
    if isinstance(options, Field):
        return options
    if isinstance(options, str):
        return Field(kind=options)
    if not isinstance(options, Mapping):
        raise OptionError(f"a field must be a kind or a mapping of options, not {options!r}")
    known = [option.name for option in fields(Field)]
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        raise OptionError(unknown("field option", wrong, known))
    return Field(**options)


def kind_of(values: pl.Series, field: Field) -> str:
    """Return the kind of a column, the field's or by type; DataError if it does not fit."""
    name, dtype = values.name, values.dtype
    kind = kind_by_type(name, values) if field.kind == "auto" else field.kind
    kind = "time" if field.parts else kind
    inner = getattr(dtype, "inner", dtype if isinstance(dtype, pl.Struct) else None)
    several = kind in ("multi", "vector")
    fits = inner is None or kind == "weighted" or (several and not inner.is_nested())
    if not fits or dtype in NO_ENCODING:
        raise DataError(f"column {name!r} holds {dtype}, which cannot be {kind}")
    return kind


def kind_by_type(name: str, values: pl.Series) -> str:
    """Return the kind of a column by its type."""
    dtype = values.dtype
    if dtype == pl.Boolean:
        return "boolean"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null):
        return "multi" if has_bars(values) else "categorical"
    if isinstance(dtype, pl.List | pl.Array):
        many = "vector" if dtype.inner.is_float() else "multi"
        return "weighted" if isinstance(dtype.inner, pl.Struct) else many
    if isinstance(dtype, pl.Struct):
        return "weighted"
    if dtype.is_integer():
        known = values.drop_nulls()
        distinct = known.n_unique()
        is_code = distinct <= CODE_MOST and len(known) >= CODE_REPEATS * distinct
        return "categorical" if is_code or distinct <= 3 else "numeric"
    if dtype.is_numeric():
        return "numeric"
    if isinstance(dtype, pl.Date | pl.Datetime):
        return "time"
    raise DataError(
        f"column {name!r} holds {dtype}, which has no encoding: convert it to text or numbers, or "
        f"leave it out with {named('ignore', [name])}"
    )
