"""Models with and without each of their fields: candidates that show which fields help."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from fmpair.config.data_columns import Header, header_of
from fmpair.config.experiment import Ablation, Candidate, Source, Step
from fmpair.config.model_section import MOST_MODELS, TOO_MANY, Models, add
from fmpair.config.node import Node, one_line
from fmpair.errors import FmpairError
from fmpair.features.history_fields import AUTO, HISTORY
from fmpair.features.space import ITEM, USER
from fmpair.fitted.recipe import BY_COLUMN, without_columns

# Whose columns the options of a candidate name.
ROLES = {"context": "context", "user_fields": "user", "item_fields": "item"}
NO_FIELD = "there is no field: the model sees neither context nor attributes of users or items"

TRIPLES = ("order", "pairs", "factors3")  # options that go with order three alone

Column = tuple[str, str]  # the option that gives or withholds it, and its name
Couple = tuple[str, str]  # names of two fields of a side


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
            couples = couples_of(candidate, fields)
            ablations.append(_names(candidate, fields, couples))
            family = _family(candidate, ablations[-1], fields)
            family += [_apart(candidate, ablations[-1], couple, couples) for couple in couples]
        if len(found) + len(family) > MOST_MODELS:
            entry.wrong(TOO_MANY)
            break
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


def couples_of(model: Candidate, fields: dict[str, Column]) -> list[Couple]:
    """The pairs of fields that meet in terms of order three, none where the model has none."""
    if model.options.get("order") != 3:
        return []
    if model.options.get("pairs") is not None:
        return [(str(one), str(other)) for one, other in model.options["pairs"]]
    of_items = [name for name, (option, _) in fields.items() if option == "item_fields"]
    of_query = [name for name in fields if name not in of_items]
    found: list[Couple] = []
    if model.options.get(HISTORY) not in (None, 0, AUTO):
        of_query.append(HISTORY)
        found.append((HISTORY, HISTORY))
    for side in ([USER, *of_query], [ITEM, *of_items]):
        found += combinations(side, 2)
    return found


def _names(model: Candidate, fields: Collection[str], couples: Collection[Couple]) -> Ablation:
    """Without its only field a model has none, and that field alone is all it has."""
    full, none = model.name, f"{model.name} with no field"
    alone = len(fields) == 1
    without = {name: none if alone else f"{full} without {name}" for name in fields}
    only = {name: full if alone else f"{full} with {name} only" for name in fields}
    without |= {_told(couple): f"{full} without {_told(couple)}" for couple in couples}
    return Ablation(full, none, without, only if model.ablation == "both" else {})


def _told(couple: Couple) -> str:
    """`user x daytime`, as explanations have it."""
    return " x ".join(couple)


def _apart(model: Candidate, names: Ablation, couple: Couple, every: Sequence[Couple]) -> Candidate:
    """The model whose every pair of fields meets but one; of no pairs it is of order two."""
    kept = [list(other) for other in every if other != couple]
    options = {name: value for name, value in model.options.items() if name not in TRIPLES}
    if kept:
        options |= {name: model.options[name] for name in TRIPLES if name in model.options}
        options["pairs"] = kept
    return replace(model, name=names.without[_told(couple)], options=options, ablation=None)


def _family(model: Candidate, names: Ablation, fields: dict[str, Column]) -> list[Candidate]:
    """Every candidate of an ablation, the one with all fields first."""
    every = list(fields.values())
    kept: dict[str, list[Column]] = {names.model: every, names.none: []}
    for field, column in fields.items():
        kept.setdefault(names.without[field], [other for other in every if other != column])
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
        options=_without_pairs(without_columns(model.options, words), words),
        search=search,
        ablation=None,
        **left,
    )


def _without_pairs(options: dict[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The options with no pair of fields that are gone; without any pair left, of order two."""
    pairs = options.get("pairs")
    if pairs is None:
        return options
    left = [pair for pair in pairs if not set(pair) & set(columns)]
    if left:
        return {**options, "pairs": left}
    return {name: value for name, value in options.items() if name not in TRIPLES}


def _about(name: str, columns: Collection[str]) -> bool:
    """Whether a dotted option is about one of the columns: `fields.age.bins`."""
    first, _, rest = name.partition(".")
    return first in BY_COLUMN and any(f"{rest}.".startswith(f"{one}.") for one in columns)
