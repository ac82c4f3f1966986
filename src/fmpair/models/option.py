"""A recipe's options: checks that say what is allowed, and options as plain values and back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

from fmpair.errors import OptionError, listing, named, unknown
from fmpair.features.field import field_from

Recipe = TypeVar("Recipe")
BY_COLUMN = ("fields", "regularization")  # options that may name columns
GROUPS = ("user", "item", "negative", "bias", "context", "user_features", "item_features")


def whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise OptionError(
            f"{named(name)} must be a whole number of at least {least}, not {value!r}"
        )


def positive(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value > 0):
        raise OptionError(f"{named(name)} must be a number above 0, not {value!r}")


def not_negative(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value) and value >= 0):
        raise OptionError(f"{named(name)} must be a number of at least 0, not {value!r}")


def number(name: str, value: Any) -> None:
    if not (_is_number(value) and math.isfinite(value)):
        raise OptionError(f"{named(name)} must be a number, not {value!r}")


def one_of(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise OptionError(f"{named(name)} must be one of {listing(allowed)}, not {value!r}")


def regularization(value: Any) -> None:
    """A number, or a mapping of numbers; names of fields are checked when the data are known."""
    if value is None:
        return
    if isinstance(value, Mapping):
        for name, number in value.items():
            not_negative(f"regularization of {name!r}", number)
    else:
        not_negative("regularization", value)


def threads(value: Any) -> None:
    if value is not None:
        whole("threads", value, 1)


def plain(recipe: Any) -> dict[str, Any]:
    """A recipe's options as plain values; threads are left out: no result depends on them."""
    return {f.name: _plain(getattr(recipe, f.name)) for f in fields(recipe) if f.name != "threads"}


def recipe(kind: type[Recipe], options: Mapping[str, Any]) -> Recipe:
    """A recipe from plain values; unknown names are refused."""
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    for name in options:
        if name not in known:
            raise OptionError(unknown("option", name, known))
    return kind(**options)


def field_options(field: Any) -> dict[str, Any]:
    """A field's options as plain values."""
    return asdict(field_from(field))


def without_columns(options: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """The options less what those by column say of columns that are gone."""
    return {
        name: {column: one for column, one in value.items() if column not in gone}
        if name in BY_COLUMN and isinstance(value, Mapping)
        else value
        for name, value in options.items()
    }


def _plain(value: Any) -> Any:
    """Mappings, sequences and dataclasses as dictionaries and lists, all else as it is."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "__float__")
