"""The rules of a request: those it names, and its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fmpair.errors import ModelFileError, OptionError
from fmpair.fitted.rules import Rules, rules_of
from fmpair.models.catalog import Model
from fmpair.serve.live_models import LiveModels
from fmpair.serve.replacement import ANYWAY
from fmpair.serve.requests import Recommend

NONE = (None,) * 5


def request_rules(known: Mapping[str, Rules], request: Recommend) -> Rules | None:
    """Return the rules of a request, None if it has none; known: those that it may name.

    A time as `exclude_shown` is for the event store, not for the rules.
    """
    own = (request.where, request.limit, request.boost, request.diversity, request.rules)
    if request.exclude_shown is None and own == NONE:
        return None
    base = None
    if request.rules:
        from fmpair.config.rules_file import named_rules  # imports all of config, in 0.5 s

        base = named_rules(known, request.rules)
    items = None if isinstance(request.exclude_shown, str) else request.exclude_shown
    return rules_of(request.where, request.limit, request.boost, request.diversity, items, base)


def rules_in_service(path: Path | None, models: LiveModels) -> dict[str, Rules]:
    """Return the rules of a file by name; they must fit every model in service, new ones too."""
    if path is None:
        return {}
    from fmpair.config.rules_file import read_rules

    rules = read_rules(path)

    def check(model: Model) -> None:
        for name, one in rules.items():
            try:
                one.check(model.catalogue)
            except OptionError as error:
                raise ModelFileError(f"rules {name!r} do not fit it: {error}; {ANYWAY}") from None

    for served in models.serving():
        for one in rules.values():
            one.check(served.model.catalogue)
    models.check_new = check
    return rules
