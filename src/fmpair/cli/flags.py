"""Flags: groups of parameters added to a command, and options written as flags in messages."""

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
    typer.Option(metavar="CLUSTER", help="Run on a cluster: ray, or ray://HOST:PORT."),
]


def flag(name: str, kind: Any, default: Any, *spellings: str, **settings: Any) -> Flag:
    """Return a parameter with its typer option."""
    annotation = Annotated[kind, typer.Option(*spellings, **settings)]
    return Flag(name, Flag.KEYWORD_ONLY, default=default, annotation=annotation)


def with_flags(function: Callable[..., None], **groups: Sequence[Flag]) -> Callable[..., None]:
    """Return a command with one flag per member of each group.

    The function has a parameter named like each group, and gets a mapping of its values there.
    """
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    members = [member for flags in groups.values() for member in flags]

    def call(**values: Any) -> None:
        for group, flags in groups.items():
            values[group] = {member.name: values.pop(member.name) for member in flags}
        function(**values)

    kept = [p.replace(kind=Flag.KEYWORD_ONLY) for p in parameters if p.name not in groups]
    call.__signature__ = inspect.Signature([*kept, *members])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*kept, *members]}
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def pairs(texts: Sequence[str], flag_name: str) -> dict[str, str]:
    """Return `name=value` texts as a mapping."""
    values = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise OptionError(f"{flag_name} takes name=value, not {text!r}")
        values[name] = value
    return values


def given_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without those that were not given on the command line."""
    return {name: value for name, value in values.items() if value not in (None, [], ())}


def in_shell(command: Any, arguments: Sequence[str]) -> Spell:
    """Return how messages of a command line write options: `--item COLUMN` for `item=...`.

    Options of models for which its command has no flag are written as flags of `fit`, others, and
    those of a command that reads one, as in an experiment file.
    """

    @cache
    def flags() -> dict[str, Any]:
        own = {option.name: option for option in _resolved(command, arguments).params}
        if "model" not in own:
            return own
        of_fit = {option.name: option for option in _resolved(command, ["fit"]).params}
        return {name: of_fit[name] for name in ("fields", "history", "items")} | own

    def spell(name: str, *value: Any) -> str:
        option: Any = flags().get(name)
        spellings = [text for text in getattr(option, "opts", ()) if text.startswith("-")]
        if not spellings:
            return in_file(name, *value)
        if value and value[0] is False:
            return next(iter(option.secondary_opts), f"no {max(spellings, key=len)}")
        return _with_value(max(spellings, key=len), option.metavar, *value)

    return spell


def in_flags(flags: Sequence[Flag]) -> Spell:
    """Return how the flags of a group are written; other options as in an experiment file."""
    known = {flag.name: flag.annotation.__metadata__[0] for flag in flags}

    def spell(name: str, *value: Any) -> str:
        if name not in known:
            return in_file(name, *value)
        option = known[name]
        given = [text for text in (option.default, *(option.param_decls or ())) if text is not ...]
        longest = max(given or [f"--{name.replace('_', '-')}"], key=len)
        return _with_value(longest, option.metavar, *value)

    return spell


def _with_value(flag: str, metavar: str | None, *value: Any) -> str:
    if not value or value[0] is True:
        return flag
    if value[0] is None:
        return f"{flag} {metavar or '...'}"
    each = value[0] if isinstance(value[0], list) else [value[0]]
    if isinstance(value[0], dict):
        each = [f"{name}={one}" for name, one in value[0].items()]
    texts = [one if one == "..." else shlex.quote(str(one).replace("\t", "\\t")) for one in each]
    return " ".join(f"{flag} {text}" for text in texts)


def _resolved(command: Any, arguments: Sequence[str]) -> Any:
    """Return the command that the first words name, such as `data describe`."""
    names = [word for word in arguments if not word.startswith("-")]
    while names and hasattr(command, "resolve_command"):
        with command.make_context(command.name, names, resilient_parsing=True) as context:
            _, resolved, names = command.resolve_command(context, names)
        if resolved is None:
            break
        command = resolved
    return command
