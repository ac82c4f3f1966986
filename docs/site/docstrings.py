"""Convert docstrings for autodoc: `name: text` becomes a parameter field.

A docstring may describe several arguments in one line, and the result in a line that begins with
"Gives"; sections of options have underlined headings.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from fmpair.text import HEADING, described, descriptions

RESULT = re.compile(r"^ *(?=(?:Gives|Returns) )", re.MULTILINE)
CODE = re.compile(r"(?<!`)(`{1,2})([^`]+)\1(?!`)")


def arguments_of(thing: Any) -> list[str]:
    """Return the parameter names of a function or the field names of a class, or []."""
    try:
        return [name for name in inspect.signature(thing).parameters if name != "self"]
    except (TypeError, ValueError):
        return []


def as_code(text: str) -> str:
    """Return text as reStructuredText: code in double backticks, everything else escaped."""
    parts = CODE.split(text)
    said = [re.sub(r"([*|`\\]|_\b)", r"\\\1", part) for part in parts[::3]]
    code = [f"\\ ``{' '.join(part.split())}``\\ " for part in parts[2::3]]
    return "".join(one for pair in zip(said, [*code, ""]) for one in pair)


def rewritten(text: str, names: list[str]) -> list[str]:
    """Return lines of reStructuredText: the prose, then a field for every argument."""
    text = RESULT.sub("\n\n", inspect.cleandoc(text))
    said = descriptions(text, names)
    lines = []
    for paragraph in re.split(r"\n[^\S\n]*\n", text):
        if paragraph and all(line.startswith("    ") for line in paragraph.splitlines()):  # code
            lines += ["::", "", *paragraph.splitlines(), ""]
            continue
        prose = _before_arguments(paragraph, names)
        lines += [*as_code(prose).splitlines(), ""] if prose.strip() else []
    fields = [f":param {name}: {as_code(one)}" for name, one in said.items()]
    return [*lines, *fields, ""]


def _before_arguments(paragraph: str, names: list[str]) -> str:
    """Return the text of a paragraph before its first argument, or ""."""
    paragraph = HEADING.sub("", paragraph)
    start = described(names).search(paragraph)
    return paragraph[: start.start()] if start else paragraph


def processed(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if what in ("class", "exception", "function", "method"):
        lines[:] = rewritten("\n".join(lines), arguments_of(thing))
    else:
        lines[:] = as_code("\n".join(lines)).splitlines()


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", processed)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
