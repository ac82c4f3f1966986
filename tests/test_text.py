"""Text of others made safe to print, and options described in docstrings."""

import unicodedata
from dataclasses import dataclass
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.models import FMPair, FMPairCD
from fmpair.text import (
    CLOSE,
    OPEN,
    descriptions,
    harmless,
    isolated,
    sections,
    whole,
    without_isolates,
)

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


class Able(Protocol):
    """colour: no option, though it looks like one."""


@dataclass
class Box:
    """A box.

    width, height: in metres;
        of the outside.
    colour: any.

    Inside
    ------
    lining: what it is lined with.
    depth: how deep it is.
    """

    width: int = 1
    height: int = 1
    colour: str = "red"
    lining: str = "none"
    depth: int = 2


@dataclass
class Chest(Box, Able):
    """A box with a lid.

    lid: flat or round.

    All other options are those of a box.
    """

    lid: str = "flat"
    depth: int = 5


NAMES = ["width", "height", "colour", "lining", "depth", "lid"]


def test_options_are_described_by_all_classes_that_declare_them():
    texts = descriptions(whole(Chest), NAMES)
    assert texts == {
        "width": "In metres; of the outside.", "height": "In metres; of the outside.",
        "colour": "Any.", "lining": "What it is lined with.", "depth": "How deep it is.",
        "lid": "Flat or round.",
    }  # fmt: skip


def test_a_name_within_a_sentence_begins_no_description():
    text = "unit: one list a user. relevant: items of a unit: all.\n  on: where to train on: here"
    assert descriptions(text, ["unit", "relevant", "on"]) == {
        "unit": "One list a user.", "relevant": "Items of a unit: all.",
        "on": "Where to train on: here.",
    }  # fmt: skip


def test_a_section_is_that_of_the_docstring_that_describes_the_option():
    assert sections(Chest, NAMES) == {
        "width": "", "height": "", "colour": "", "lining": "Inside", "depth": "Inside", "lid": "",
    }  # fmt: skip


def test_every_option_of_fm_pair_is_in_a_section_and_those_of_a_variant_come_first():
    names = list(FMPairCD.__dataclass_fields__)
    found = sections(FMPairCD, names)
    assert sorted(found) == sorted(names)
    assert found["target"] == "" and found["n_negatives"] == "Negatives"
    assert len([name for name, part in sections(FMPair, names).items() if not part]) == 12
