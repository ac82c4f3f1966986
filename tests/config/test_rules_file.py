"""A file of named rules: what it holds, and every mistake in one line."""

import pytest

from fmpair.config.read import named_rules, read_rules
from fmpair.errors import ConfigError, OptionError
from fmpair.fitted.rules import rules_of

GOOD = """
front_page:
  where: [in_stock=true, price<=50]
  limit: {brand: 2}
  boost: {brand: {ACME: 0.3}, sale: {true: 1}}
  diversity: 0.3
plain: {}
"""


def saved(tmp_path, text):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return path


def test_rules_are_read_by_name(tmp_path):
    rules = read_rules(saved(tmp_path, GOOD))
    assert rules["front_page"] == rules_of(
        where=["in_stock=true", "price<=50"],
        limit={"brand": 2},
        boost={"brand": {"ACME": 0.3}, "sale": {True: 1}},
        diversity=0.3,
    )
    assert not rules["plain"]
    with pytest.raises(OptionError, match=r"unknown rules 'frontpage'. Did you mean 'front_page'"):
        named_rules(rules, "frontpage")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "give names with their rules"),
        ("a: [1]", "a: rules are where, limit, boost, diversity"),
        ("a: {wher: x=1}", "a: unknown rule 'wher'. Did you mean 'where'"),
        ("a: {where: price}", "a: where 'price' is not a condition"),
        ("a: {diversity: 2}", "a: diversity must be from 0 to 1"),
        ("a: {limit: {b: 0}}\nc: {boost: {b: 1}}", "a: limit must.*\n.*c: boost takes values"),
    ],
)
def test_mistakes_are_named_with_their_rules(tmp_path, text, reason):
    with pytest.raises(ConfigError, match=reason):
        read_rules(saved(tmp_path, text))


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the rules .*No such file"):
        read_rules(tmp_path / "none.yaml")
