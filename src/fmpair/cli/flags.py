"""Flags that are declared elsewhere: groups of parameters put into a verb's signature."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

import typer

from fmpair.errors import OptionError, Spell, in_file

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


# Options as the shell knows them: `--item COLUMN` for what Python calls `item=...`.


def in_shell(command: Any, arguments: Sequence[str]) -> Spell:
    """The spelling of one command line; what its verb has no flag for is an experiment file's."""

    @cache
    def flags() -> dict[str, Any]:
        return {option.name: option for option in _verb(command, list(arguments)).params}

    def spell(name: str, *value: Any) -> str:
        option: Any = flags().get(name)
        spellings = [one for one in getattr(option, "opts", ()) if one.startswith("-")]
        if not spellings:
            return in_file(name, *value)
        if value and value[0] is False:
            return next(iter(option.secondary_opts), f"no {max(spellings, key=len)}")
        return _written(max(spellings, key=len), option.metavar, *value)

    return spell


def in_flags(flags: Sequence[Flag]) -> Spell:
    """The spelling of the flags of a group; what is none of them is an experiment file's."""
    known = {flag.name: flag.annotation.__metadata__[0] for flag in flags}

    def spell(name: str, *value: Any) -> str:
        if name not in known:
            return in_file(name, *value)
        option = known[name]
        usual = f"--{name.replace('_', '-')}"
        given = [text for text in (option.default, *(option.param_decls or ())) if text is not ...]
        return _written(max(given or [usual], key=len), option.metavar, *value)

    return spell


def _written(flag: str, metavar: str | None, *value: Any) -> str:
    if not value or value[0] is True:
        return flag
    if value[0] is None:
        return f"{flag} {metavar or '...'}"
    each = value[0] if isinstance(value[0], list) else [value[0]]
    return " ".join(f"{flag} {_argument(one)}" for one in each)


def _verb(command: Any, arguments: list[str]) -> Any:
    """The command that the first words name: `data describe`."""
    names = [word for word in arguments if not word.startswith("-")]
    while names and hasattr(command, "resolve_command"):
        with command.make_context(command.name, names, resilient_parsing=True) as context:
            _, found, names = command.resolve_command(context, names)
        if found is None:
            break
        command = found
    return command


def _argument(value: Any) -> str:
    return "..." if value == "..." else shlex.quote(str(value).replace("\t", "\\t"))
