"""A recipe's options: by name, as plain values, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar

from fmpair.errors import OptionError
from fmpair.renamed import unknown_option

Made = TypeVar("Made")
NO_RESULT = ("threads", "on")  # they say where and how quickly something is learned, not what
BY_COLUMN = ("fields", "regularization")  # options that may name columns


def check_names(kind: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Refuse options that a recipe's class does not have; given: those that come by place."""
    known = [field.name for field in fields(kind) if field.init]
    if len(given) > len(known):
        raise OptionError(
            f"{kind.__name__} has {len(known)} options, not {len(given)}: give them by name"
        )
    for name in options:
        if name not in known:
            raise OptionError(unknown_option(name, known))
        if name in known[: len(given)]:
            raise OptionError(f"{name} is given twice: by place and by name")


def plain(recipe: Any) -> dict[str, Any]:
    """A recipe's options as plain values, less those that no result depends on."""
    kept = [f.name for f in fields(recipe) if f.name not in NO_RESULT]
    return {name: _plain(getattr(recipe, name)) for name in kept}


def recipe(kind: type[Made], options: Mapping[str, Any]) -> Made:
    """A recipe from plain values; unknown names are refused."""
    check_names(kind, (), options)
    return kind(**options)


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
    made = is_dataclass(value) and not isinstance(value, type)
    return _plain(asdict(value)) if made else value
