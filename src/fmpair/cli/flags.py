"""Flags: groups of parameters added to a command, and options written as flags in messages."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from fmpair.errors import OptionError, Spell, in_file

Flag = inspect.Parameter

On = Annotated[
    str | None,
    typer.Option(metavar="CLUSTER", help="Run on a cluster: ray, or ray://HOST:PORT."),
]
ResultsFolder = Annotated[
    Path | None, typer.Option("--folder", "-f", metavar="DIR", help="The folder of the results.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print the roles of the columns.")]


def flag(name: str, kind: Any, default: Any, *spellings: str, **settings: Any) -> Flag:
    """Return a parameter with its typer option."""
    settings["help"] = re.sub(r"\[(?=[a-z])", r"\\[", settings["help"])  # brackets are no markup
    annotation = Annotated[kind, typer.Option(*spellings, **settings)]
    return Flag(name, Flag.KEYWORD_ONLY, default=default, annotation=annotation)


def text_flag(panel: str, name: str, metavar: str, help: str, kind: Any = str | None) -> Flag:
    """Return a flag in a panel of the help, by default of text; None if it is not given."""
    return flag(name, kind, None, metavar=metavar, help=help, rich_help_panel=panel)


def repeated_flag(panel: str, name: str, metavar: str, help: str, *spellings: str) -> Flag:
    """Return a flag of text that may be repeated; [] if it is not given."""
    return flag(name, list[str], [], *spellings, metavar=metavar, help=help, rich_help_panel=panel)


def with_flags(function: Callable[..., None], **groups: Sequence[Flag]) -> Callable[..., None]:
    """Return a command with one flag per member of each group.

    The function has a parameter with the name of each group, and gets a mapping of its values.
    """
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    members = [member for flags in groups.values() for member in flags]

    def call(**values: Any) -> None:
        for group, flags in groups.items():
            values[group] = {member.name: values.pop(member.name) for member in flags}
        function(**values)

    own_parameters = [p.replace(kind=Flag.KEYWORD_ONLY) for p in parameters if p.name not in groups]
    call.__signature__ = inspect.Signature([*own_parameters, *members])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*own_parameters, *members]}
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
    """Return a function that writes options as flags in messages: `--item COLUMN` for `item=...`.

    Commands that take a model also know a few flags of `fit`. Options without a flag are written
    as in an experiment file.
    """

    @cache
    def flags() -> dict[str, Any]:
        parameters = {option.name: option for option in _resolved(command, arguments).params}
        if "model" not in parameters:
            return parameters
        of_fit = {option.name: option for option in _resolved(command, ["fit"]).params}
        return {name: of_fit[name] for name in ("fields", "history", "items")} | parameters

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
    """Return a function that writes options of this group as flags, others as in a file."""
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
        inner = {n: p if isinstance(p, dict) else {None: p} for n, p in value[0].items()}
        each = [
            f"{name}={part}" if key is None else f"{name}:{key}={part}"
            for name, parts in inner.items()
            for key, part in parts.items()
        ]
    texts = [
        part if part == "..." else shlex.quote(str(part).replace("\t", "\\t")) for part in each
    ]
    return " ".join(f"{flag} {text}" for text in texts)


def _resolved(command: Any, arguments: Sequence[str]) -> Any:
    """Return the command that the first arguments name, such as `data describe`."""
    names = [word for word in arguments if not word.startswith("-")]
    while names and hasattr(command, "resolve_command"):
        with command.make_context(command.name, names, resilient_parsing=True) as context:
            _, resolved, names = command.resolve_command(context, names)
        if resolved is None:
            break
        command = resolved
    return command
