"""A file of named rules: YAML with the options of `recommend` under each name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fmpair.config.document import parse_yaml, refused
from fmpair.errors import ConfigError, FmpairError, OptionError, in_file, unknown
from fmpair.fitted.rules import Rules, rules_of

KEYS = ("where", "limit", "boost", "diversity")


def read_rules(path: str | Path) -> dict[str, Rules]:
    """Return the rules of a YAML file by name; raise ConfigError for all mistakes in it.

    front_page:
      where: [in_stock=true, price<=50]
      limit: {brand: 2}
      boost: {brand: {ACME: 0.3}}
      diversity: 0.3
    """
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise refused(f"cannot read the rules {str(path)!r}: {reason}") from None
    values = parse_yaml(text, str(path)).values
    if not isinstance(values, Mapping) or not values:
        raise refused(f"{path}: give names with their rules, such as front_page: {{limit: ...}}")
    rules, mistakes = {}, []
    for name, options in values.items():
        try:
            rules[str(name)] = _rules(options)
        except FmpairError as error:
            mistakes.append(f"{path}: {name}: {error.spelled(in_file)}")
    if mistakes:
        raise ConfigError(mistakes)
    return rules


def named_rules(rules: Mapping[str, Rules], name: str) -> Rules:
    """Return the rules of a name; raise OptionError if there are none."""
    if name not in rules:
        raise OptionError(unknown("rules", name, rules))
    return rules[name]


def _rules(options: object) -> Rules:
    if not isinstance(options, Mapping):
        raise OptionError(f"rules are {', '.join(KEYS)}, not {options!r}")
    for key in options:
        if key not in KEYS:
            raise OptionError(unknown("rule", key, KEYS))
    return rules_of(**options) or Rules()
