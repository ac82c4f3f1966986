"""How one column becomes features: the options of a field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import polars as pl

from fmpair.checks import one_of, whole
from fmpair.errors import DataError, OptionError, named, unknown
from fmpair.features.calendar import check_parts

KINDS = ("auto", "categorical", "multi", "boolean", "numeric", "binned", "weighted", "time",
         "history")  # fmt: skip
OF_TIME = ("time", "categorical", "binned")  # a time, and how its parts become features
BINNINGS = ("quantile", "uniform")
MOST_BINS = 10_000
MOST_LAST = 1_000  # items of a history
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
NO_ENCODING = (pl.Object, pl.Binary)

# An integer column is a code (an hour, a city) while its values repeat, else a quantity.
CODE_REPEATS = 5
CODE_MOST = 1000


@dataclass(frozen=True)
class Field:
    """Options of one column; by default they are inferred from the column's type.

    kind: one of KINDS; `auto` decides by type.
    scale: every value is multiplied by it.
    normalize: the values of one row sum to one (None: only where a row has several).
    standardize: numeric values to mean 0 and standard deviation 1, else raw.
    bins, binning: for kind `binned`.
    separator: splits text of kind `multi` and `weighted` (`rock:0.7|pop:0.3`).
    parts: of kind `time`, a field each: hour, daypart, weekday, weekend, month, period (of all
        the time there is), since (days since the user's last event), age (of items); none: a few.
    zone: where hours and days are told, such as Europe/Berlin.
    last, fade, within, per, of: of kind `history`, what users did before: the last so many items,
        the n-th latest counting n to the power -fade; not older than `within` (such as 30d), of
        the same value of column `per` (such as session); of each the `item` itself and/or
        attributes by name. shared: earlier items have the items' own vectors, not a table apart.
    start: standard deviation of the initial vectors; 0: no effect until the data give it one.
    regularization: None takes the model's.
    """

    kind: str = "auto"
    scale: float = 1.0
    normalize: bool | None = None
    standardize: bool = True
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
    shared: bool = False
    start: float = 0.0
    regularization: float | None = None

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        one_of("binning", self.binning, BINNINGS)
        if not (isinstance(self.bins, int) and self.bins >= 2):
            raise OptionError(f"bins must be a whole number of at least 2, not {self.bins!r}")
        if self.bins > MOST_BINS:
            raise OptionError(f"bins must be at most {MOST_BINS:,}, not {self.bins:,}")
        if not (isinstance(self.separator, str) and self.separator):
            raise OptionError(f"separator must be text such as '|', not {self.separator!r}")
        if not isinstance(self.normalize, bool | None) or not isinstance(self.standardize, bool):
            raise OptionError("normalize and standardize of a field must be true or false")
        object.__setattr__(self, "parts", check_parts(self.parts, self.zone))
        if self.parts and self.kind not in ("auto", *OF_TIME):
            raise OptionError(f"parts go with {named('kind', 'time')}, not {self.kind!r}")
        self._check_history()
        for name in ("scale", "fade", "start", "regularization"):
            value = getattr(self, name)
            if value is None and name == "regularization":
                continue
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise OptionError(f"{name} of a field must be 0 or more, not {value!r}")

    def _check_history(self) -> None:
        """Check the options of kind `history`, and give `of` its one form."""
        whole("last", self.last, 1)
        if self.last > MOST_LAST:
            raise OptionError(f"last must be at most {MOST_LAST:,}, not {self.last:,}")
        if self.within is not None:
            duration(self.within)
        if self.per is not None and not (isinstance(self.per, str) and self.per):
            raise OptionError(f"per must be the name of a column, not {self.per!r}")
        given = [self.of] if isinstance(self.of, str) else self.of
        if not (isinstance(given, Sequence) and given and all(isinstance(n, str) for n in given)):
            raise OptionError(f"of must be names such as [item, genre], not {self.of!r}")
        object.__setattr__(self, "of", tuple(given))
        if not isinstance(self.shared, bool) or (self.shared and self.of != ("item",)):
            raise OptionError(
                "shared must be true or false, and goes with items only: leave out of"
            )


def duration(text: Any) -> int:
    """Microseconds of a text such as 30d, 12h, 45m or 10s."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text) if isinstance(text, str) else None
    if not found or not float(found[1]):
        raise OptionError(f"{named('within')} must be a time such as '30d' or '12h', not {text!r}")
    return int(float(found[1]) * SECONDS[found[2]] * 1_000_000)


def field_from(options: Any) -> Field:
    """A Field as it is; a kind's name or a mapping of options as a Field."""
    if isinstance(options, Field):
        return options
    if isinstance(options, str):
        return Field(kind=options)
    if not isinstance(options, Mapping):
        raise OptionError(f"a field is a kind's name or a mapping of options, not {options!r}")
    known = [option.name for option in fields(Field)]
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        raise OptionError(unknown("field option", wrong, known))
    return Field(**options)


def kind_of(values: pl.Series, field: Field) -> str:
    """The kind of encoding of a column: the field's, or by type; refused where they do not fit."""
    name, dtype = values.name, values.dtype
    kind = kind_by_type(name, values) if field.kind == "auto" else field.kind
    kind = "time" if field.parts else kind
    inner = getattr(dtype, "inner", dtype if isinstance(dtype, pl.Struct) else None)
    fits = inner is None or kind == "weighted" or (kind == "multi" and not inner.is_nested())
    if not fits or dtype in NO_ENCODING:
        raise DataError(f"column {name!r} holds {dtype}, which cannot be {kind}")
    return kind


def kind_by_type(name: str, values: pl.Series) -> str:
    """The kind of encoding a column's type asks for."""
    dtype = values.dtype
    if dtype == pl.Boolean:
        return "boolean"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum | pl.Null):
        return "categorical"
    if isinstance(dtype, pl.List | pl.Array):
        return "weighted" if isinstance(dtype.inner, pl.Struct) else "multi"
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
        f"column {name!r} holds {dtype}, which has no encoding: derive what matters from it "
        f"(such as hour or weekday as text), or leave it out with {named('ignore', [name])}"
    )
