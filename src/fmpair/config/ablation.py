"""The key `ablation` of a model: the same model with and without each of its fields."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from fmpair.config.data_columns import Header, header_of
from fmpair.config.experiment import Ablation, Candidate, Source, Step
from fmpair.config.model_section import MAX_MODELS, TOO_MANY, Models, add
from fmpair.config.node import Node, one_line
from fmpair.errors import FmpairError
from fmpair.features.history_fields import AUTO, HISTORY
from fmpair.features.space import ITEM, USER
from fmpair.fitted.recipe import BY_COLUMN, without_columns

# Option of a candidate -> role of the columns it names.
ROLES = {"context": "context", "user_fields": "user", "item_fields": "item"}
NO_FIELD = "nothing to leave out: the model uses no context and no user or item attributes"

TRIPLES = ("order", "pairs", "factors3")  # options of order three only

Column = tuple[str, str]  # the option that selects it, and its name
Pair = tuple[str, str]  # names of two fields of a side


def expand_ablations(
    models: Models, data: Node, source: Source, filters: Sequence[Step]
) -> tuple[Models, tuple[Ablation, ...]]:
    """Return the models, each with an ablation followed by its versions with fewer fields.

    data: the node of the source, which is read for the names of the fields.
    """
    header = _header(data, source, filters)
    if header is None:
        return models, ()
    expanded: Models = {}
    ablations = []
    for candidate, entry in models.values():
        family = [candidate]
        if candidate.ablation is not None:
            fields = _fields_of(candidate, header)
            if not fields:
                entry.at("ablation").wrong(NO_FIELD)
            pairs = pairs_of(candidate, fields)
            ablations.append(_names(candidate, fields, pairs))
            family = _family(candidate, ablations[-1], fields)
            family += [_without_pair(candidate, ablations[-1], pair, pairs) for pair in pairs]
        if len(expanded) + len(family) > MAX_MODELS:
            entry.wrong(TOO_MANY)
            break
        for member in family:
            add(expanded, member, entry)
    return expanded, tuple(ablations)


def _fields_of(model: Candidate, header: Header) -> dict[str, Column]:
    """Return the columns of a model by name; a name in two tables gets its role as prefix."""
    every = {"context": header.context, "user_fields": header.users, "item_fields": header.items}
    columns = [
        (option, name)
        for option, known in every.items()
        for name in (known if getattr(model, option) is None else getattr(model, option))
    ]
    names = [name for _, name in columns]
    return {
        name if names.count(name) == 1 else f"{ROLES[option]}.{name}": (option, name)
        for option, name in columns
    }


def _header(data: Node, source: Source, filters: Sequence[Step]) -> Header | None:
    """Return the columns of the data; record a mistake where they cannot be read."""
    try:
        header = header_of(source, filters)
    except FmpairError as error:
        data.wrong(one_line(error))
        return None
    if header is None:
        data.wrong(f"an ablation needs the data on this machine: fmpair data fetch {source.set}")
    return header


def pairs_of(model: Candidate, fields: dict[str, Column]) -> list[Pair]:
    """Return the pairs of fields that terms of order three have; [] for a model of order two."""
    if model.options.get("order") != 3:
        return []
    if model.options.get("pairs") is not None:
        return [(str(first), str(second)) for first, second in model.options["pairs"]]
    of_items = [name for name, (option, _) in fields.items() if option == "item_fields"]
    of_query = [name for name in fields if name not in of_items]
    pairs: list[Pair] = []
    if model.options.get(HISTORY) not in (None, 0, AUTO):
        of_query.append(HISTORY)
        pairs.append((HISTORY, HISTORY))
    for side in ([USER, *of_query], [ITEM, *of_items]):
        pairs += combinations(side, 2)
    return pairs


def _names(model: Candidate, fields: Collection[str], pairs: Collection[Pair]) -> Ablation:
    """Return the labels of all versions of a model.

    With a single field, leaving it out is the model with no field, and the field alone is the full
    model, so these versions have the same labels.
    """
    full, none = model.name, f"{model.name} with no field"
    single = len(fields) == 1
    without = {name: none if single else f"{full} without {name}" for name in fields}
    only = {name: full if single else f"{full} with {name} only" for name in fields}
    without |= {_label(pair): f"{full} without {_label(pair)}" for pair in pairs}
    return Ablation(full, none, without, only if model.ablation == "both" else {})


def _label(pair: Pair) -> str:
    """Return `user x daytime`, as explanations write it."""
    return " x ".join(pair)


def _without_pair(
    model: Candidate, names: Ablation, pair: Pair, every: Sequence[Pair]
) -> Candidate:
    """Return the model without one pair of fields."""
    remaining = [list(other) for other in every if other != pair]
    options = _with_pairs(model.options, remaining)
    return replace(model, name=names.without[_label(pair)], options=options, ablation=None)


def _family(model: Candidate, names: Ablation, fields: dict[str, Column]) -> list[Candidate]:
    """Return every candidate of an ablation, the one with all fields first."""
    every = list(fields.values())
    versions: dict[str, list[Column]] = {names.model: every, names.none: []}
    for field, column in fields.items():
        versions.setdefault(names.without[field], [other for other in every if other != column])
    for field, label in names.only.items():
        versions.setdefault(label, [fields[field]])
    return [_with_columns(model, label, every, columns) for label, columns in versions.items()]


def _with_columns(
    model: Candidate, label: str, every: list[Column], kept: list[Column]
) -> Candidate:
    """Return the model with some of its columns and without the options of the others.

    A table that loses no column stays as the file has it, so the full model keeps its cell id.
    """
    removed = [column for column in every if column not in kept]
    left: dict[str, Any] = {
        option: tuple(name for other, name in kept if other == option)
        for option in ROLES
        if any(other == option for other, _ in removed)
    }
    names = {f"{ROLES[option]}.{name}" for option, name in removed}
    names |= {name for _, name in removed} - {name for _, name in kept}
    search = {name: range for name, range in model.search.items() if not _about(name, names)}
    return replace(
        model,
        name=label,
        options=_without_pairs(without_columns(model.options, names), names),
        search=search,
        ablation=None,
        **left,
    )


def _without_pairs(options: dict[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """Return the options without pairs of removed fields."""
    pairs = options.get("pairs")
    if pairs is None:
        return options
    return _with_pairs(options, [pair for pair in pairs if not set(pair) & set(columns)])


def _with_pairs(options: Mapping[str, Any], pairs: list[Any]) -> dict[str, Any]:
    """Return the options with these pairs; without any pair those of order two."""
    if pairs:
        return {**options, "pairs": pairs}
    return {name: value for name, value in options.items() if name not in TRIPLES}


def _about(name: str, columns: Collection[str]) -> bool:
    """Return whether a dotted option is about one of the columns: `fields.age.bins`."""
    first, _, rest = name.partition(".")
    return first in BY_COLUMN and any(f"{rest}.".startswith(f"{name}.") for name in columns)
