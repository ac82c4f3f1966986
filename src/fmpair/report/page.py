"""The report as one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence

from fmpair.report import style
from fmpair.report.number import told_apart
from fmpair.report.sheet import Section
from fmpair.text import harmless

# Figures style their parts one by one, by attributes, so style is allowed inside; all else is not.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(title: str, verdict: str, warnings: Sequence[str], sections: Sequence[Section]) -> str:
    """HTML with its style and its figures inside: no script, no other file, no address.

    Its policy makes a browser refuse whatever else a name might smuggle in.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("fmpair.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else harmless(str(value)),
    )  # fmt: skip
    return environment.get_template("report.html").render(
        title=title,
        verdict=verdict,
        warnings=warnings,
        sections=dict(zip(told_apart([section.name for section in sections]), sections)),
        policy=POLICY,
        inlined=lambda figure: Markup(style.inlined(figure)),
        css=Markup(loader.get_source(environment, "report.css")[0]),
    )
