"""Models with and without each of their fields: candidates that show which fields help."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from fmpair.config.candidate import Models, add
from fmpair.config.experiment import Ablation, Candidate, Source, Step
from fmpair.config.header import Header, header_of
from fmpair.config.node import Node, one_line
from fmpair.errors import FmpairError
from fmpair.fitted.option import BY_COLUMN, without_columns

# Whose columns the options of a candidate name.
ROLES = {"context": "context", "user_fields": "user", "item_fields": "item"}
NO_FIELD = "there is no field: the model sees neither context nor attributes of users or items"

Column = tuple[str, str]  # the option that gives or withholds it, and its name


def multiplied_out(
    models: Models, data: Node, source: Source, filters: Sequence[Step]
) -> tuple[Models, tuple[Ablation, ...]]:
    """The models, those with an ablation followed by the same with fewer fields.

    data: the place of the source, which is looked into for the names of the fields.
    """
    header = _header(data, source, filters)
    if header is None:
        return models, ()
    found: Models = {}
    ablations = []
    for candidate, entry in models.values():
        family = [candidate]
        if candidate.ablation is not None:
            fields = _fields_of(candidate, header)
            if not fields:
                entry.at("ablation").wrong(NO_FIELD)
            ablations.append(_names(candidate, fields))
            family = _family(candidate, ablations[-1], fields)
        for one in family:
            add(found, one, entry)
    return found, tuple(ablations)


def _fields_of(model: Candidate, header: Header) -> dict[str, Column]:
    """By name the columns a model is given; a name that two tables have goes with its role."""
    every = {"context": header.context, "user_fields": header.users, "item_fields": header.items}
    given = {option: getattr(model, option) for option in every}
    columns = [
        (option, name)
        for option, known in every.items()
        for name in (known if given[option] is None else given[option])
    ]
    names = [name for _, name in columns]
    return {
        name if names.count(name) == 1 else f"{ROLES[option]}.{name}": (option, name)
        for option, name in columns
    }


def _header(data: Node, source: Source, filters: Sequence[Step]) -> Header | None:
    """None, which is noted, where the data cannot be looked at."""
    try:
        header = header_of(source, filters)
    except FmpairError as error:
        data.wrong(one_line(error))
        return None
    if header is None:
        data.wrong(f"an ablation needs the data on this machine: fmpair data fetch {source.set}")
    return header


def _names(model: Candidate, fields: Collection[str]) -> Ablation:
    """Without its only field a model has none, and that field alone is all it has."""
    full, none = model.name, f"{model.name} with no field"
    alone = len(fields) == 1
    without = {name: none if alone else f"{full} without {name}" for name in fields}
    only = {name: full if alone else f"{full} with {name} only" for name in fields}
    return Ablation(full, none, without, only if model.ablation == "both" else {})


def _family(model: Candidate, names: Ablation, fields: dict[str, Column]) -> list[Candidate]:
    """Every candidate of an ablation, the one with all fields first."""
    every = list(fields.values())
    kept: dict[str, list[Column]] = {names.model: every, names.none: []}
    for field, label in names.without.items():
        kept.setdefault(label, [column for column in every if column != fields[field]])
    for field, label in names.only.items():
        kept.setdefault(label, [fields[field]])
    return [_seeing(model, label, every, columns) for label, columns in kept.items()]


def _seeing(model: Candidate, label: str, every: list[Column], kept: list[Column]) -> Candidate:
    """The model with some of its columns and no options of the others.

    A table that loses no column stays as it was given, and so does the cell of the whole model.
    """
    gone = [column for column in every if column not in kept]
    left: dict[str, Any] = {
        option: tuple(name for other, name in kept if other == option)
        for option in ROLES
        if any(other == option for other, _ in gone)
    }
    words = {f"{ROLES[option]}.{name}" for option, name in gone}
    words |= {name for _, name in gone} - {name for _, name in kept}
    search = {name: range for name, range in model.search.items() if not _about(name, words)}
    return replace(
        model,
        name=label,
        options=without_columns(model.options, words),
        search=search,
        ablation=None,
        **left,
    )


def _about(name: str, columns: Collection[str]) -> bool:
    """Whether a dotted option is about one of the columns: `fields.age.bins`."""
    first, _, rest = name.partition(".")
    return first in BY_COLUMN and any(f"{rest}.".startswith(f"{one}.") for one in columns)
