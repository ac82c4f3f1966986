"""Every message is one line that any terminal can show, whatever a file put into it."""

import pytest

from fmpair.errors import LONGEST, ConfigError, DataError, OptionError, UnknownError, one_line


@pytest.mark.parametrize("kind", [DataError, OptionError, UnknownError])
def test_a_name_with_line_breaks_does_not_break_the_line(kind):
    assert str(kind("column 'a\nb\r\nc' is no number")) == "column 'a b c' is no number"


def test_what_would_move_the_cursor_is_shown_and_not_sent():
    assert str(DataError("\x1b[2Jgone\x00 \ud800")) == r"\x1b[2Jgone\x00 \ud800"
    assert str(DataError("Zoë § 東京")) == "Zoë § 東京"


def test_of_a_long_message_both_ends_are_kept():
    said = str(DataError("no file " + "x" * 70_000 + ": give another"))
    assert said.startswith("no file xxx") and said.endswith("xxx: give another")
    assert LONGEST < len(said) < LONGEST + 10 and "x ... x" in said


def test_each_mistake_of_an_experiment_file_is_a_line():
    error = ConfigError(["a.yaml:1: one\nmistake", "a.yaml:2: another"])
    assert error.mistakes == ("a.yaml:1: one mistake", "a.yaml:2: another")
    assert str(error).splitlines() == list(error.mistakes)


def test_a_plain_line_stays_as_it_is():
    assert one_line("two  spaces stay") == "two  spaces stay"
