"""Generate the page of the command line: every verb, argument and option."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markdown import plain

from fmpair.cli.application import command


def page() -> str:
    """Return Markdown with a section for every verb."""
    every = _verbs(_context(command(), "fmpair"))
    return "\n\n".join(text for path, one in every for text in _verb(path, one))


def _context(found: Any, name: str, parent: Any = None) -> Any:
    return found.context_class(found, info_name=name, parent=parent)


def _verbs(context: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, command) of every verb, including those of groups."""
    group: Any = context.command
    for name in group.list_commands(context):
        # resolved like a call, since `fit` gets its options only then
        _, found, _ = group.resolve_command(context, [name])
        path = f"{context.command_path} {name}"
        yield path, found
        if hasattr(found, "list_commands"):
            yield from _verbs(_context(found, name, context))


def _verb(path: str, found: Any) -> Iterator[str]:
    yield f"{'#' * (1 + len(path.split()[1:]))} {path.removeprefix('fmpair ')}"
    yield f"```{{program}} {path}\n```"
    context = _context(found, path)
    arguments = [one for one in found.params if one.param_type_name == "argument"]
    options = [one for one in found.params if one.param_type_name == "option" and not one.hidden]
    words = [_name(one) for one in arguments]
    if hasattr(found, "list_commands"):
        words = ["COMMAND"]
    yield f"```text\n{' '.join([path, *words, '[OPTIONS]'])}\n```"
    yield _escaped(found.help)
    for one in arguments:
        text = getattr(one, "help", None)
        yield f"`{_name(one)}`\n: {_escaped(text) or 'Required.'}"
    for one in options:
        yield _option(one, context)


def _name(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _option(option: Any, context: Any) -> str:
    shown, text = option.get_help_record(context)
    return f"`````{{option}} {shown}\n{_escaped(text)}\n`````"


def _escaped(text: str | None) -> str:
    """Return help text as escaped Markdown."""
    return plain(" ".join((text or "").replace("\b", "").split()))
