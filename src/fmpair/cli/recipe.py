"""The flags of `fit` that are FMPair's own options, and the recipe they make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, get_args, get_origin, get_type_hints

from fmpair.cli.flags import Flag, flag, pairs
from fmpair.docstring import descriptions, whole
from fmpair.features.field import Field
from fmpair.models.catalog import grouped
from fmpair.models.fm_pair.recipe import FMPair

PANEL = "Model"
# Flags of mappings are repeated, one entry each.
SPELLINGS = {"fields": "--field", "fm_order": "--fm-order"}
# Options whose flags have another name: --order is that of rows.
NAMES = {"order": "fm_order"}
METAVARS = {
    "fields": "NAME=KIND",
    "regularization": "[NAME=]X",
    "history": "N|auto|NAME=X,...",
    "levels": "KIND,KIND,...",
    "pairs": "FIELD:FIELD,...",
}
TEXTS = ("history", "levels", "pairs")  # options of several types that are given as one text


def recipe_flags() -> list[Flag]:
    """One flag per option of FMPair, with its type, default and description; groups are panels."""
    kinds = get_type_hints(FMPair)
    texts = descriptions(whole(FMPair), kinds)
    return [
        _flag(option, kinds[option.name], texts.get(option.name), group)
        for option, group in grouped(FMPair)
    ]


def recipe_from(values: Mapping[str, Any]) -> FMPair:
    """The recipe the flags describe."""
    known = {flag: option for option, flag in NAMES.items()}
    options = {known.get(name, name): value for name, value in values.items()}
    regularization, columns = options.pop("regularization"), options.pop("fields")
    if regularization:
        options["regularization"] = _regularization(regularization)
    options["history"] = _history(options["history"])
    if options["levels"] is not None:
        options["levels"] = [level.strip() for level in options["levels"].split(",")]
    if options["pairs"] is not None:
        options["pairs"] = [pair.strip().split(":") for pair in options["pairs"].split(",")]
    return FMPair(**options, fields=_fields(columns))


def _flag(option: Any, kind: Any, text: str | None, group: str) -> Flag:
    mapping = _is_mapping(kind) and option.name not in TEXTS
    kind = list[str] if mapping else str | None if option.name in TEXTS else kind
    default = [] if mapping or option.default is MISSING else option.default
    name = NAMES.get(option.name, option.name)
    spelling = [SPELLINGS[name]] if name in SPELLINGS else []
    return flag(
        name,
        kind,
        default,
        *spelling,
        help=text,
        rich_help_panel=f"{PANEL}: {group.lower()}" if group else PANEL,
        metavar=METAVARS.get(option.name),
    )


def _is_mapping(kind: Any) -> bool:
    """Whether an option's type is a mapping, or may be one."""
    return any(get_origin(part) is Mapping for part in (kind, *get_args(kind)))


def _history(given: str) -> Any:
    """`10` and `auto` as they are, `last=10,fade=0.7` by name."""
    if "=" not in given:
        return _value(given)
    return {name: _value(text) for name, text in pairs(given.split(","), "--history").items()}


def _regularization(given: Sequence[str]) -> Any:
    """One number, or numbers by name."""
    if len(given) == 1 and "=" not in given[0]:
        return _value(given[0])
    return {name: _value(text) for name, text in pairs(given, "--regularization").items()}


def _fields(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """`age=binned` is a kind, `age.bins=5` any other option of a field."""
    own = [option.name for option in fields(Field)]
    found: dict[str, dict[str, Any]] = {}
    for name, text in pairs(given, "--field").items():
        column, _, option = name.rpartition(".")
        if column and option in own:
            found.setdefault(column, {})[option] = _value(text)
        else:
            found.setdefault(name, {})["kind"] = text
    return found


def _value(text: str) -> Any:
    """A number or truth value where the text is one, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
