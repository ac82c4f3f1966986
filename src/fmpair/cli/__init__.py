"""The command line. Nothing heavy is imported before a command runs, so that --help is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fmpair.cli.application import command
from fmpair.cli.flags import in_shell
from fmpair.cli.output import error_lines, printed_notices, replace_closed_streams


def main() -> None:
    """Run the script `fmpair`."""
    replace_closed_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are one line on standard error."""
    commands = command()
    spell = in_shell(commands, arguments)
    try:
        # Not `app()`, which handles interrupts, pipes and errors in its own way.
        with (
            commands.make_context("fmpair", list(arguments) or ["--help"]) as context,
            printed_notices(spell),
        ):
            context.command.invoke(context)
        sys.stdout.flush()
        return 0
    except (Exception, KeyboardInterrupt) as error:
        code, text = error_lines(error, spell)
        if text:
            print(text, file=sys.stderr)
        return code
