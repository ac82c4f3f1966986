"""The rules of a request: those it names, and its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fmpair.config.rules_file import named_rules, read_rules
from fmpair.fitted.rules import Rules, rules_of
from fmpair.serve.live_models import LiveModels
from fmpair.serve.requests import ProblemError, Recommend

Shown = Callable[[Any, str], Sequence[Any]]  # (user, time such as 7d) -> items shown since


def nothing_shown(user: Any, within: str) -> Sequence[Any]:
    """Refuse a question for what was shown: this service does not know it."""
    raise ProblemError(501, "this service does not know what it showed: list the items instead")


def request_rules(
    known: Mapping[str, Rules], request: Recommend, shown: Shown = nothing_shown
) -> Rules | None:
    """Return the rules of a request, None if it has none; known: those that it may name."""
    if request.has_no_rules:
        return None
    base = named_rules(known, request.rules) if request.rules else None
    items = request.exclude_shown
    if isinstance(items, str):
        items = list(shown(request.user, items))
    return rules_of(request.where, request.limit, request.boost, request.diversity, items, base)


def rules_in_service(path: Path | None, models: LiveModels) -> dict[str, Rules]:
    """Return the rules of a file by name, which must fit every model in service."""
    rules = {} if path is None else read_rules(path)
    for served in models.serving():
        for one in rules.values():
            one.check(served.model.catalogue)
    return rules
