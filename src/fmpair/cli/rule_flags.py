"""The flags of rules: `fmpair recommend --where 'price<=50' --limit brand=2`."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from fmpair.cli.flags import pairs, repeated_flag, text_flag
from fmpair.cli.input import model_file
from fmpair.errors import DataError, OptionError

if TYPE_CHECKING:
    from fmpair.events.store import EventStore
    from fmpair.models.catalog import Model as Fitted

_option, _repeated = partial(text_flag, "Rules"), partial(repeated_flag, "Rules")
RULE_FLAGS = (
    _repeated(
        "where",
        "CONDITION",
        "Only items that meet this condition (repeat): 'category=shoes,bags', 'price<=50', "
        "'not brand=ACME'.",
    ),
    _repeated("limit", "COLUMN=N", "At most N items per value of a column (repeat)."),
    _repeated("boost", "COLUMN:VALUE=X", "Add X to the scores of items with this value (repeat)."),
    _option(
        "diversity",
        "SHARE",
        "From 0 to 1: a higher value makes the items of a list less similar.",
        float | None,
    ),
    _option(
        "exclude_shown",
        "TIME",
        "Exclude the items of lists that a service logged for the user within this time, such as "
        "7d; uses --events.",
    ),
    _option(
        "events",
        "URL",
        "The event store of a service, whose events and changed items are used as in its lists: "
        "sqlite:PATH or postgresql://...",
    ),
    _option("rules", "FILE", "A YAML file of named rules; choose one with --rule."),
    _option("rule", "NAME", "The name of the rules to use from --rules."),
)


def with_rules(fitted: Fitted, values: dict[str, Any], model: str) -> tuple[Fitted, dict[str, Any]]:
    """Return a model, and the values of RULE_FLAGS as options of its `recommend`.

    With an event store, the model answers as a service of the store: with its events and changed
    items. model: the path of the model, beside which that store is by default.
    """
    options = _options(values)
    named_time = options["rules"].shown_within if "rules" in options else ""
    within, url = values["exclude_shown"] or named_time, values["events"]
    if not within and url is None:
        return fitted, options
    from fmpair.bridges.adapter import Requirement
    from fmpair.events.frame import shown_lists
    from fmpair.features.field import duration
    from fmpair.fitted.file import checksum_of

    Requirement("msgspec", "msgspec", "serve").check()
    from fmpair.serve.live_models import as_served
    from fmpair.serve.unknown_users import UnknownUsers

    if within:
        duration(within, "exclude_shown")  # a wrong time is told before a missing store
    with _opened(url, model) as store:
        fitted, _ = as_served(fitted, checksum_of(model_file(model)), store, UnknownUsers())
        if within:
            options["exclude_shown"] = shown_lists(store, within)
    return fitted, options


def _options(values: dict[str, Any]) -> dict[str, Any]:
    """Return the rules that flags and a file give, without those not given."""
    file, name = values["rules"], values["rule"]
    if (file is None) != (name is None):
        raise OptionError("--rules FILE and --rule NAME must be given together")
    options = {
        "where": values["where"],
        "limit": {c: _whole(c, n) for c, n in pairs(values["limit"], "--limit").items()},
        "boost": _boosts(values["boost"]),
        "diversity": values["diversity"],
    }
    options = {name: value for name, value in options.items() if value not in (None, [], {})}
    if file is not None:
        from fmpair.config.read import named_rules, read_rules

        options["rules"] = named_rules(read_rules(file), name)
    return options


def _opened(url: str | None, model: str) -> closing[EventStore]:
    from fmpair.events.store import beside, open_store

    try:
        return closing(open_store(url or beside(model_file(model)), make=False))
    except DataError as error:
        hint = "" if url else ": give the one with the lists that were shown as --events URL"
        raise DataError(f"{error}{hint}") from None


def _whole(column: str, text: str) -> int:
    if not text.isdecimal():
        raise OptionError(f"--limit {column} takes a whole number, not {text!r}")
    return int(text)


def _boosts(texts: list[str]) -> dict[str, dict[str, float]]:
    boosts: dict[str, dict[str, float]] = {}
    for text in texts:
        target, sign, amount = text.rpartition("=")
        column, colon, value = target.partition(":")
        try:
            number = float(amount)
        except ValueError:
            number = None
        if not (column and colon and value and sign) or number is None:
            raise OptionError(f"--boost takes COLUMN:VALUE=NUMBER, not {text!r}")
        boosts.setdefault(column, {})[value] = number
    return boosts
