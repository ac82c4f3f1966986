"""The command line. Nothing heavy is imported before a verb runs, so that help is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fmpair.cli.application import command
from fmpair.cli.flags import in_shell
from fmpair.cli.output import described, noting


def main() -> None:
    """The script `fmpair`."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code. An error is one line on standard error."""
    verbs = command()
    spell = in_shell(verbs, arguments)
    try:
        # Not `app()`: it handles interrupts, pipes and errors in its own way.
        with (
            verbs.make_context("fmpair", list(arguments) or ["--help"]) as context,
            noting(spell),
        ):
            context.command.invoke(context)
        sys.stdout.flush()
        return 0
    except (Exception, KeyboardInterrupt) as error:
        code, line = described(error, spell)
        if line:
            print(line, file=sys.stderr)
        return code
