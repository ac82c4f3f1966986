import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.text import CLOSE, OPEN, harmless, isolated, without_isolates

ARABIC, HEBREW = "نموذج", "מודל"


@pytest.mark.parametrize("sign", [
    "\x00", "\x07", "\x1b", "\r", "\x9b", "\u202e", "\u202b", "\u200f", "\u2067", "\u2069",
    "\u2068", "\u2028", "\ud800", "\U000e0041",
])  # fmt: skip
def test_what_steers_instead_of_being_read_is_made_visible(sign):
    assert harmless(f"a{sign}b") == "a\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize("text", [
    "FM-Pair", "naïve", ARABIC, HEBREW, "数", "👩\u200d💻", "می\u200cخواهم", "a\tb\nc", "−0.5 ± 1",
    f"{OPEN}{ARABIC}{CLOSE} and {OPEN}{HEBREW}{CLOSE}",
])  # fmt: skip
def test_what_is_there_to_be_read_stays(text):
    assert harmless(text) == text


def test_isolates_that_are_closed_before_they_open_are_no_isolates():
    assert OPEN not in harmless(f"{CLOSE}{ARABIC}{OPEN}")


def test_only_names_that_turn_their_neighbours_are_isolated():
    assert isolated("FM-Pair 2") == "FM-Pair 2"
    assert isolated(ARABIC) == f"{OPEN}{ARABIC}{CLOSE}"
    assert without_isolates(isolated(HEBREW)) == HEBREW


@given(st.text())
def test_nothing_in_a_name_reaches_beyond_it(name):
    shown = isolated(name)
    inside = shown[1:-1] if shown.startswith(OPEN) and shown.endswith(CLOSE) else shown
    depth = 0
    for letter in inside:
        depth += (letter == OPEN) - (letter == CLOSE)
        assert depth >= 0
        assert unicodedata.category(letter) not in ("Cc", "Cs") or letter in "\t\n"
    assert depth == 0
    shown.encode()
    assert harmless(shown) == shown
