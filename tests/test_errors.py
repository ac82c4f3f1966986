"""Messages name options in the words of whoever reads them."""

import ast
import pickle
import re
from pathlib import Path

import pytest

from fmpair.errors import DataError, OptionError, in_file, in_python, named

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
    assert str(error) == f"say {python}, please" == error.told(in_python)
    assert error.told(in_file) == f"say {file}, please"


def test_errors_keep_their_options_from_one_process_to_another():
    error = pickle.loads(pickle.dumps(OptionError(f"{named('learning_rate')} must be above 0")))
    assert error.told(lambda name: f"--{name}") == "--learning_rate must be above 0"


@pytest.mark.parametrize("column", ['x\ue001["item"]\ue000', "\ue000\ue001"])
def test_a_name_from_the_data_that_looks_like_an_option_breaks_nothing(column):
    assert column in str(DataError(f"unknown column {column}"))
    assert in_python("ignore", [column]) == str(DataError(named("ignore", [column])))
