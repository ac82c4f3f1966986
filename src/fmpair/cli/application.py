"""All commands as one application."""

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

VERBS = (  # in the order of --help
    *("demo", "init", "validate", "schema", "migrate", "run", "estimate", "report", "compare"),
    *("reproduce", "fit", "update", "fold-in", "evaluate", "recommend", "similar", "explain"),
    *("export", "index", "serve", "events", "items", "data", "models", "compile", "doctor"),
)


# Commands of other programs -> ours, for error messages.
FOREIGN_VERBS = {"train": "fit", "predict": "recommend", "test": "evaluate", "start": "serve"}


class Verbs(TyperGroup):
    """The commands in their order; `fit` gets its flags only when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ours = FOREIGN_VERBS.get(args[0]) if args else None
        if ours is not None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {ours!r}?")
        # The flags are the fields of FMPair, and importing it would make --help slow.
        name, resolved, rest = super().resolve_command(ctx, args)
        return name, (fit_commands.fit_command() if name == "fit" else resolved), rest


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fmpair {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


def _start(version: Version = False) -> None:
    """Context-aware recommendations from a table of clicks."""


@cache
def command() -> Any:
    """Return the whole command line; cached, since building it takes longer than most commands."""
    app = typer.Typer(cls=Verbs, add_completion=False)
    app.callback()(_start)
    commands = (
        *(setup_commands.demo, setup_commands.doctor),
        *(experiment_commands.init_command(), experiment_commands.validate),
        *(experiment_commands.schema, experiment_commands.migrate),
        *(experiment_commands.run, experiment_commands.estimate),
        *(report_commands.report, report_commands.compare, report_commands.reproduce),
        *(fit_commands.fit, fit_commands.update_command(), evaluate_commands.command()),
        *(model_commands.recommend_command(), model_commands.similar, model_commands.explain),
        *(model_commands.export, service_commands.index, service_commands.serve),
    )
    for function in commands:
        app.command()(function)
    app.command("fold-in")(fit_commands.fold_in_command())
    app.command("compile")(setup_commands.compile_kernels)
    app.add_typer(service_commands.app(), name="events")
    app.add_typer(service_commands.items_app(), name="items")
    app.add_typer(data_commands.app(), name="data")
    app.add_typer(model_commands.app(), name="models")
    return _flowing(typer.main.get_command(app))


def _flowing(program: Any) -> Any:
    """Join the lines of each paragraph of help, so that the terminal wraps them to its width."""
    for subcommand in getattr(program, "commands", {}).values():
        _flowing(subcommand)
    paragraphs = (program.help or "").split("\n\n")
    program.help = "\n\n".join(" ".join(text.split()) for text in paragraphs) or None
    return program
