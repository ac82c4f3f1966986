"""Generate the page of all models, by family, with options, types and defaults."""

from __future__ import annotations

from collections.abc import Iterator

from markdown import code, plain, table

from fmpair.models import catalog
from fmpair.text import summary


def page() -> str:
    """Return Markdown with a section for every family and model."""
    parts = []
    for family, members in catalog.FAMILIES.items():
        parts.append(f"## {family.capitalize()}")
        for name in members:
            parts += _model(name)
    return "\n\n".join(parts)


def _model(name: str) -> Iterator[str]:
    recipe = catalog.find(name)
    yield f"### {name}"
    yield f"{plain(summary(recipe.__doc__))} In Python: `{recipe.__module__}.{recipe.__name__}`."
    options = catalog.options(name)
    rows = [
        [code(option), code(kind), code(default), plain(text)]
        for option, kind, default, text, _ in options.iter_rows()
    ]
    if rows:
        yield table(["option", "type", "default", ""], rows)
