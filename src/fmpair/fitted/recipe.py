"""Recipes: models before they are fitted, and their options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from fmpair.checks import FOREIGN_METHODS, no_attribute, unknown_option
from fmpair.errors import OptionError

Made = TypeVar("Made")
NO_RESULT = ("threads", "on")  # options that do not change the result
FITTED = (  # what only a fitted model has
    *("recommend", "answer", "answers", "score", "explain", "similar_items", "similar_users"),
    *("save", "item_vectors", "user_vectors"),
)
BY_COLUMN = ("fields", "regularization")  # options that may be given by column


def check_names(kind: Any, given: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    """Raise OptionError for options that a recipe does not have; given: positional arguments."""
    known = [field.name for field in fields(kind) if field.init]
    if len(given) > len(known):
        raise OptionError(
            f"{kind.__name__} has {len(known)} options, got {len(given)}: give them by name"
        )
    for name in options:
        if name not in known:
            raise OptionError(unknown_option(name, known))
        if name in known[: len(given)]:
            raise OptionError(f"{name} is given twice: by position and by name")


def plain(recipe: Any) -> dict[str, Any]:
    """Return the options of a recipe as plain values, except those that do not affect results."""
    names = [f.name for f in fields(recipe) if f.name not in NO_RESULT]
    return {name: _plain(getattr(recipe, name)) for name in names}


def recipe(kind: type[Made], options: Mapping[str, Any]) -> Made:
    """Return a recipe made of plain values; raise OptionError for unknown names."""
    check_names(kind, (), options)
    return kind(**options)


def without_columns(options: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return the options without the entries of columns that are gone."""
    return {
        name: {column: entry for column, entry in value.items() if column not in gone}
        if name in BY_COLUMN and isinstance(value, Mapping)
        else value
        for name, value in options.items()
    }


def _plain(value: Any) -> Any:
    """Return mappings, sequences and dataclasses as dictionaries and lists."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    made = is_dataclass(value) and not isinstance(value, type)
    return _plain(asdict(value)) if made else value


@runtime_checkable
class Recipe(Protocol):
    """A model before it is fitted: a frozen dataclass whose fields are its options.

    A subclass needs only `fit`. It may have `update` and `fold_in` to learn from new events, and
    `restore` to read its scorer from a file.
    """

    def __new__(cls, *given: Any, **options: Any) -> Self:
        """Check the names of the options first."""
        if is_dataclass(cls):
            check_names(cls, given, options)
        return super().__new__(cls)

    def __init_subclass__(cls, **options: Any) -> None:
        """Give recipes a clear error for attributes that only fitted models have."""
        super().__init_subclass__(**options)
        if Protocol not in cls.__bases__:  # a member of the protocol would bind every recipe
            cls.__getattr__ = _missing_attribute  # type: ignore[attr-defined]

    def fit(self, data: Any) -> Any:
        """Fit to events, a Dataset, frame or sparse matrix; return a `Recommender` or `Ranker`."""
        ...

    def update(self, model: Any, data: Any, epochs: int | None = None, replay: Any = 0.0) -> Any:
        """Return the fitted model trained on new events; replay: see `Recommender.update`."""
        raise fit_again(self)

    def fold_in(self, model: Any, events: Any, epochs: int | None = None) -> Any:
        """Return the fitted model with the users of a few events; nothing else changes."""
        raise fit_again(self)

    def options(self) -> dict[str, Any]:
        """Return the options as plain values, except those that do not affect results."""
        return plain(self)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return a recipe made of plain values; raise OptionError for unknown names."""
        return cls(**options)


def _missing_attribute(recipe: Any, name: str) -> Any:
    """Raise AttributeError for an attribute that a recipe lacks, or does not have yet."""
    kind = type(recipe).__name__
    ours = FOREIGN_METHODS.get(name, name)
    if ours in FITTED:
        raise AttributeError(
            f"{kind} is not fitted yet, so it has no {name!r}: fit it first, with "
            f"model = {kind}(...).fit(events), then use model.{ours}"
        )
    raise no_attribute(recipe, name)


@runtime_checkable
class Requiring(Protocol):
    """A recipe with requirements, such as another library."""

    def require(self) -> None:
        """Raise an error that says what to install if a requirement is missing."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A recipe that reports the software its models are made with."""

    def provenance(self) -> dict[str, str]:
        """Return names and versions for reports."""
        ...


def fit_again(recipe: Any, why: str = "it cannot continue a training") -> OptionError:
    """Return the error for a recipe whose models do not learn from new events."""
    return OptionError(f"{type(recipe).__name__} must be fitted again on all events: {why}")


def require_updatable(recipe: Any) -> Recipe:
    """Return the recipe if its models can learn from new events; raise OptionError otherwise."""
    if not isinstance(recipe, Recipe):
        raise fit_again(recipe)
    return recipe


def name_of(kind: type) -> str:
    """Return the name of a recipe's class in files: with its module unless it is part of fmpair."""
    ours = kind.__module__.partition(".")[0] == "fmpair"
    return kind.__name__ if ours else f"{kind.__module__}:{kind.__qualname__}"
