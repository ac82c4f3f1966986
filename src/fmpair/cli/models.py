"""`models`: every model by name, and `models show`: the options of one."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fmpair.cli.show import Output, OutputFormat, emit, note

Name = Annotated[str, typer.Argument(metavar="NAME", help="One of `fmpair models`.")]


class Models(TyperGroup):
    """`models NAME` is `models show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["show", *args])


def list_models(context: typer.Context, output: Output = None, format: OutputFormat = None) -> None:
    """Every model by name, with one line about each."""
    if context.invoked_subcommand:
        return
    from fmpair.models.catalog import describe

    emit(describe(), output, format)


def show_model(name: Name, output: Output = None, format: OutputFormat = None) -> None:
    """The options of a model, with their defaults."""
    from fmpair.docstring import summary
    from fmpair.models import catalog

    frame = catalog.options(name)
    note(f"{name}: {summary(catalog.find(name).__doc__)}")
    note(catalog.missing(name) or "")
    emit(frame, output, format, by="group")


def app() -> typer.Typer:
    """The verbs as one group, which lists all models where no verb of it is named."""
    group = typer.Typer(cls=Models, help="Every model by name, and the options of each.")
    group.callback(invoke_without_command=True)(list_models)
    group.command("show")(show_model)
    return group
