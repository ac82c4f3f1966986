"""Any text becomes a name that stays in its folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmpair.config.migration import LONGEST, file_name

HOSTILE = st.text() | st.text("./\\:~ -a\0\n") | st.sampled_from(["..", "/etc/x", "CON", "aux.b"])


@given(HOSTILE, st.lists(HOSTILE, max_size=3))
def test_no_name_leads_out_of_its_folder(text, taken):
    name = file_name(text, taken)
    path = Path("/folder") / f"{name}.yaml"
    assert path.resolve().parent == Path("/folder") and path.name == f"{name}.yaml"
    assert name.isascii() and name.isprintable() and not name.startswith((".", "-"))
    assert 0 < len(name) <= LONGEST + 20
    assert name.lower() not in {one.lower() for one in taken}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("first-cv-0.5", "first-cv-0.5"),
        ("../../.bashrc", "bashrc"),
        ("C:\\x y", "C-x-y"),
        ("nul", "experiment-nul"),
        ("…", "experiment"),
    ],
)
def test_what_is_plain_stays(text, name):
    assert file_name(text) == name


def test_names_that_fall_together_are_numbered():
    assert file_name("a/b", ["a-b"]) == "a-b-2"
    assert file_name("A b", ["a-b", "a-b-2"]) == "A-b-3"
