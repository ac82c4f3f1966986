"""Every message is one line for any terminal, in the words of whoever reads it."""

import ast
import pickle
import re
from pathlib import Path

import pytest

from fmpair.data import Dataset
from fmpair.errors import (
    MAX_LENGTH,
    ConfigError,
    DataError,
    Notice,
    OptionError,
    UnknownError,
    in_file,
    in_python,
    named,
    one_line,
    unknown,
)


@pytest.mark.parametrize("kind", [DataError, OptionError, UnknownError])
def test_a_name_with_line_breaks_does_not_break_the_line(kind):
    assert str(kind("column 'a\nb\r\nc' is no number")) == "column 'a b c' is no number"


def test_what_would_move_the_cursor_is_shown_and_not_sent():
    assert str(DataError("\x1b[2Jgone\x00 \ud800")) == r"\x1b[2Jgone\x00 \ud800"
    assert str(DataError("Zoë § 東京")) == "Zoë § 東京"


def test_of_a_long_message_both_ends_are_kept():
    said = str(DataError("no file " + "x" * 70_000 + ": give another"))
    assert said.startswith("no file xxx") and said.endswith("xxx: give another")
    assert MAX_LENGTH < len(said) < MAX_LENGTH + 10 and "x ... x" in said


def test_each_mistake_of_an_experiment_file_is_a_line():
    error = ConfigError(["a.yaml:1: one\nmistake", "a.yaml:2: another"])
    assert error.mistakes == ("a.yaml:1: one mistake", "a.yaml:2: another")
    assert str(error).splitlines() == list(error.mistakes)


def test_a_plain_line_stays_as_it_is():
    assert one_line("two  spaces stay") == "two  spaces stay"


PACKAGE = Path(__file__).parents[1] / "src" / "fmpair"
ARGUMENT = re.compile(r"\b[a-z_]{2,}=(['\"\[(.]|True|False|None|[A-Z]{2,})")


def message(node):
    """The text of an expression, as far as it stands in the source."""
    parts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
    return " ".join(part for part in parts if isinstance(part, str))


def messages():
    """(where, text) of all that is raised in the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}", message(node.exc)


def test_no_message_writes_an_option_as_python_alone_would():
    found = list(messages())
    assert len(found) > 200
    assert {where: text for where, text in found if ARGUMENT.search(text)} == {}


@pytest.mark.parametrize("given, python, file", [
    (("item",), "item", "item"),
    (("item", ...), "item='...'", "item: ..."),
    (("ignore", ["a b"]), "ignore=['a b']", 'ignore: ["a b"]'),
    (("header", False), "header=False", "header: false"),
    (("unit", "user-context"), "unit='user-context'", "unit: user-context"),
    (("separator", ";"), "separator=';'", 'separator: ";"'),
])  # fmt: skip
def test_an_option_is_spelled_for_its_reader(given, python, file):
    error = DataError(f"say {named(*given)}, please")
    assert str(error) == f"say {python}, please" == error.spelled(in_python)
    assert error.spelled(in_file) == f"say {file}, please"


def test_errors_keep_their_options_from_one_process_to_another():
    error = pickle.loads(pickle.dumps(OptionError(f"{named('learning_rate')} must be above 0")))
    assert error.spelled(lambda name: f"--{name}") == "--learning_rate must be above 0"


@pytest.mark.parametrize("column", ["a`b", "x=1", ":option:`item`", ":option:`item=nonsense`"])
def test_a_column_that_looks_like_a_marked_option_breaks_nothing(column):
    assert str(DataError(named("ignore", [column]))) == in_python("ignore", [column])
    assert in_python(column) in str(DataError(f"unknown option {named(column)}")) or "`" in column


def test_messages_hold_printable_text_only():
    text = f"use {named('ignore', ['a`b'])} or {named('item', ...)}"
    assert text == 'use :option:`ignore=["a\\u0060b"]` or :option:`item=null`'
    assert text.isprintable()


def test_a_notice_stands_at_the_line_of_the_caller():
    with pytest.warns(Notice) as told:
        Dataset.from_frame({"user": ["a", None, "b"], "item": ["x", "y", "z"]})
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "known", "guess"),
    [
        ("ngcd", ["hit", "ndcg", "auc"], "ndcg"),
        ("als", ["implicit-als", "pure-svd"], "implicit-als"),
        ("knn", ["item-knn", "user-knn"], None),  # either may be meant
        ("svd", ["als", "ease"], None),
    ],
)
def test_a_swapped_or_shortened_name_gets_the_one_it_can_only_mean(name, known, guess):
    hint = f" Did you mean {guess!r}?" if guess else ""
    assert unknown("name", name, known) == f"unknown name {name!r}.{hint} Known: {', '.join(known)}"
