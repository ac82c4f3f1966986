"""Options as the shell knows them: `--item COLUMN` for what Python calls `item=...`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Any

from fmpair.cli.flags import Flag
from fmpair.errors import Spell, in_file


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
