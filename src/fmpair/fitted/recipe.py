"""What every recipe can be asked for, whatever model it makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from fmpair.errors import OptionError
from fmpair.option_names import unknown_option

# A recipe's options: by name, as plain values, and back.


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


@runtime_checkable
class Recipe(Protocol):
    """A model before it is fitted: a frozen dataclass whose fields are its options.

    A class that names this one as its base only has to say how it is fitted. One that can learn
    from further events, or that reads a scorer back from a file, says that too.
    """

    def __new__(cls, *given: Any, **options: Any) -> Self:
        """Options are checked by name before anything is made."""
        if is_dataclass(cls):
            check_names(cls, given, options)
        return super().__new__(cls)

    def fit(self, data: Any) -> Any:
        """A `Recommender` or a `Ranker` of the events: a Dataset, a frame or a sparse matrix."""
        ...

    def update(self, model: Any, data: Any, epochs: int | None = None, replay: Any = 0.0) -> Any:
        """The fitted model after learning from further events.

        replay: earlier events to learn again, see `Recommender.update`.
        """
        raise fit_again(self)

    def fold_in(self, model: Any, events: Any, epochs: int | None = None) -> Any:
        """The fitted model with the users of a few events; everything else stays as it is."""
        raise fit_again(self)

    def options(self) -> dict[str, Any]:
        """The options as plain values; threads are left out, since no result depends on them."""
        return plain(self)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """A recipe from plain values; unknown names are refused."""
        return cls(**options)


@runtime_checkable
class Requiring(Protocol):
    """A recipe that needs what may be missing, such as another library."""

    def require(self) -> None:
        """Raise, with what would help, where it is missing."""
        ...


@runtime_checkable
class Sourced(Protocol):
    """A recipe that says what its models are made with."""

    def provenance(self) -> dict[str, str]:
        """For reports, such as a library's name and version."""
        ...


def fit_again(recipe: Any, why: str = "it cannot go on from what it has learned") -> OptionError:
    """The error of a recipe whose models do not learn from further events."""
    return OptionError(f"{type(recipe).__name__} must be fitted again on all events: {why}")


def can_go_on(recipe: Any) -> Recipe:
    """The recipe of a fitted model that is to learn more; one that has nothing but fit cannot."""
    if not isinstance(recipe, Recipe):
        raise fit_again(recipe)
    return recipe


def name_of(kind: type) -> str:
    """How a file names a recipe's class: one of fmpair by its name, any other by its place too."""
    ours = kind.__module__.partition(".")[0] == "fmpair"
    return kind.__name__ if ours else f"{kind.__module__}:{kind.__qualname__}"
