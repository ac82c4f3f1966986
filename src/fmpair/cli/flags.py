"""Flags that are declared elsewhere: groups of parameters put into a verb's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from fmpair.errors import OptionError

Flag = inspect.Parameter

On = Annotated[
    str | None,
    typer.Option(metavar="CLUSTER", help="A cluster to work on: ray, or ray://HOST:PORT."),
]


def flag(name: str, kind: Any, default: Any, *spellings: str, **settings: Any) -> Flag:
    """A parameter with what typer wants to know of it."""
    annotation = Annotated[kind, typer.Option(*spellings, **settings)]
    return Flag(name, Flag.KEYWORD_ONLY, default=default, annotation=annotation)


def with_flags(verb: Callable[..., None], **groups: Sequence[Flag]) -> Callable[..., None]:
    """The verb with one flag per member of each group.

    The verb has a parameter of each group's name, and finds there a mapping of the given values.
    """
    own = inspect.signature(verb, eval_str=True).parameters.values()
    members = [member for flags in groups.values() for member in flags]

    def call(**values: Any) -> None:
        for group, flags in groups.items():
            values[group] = {member.name: values.pop(member.name) for member in flags}
        verb(**values)

    kept = [p.replace(kind=Flag.KEYWORD_ONLY) for p in own if p.name not in groups]
    call.__signature__ = inspect.Signature([*kept, *members])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*kept, *members]}
    call.__name__, call.__doc__ = verb.__name__, verb.__doc__
    return call


def pairs(given: Sequence[str], flag_name: str) -> dict[str, str]:
    """`name=value` texts as a mapping."""
    found = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise OptionError(f"{flag_name} takes name=value, not {text!r}")
        found[name] = value
    return found


def given_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values without those that were left out on the command line."""
    return {name: value for name, value in values.items() if value not in (None, [], ())}
