"""A file of named rules: what it holds, and every mistake in one line."""

import polars as pl
import pytest

from fmpair.config.read import named_rules, read_rules
from fmpair.data.vocabulary import Vocabulary
from fmpair.errors import ConfigError, OptionError
from fmpair.fitted.catalogue import Catalogue
from fmpair.fitted.rules import rules_of

GOOD = """
front_page:
  where: [in_stock=true, price<=50]
  limit: {brand: 2}
  boost: {brand: {ACME: 0.3}, sale: {true: 1}}
  diversity: 0.3
  exclude_shown: 7d
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
        exclude_shown="7d",
    )
    assert rules["front_page"].source == f"{tmp_path / 'rules.yaml'}: front_page"
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
        ("a: {where: {sale: true}}", r'a: where: {"sale": true} is no list of conditions'),
        ("a: {limit: [b]}", r'a: limit: \["b"\] gives no number per column: write limit: {"b'),
        ("a: {limit: {b: true}}", r'a: limit: {"b": true}: the number must be whole'),
        ("a: {limit: {b: 0}}\nc: {boost: {b: 1}}", "a: limit.*\n.*c: boost: .* gives no number"),
        ("a: {exclude_shown: 7}", "a: exclude_shown: 7 is neither a list of items nor a time"),
    ],
)
def test_mistakes_are_named_with_their_rules(tmp_path, text, reason):
    with pytest.raises(ConfigError, match=reason):
        read_rules(saved(tmp_path, text))


@pytest.mark.parametrize("options", ["where: [nothing=1]", "limit: {nothing: 1}"])
def test_a_rule_that_does_not_fit_a_model_is_named_with_its_file(tmp_path, options):
    rules = read_rules(saved(tmp_path, f"a: {{{options}}}"))["a"]
    catalogue = Catalogue(Vocabulary(pl.Series([1])), pl.DataFrame({"price": [5]}))
    with pytest.raises(OptionError, match=r"rules.yaml: a: (where|limit): unknown item column"):
        rules.check(catalogue)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the rules .*No such file"):
        read_rules(tmp_path / "none.yaml")
