"""The verbs, put together."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fmpair import __version__
from fmpair.cli import (
    data_commands,
    evaluate_commands,
    experiment_commands,
    fit_commands,
    model_commands,
    report_commands,
    service_commands,
    setup_commands,
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
        return name, (fit_commands.command() if name == "fit" else found), rest


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
    app.command()(setup_commands.demo)
    for about_files in (
        experiment_commands.init_command(),
        experiment_commands.validate,
        experiment_commands.schema,
    ):
        app.command()(about_files)
    app.command()(experiment_commands.migrate)
    app.command()(experiment_commands.run)
    app.command()(experiment_commands.estimate)
    app.command()(report_commands.report)
    app.command()(report_commands.compare)
    app.command()(report_commands.reproduce)
    app.command()(fit_commands.fit)
    for name, verb in fit_commands.commands().items():
        app.command(name)(verb)
    app.command()(evaluate_commands.command())
    app.command()(model_commands.recommend_command())
    for asking in (model_commands.similar, model_commands.explain):
        app.command()(asking)
    app.command()(model_commands.export)
    app.command()(service_commands.serve)
    app.add_typer(service_commands.app(), name="events")
    app.add_typer(data_commands.app(), name="data")
    app.add_typer(model_commands.app(), name="models")
    app.command("compile")(setup_commands.compile_kernels)
    app.command()(setup_commands.doctor)
    return typer.main.get_command(app)
