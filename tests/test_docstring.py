"""What docstrings say of options, and in which section."""

from dataclasses import dataclass
from typing import Protocol

from fmpair.models import FMPair, FMPairCD
from fmpair.text import descriptions, sections, whole


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
