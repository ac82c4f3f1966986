"""The flags of rules: `fmpair recommend --where 'price<=50' --limit brand=2`."""

from __future__ import annotations

from typing import Any

from fmpair.cli.flags import Flag, flag, pairs
from fmpair.errors import OptionError

PANEL = "Rules"


def _repeated(name: str, metavar: str, help: str) -> Flag:
    return flag(name, list[str], [], metavar=metavar, help=help, rich_help_panel=PANEL)


RULE_FLAGS = (
    _repeated(
        "where",
        "CONDITION",
        "Only items for which this holds (repeat): 'category=shoes,bags', 'price<=50', "
        "'not brand=ACME'.",
    ),
    _repeated("limit", "COLUMN=N", "At most so many items per value of a column (repeat)."),
    _repeated("boost", "COLUMN:VALUE=X", "Add this to the scores of such items (repeat)."),
    flag(
        "diversity",
        float | None,
        None,
        metavar="SHARE",
        help="From 0 to 1: how much less alike the items of a list are.",
        rich_help_panel=PANEL,
    ),
    flag(
        "rules",
        str | None,
        None,
        metavar="FILE",
        help="A YAML file of named rules; choose one with --rule.",
        rich_help_panel=PANEL,
    ),
    flag(
        "rule",
        str | None,
        None,
        metavar="NAME",
        help="The rules of this name in --rules.",
        rich_help_panel=PANEL,
    ),
)


def rule_options(ruling: dict[str, Any]) -> dict[str, Any]:
    """Return the flags as options of `recommend`, without those that are not given."""
    file, name = ruling["rules"], ruling["rule"]
    if (file is None) != (name is None):
        raise OptionError("--rules FILE and --rule NAME belong together")
    options = {
        "where": ruling["where"],
        "limit": {c: _whole(c, n) for c, n in pairs(ruling["limit"], "--limit").items()},
        "boost": _boosts(ruling["boost"]),
        "diversity": ruling["diversity"],
    }
    if file is not None:
        from fmpair.config.rules_file import named_rules, read_rules

        options["rules"] = named_rules(read_rules(file), name)
    return {name: value for name, value in options.items() if value}


def _whole(column: str, text: str) -> int:
    if not text.isdecimal():
        raise OptionError(f"--limit {column} takes a whole number, not {text!r}")
    return int(text)


def _boosts(texts: list[str]) -> dict[str, dict[str, float]]:
    boosts: dict[str, dict[str, float]] = {}
    for text in texts:
        place, sign, amount = text.rpartition("=")
        column, colon, value = place.partition(":")
        try:
            number = float(amount)
        except ValueError:
            number = None
        if not (column and colon and value and sign) or number is None:
            raise OptionError(f"--boost takes COLUMN:VALUE=NUMBER, not {text!r}")
        boosts.setdefault(column, {})[value] = number
    return boosts
