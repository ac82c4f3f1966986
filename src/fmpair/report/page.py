"""The report as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence

from fmpair.report import style
from fmpair.report.sheet import Section


def page(title: str, verdict: str, warnings: Sequence[str], sections: Sequence[Section]) -> str:
    """HTML with its style and its figures inside: no script, no other file, no address."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("fmpair.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        title=title,
        verdict=verdict,
        warnings=warnings,
        sections=sections,
        inlined=lambda figure: Markup(style.inlined(figure)),
        css=Markup(loader.get_source(environment, "report.css")[0]),
    )
