"""The verbs, put together."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fmpair import __version__
from fmpair.cli import (
    ask,
    compile,
    config,
    data,
    demo,
    doctor,
    evaluate,
    events,
    export,
    fit,
    migrate,
    models,
    report,
    reproduce,
    running,
    serve,
    update,
)

VERBS = (
    "demo",
    "init",
    "validate",
    "schema",
    "migrate",
    "run",
    "estimate",
    "report",
    "compare",
    "reproduce",
    "fit",
    "update",
    "fold-in",
    "evaluate",
    "recommend",
    "similar",
    "explain",
    "export",
    "serve",
    "events",
    "data",
    "models",
    "compile",
    "doctor",
)


class Verbs(TyperGroup):
    """The verbs in their order; `fit` gets its flags only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # The flags are FMPair's fields, and importing FMPair takes longer than printing help may.
        name, found, rest = super().resolve_command(ctx, args)
        return name, (fit.command() if name == "fit" else found), rest


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fmpair {__version__}")
        raise typer.Exit


def _start(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it and stop."
        ),
    ] = False,
) -> None:
    """Recommendations in context, from a table of clicks."""


@cache
def command() -> Any:
    """The whole command line as one command; made once, since that takes longer than most verbs."""
    app = typer.Typer(cls=Verbs, add_completion=False)
    app.callback()(_start)
    app.command()(demo.demo)
    for about_files in (config.init_command(), config.validate, config.schema):
        app.command()(about_files)
    app.command()(migrate.migrate)
    app.command()(running.run)
    app.command()(running.estimate)
    app.command()(report.report)
    app.command()(report.compare)
    app.command()(reproduce.reproduce)
    app.command()(fit.fit)
    for name, verb in update.commands().items():
        app.command(name)(verb)
    app.command()(evaluate.command())
    app.command()(ask.recommend_command())
    for asking in (ask.similar, ask.explain):
        app.command()(asking)
    app.command()(export.export)
    app.command()(serve.serve)
    app.add_typer(events.app(), name="events")
    app.add_typer(data.app(), name="data")
    app.add_typer(models.app(), name="models")
    app.command("compile")(compile.compile_kernels)
    app.command()(doctor.doctor)
    return typer.main.get_command(app)
