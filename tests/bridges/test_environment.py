"""An environment of its own is made whole or not at all. A stand-in plays venv and pip."""

import os
import sys

import pytest

from fmpair.bridges import recbole
from fmpair.bridges.recbole import Environment
from fmpair.errors import FmpairError, MachineError

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
STAND_IN = """#!{python}
import pathlib, shutil, sys
if "venv" in sys.argv:
    (pathlib.Path(sys.argv[-1]) / "bin").mkdir(parents=True)
    shutil.copy(__file__, pathlib.Path(sys.argv[-1]) / "bin" / "python")
elif "broken==1" in sys.argv:
    print("ERROR: No matching distribution found for broken==1")
    sys.exit(1)
else:
    (pathlib.Path(__file__).parents[1] / "installed").write_text(" ".join(sys.argv))
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with #!")


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(recbole, "caches", lambda: tmp_path / "cache")
    monkeypatch.setattr(sys, "executable", str(python))
    return python


def test_it_is_made_once_with_the_pins_and_then_used():
    toy = Environment("toy", VERSION, ("toy==2.1", "numpy==1.0"))
    python = toy.ready()
    assert python.exists()
    assert (toy.folder / "installed").read_text().endswith("toy==2.1 numpy==1.0")
    (toy.folder / "installed").unlink()
    assert toy.ready() == python
    assert not (toy.folder / "installed").exists(), "nothing is installed twice"


def test_other_pins_make_another_one():
    one, other = (Environment("toy", VERSION, (f"toy=={n}",)) for n in (1, 2))
    assert one.folder != other.folder


def test_a_failed_installation_leaves_nothing_but_its_log():
    toy = Environment("toy", VERSION, ("broken==1",))
    with pytest.raises(MachineError, match="installing toy failed: ERROR: No matching") as caught:
        toy.ready()
    left = [path.name for path in recbole.caches().iterdir()]
    assert left == [f"{toy.folder.name}.log"]
    assert "\n" not in str(caught.value)


def test_a_python_that_is_not_there_is_named_before_anything_is_done():
    with pytest.raises(FmpairError, match=r"toy needs Python 3\.1: install python3\.1"):
        Environment("toy", "3.1", ("toy==1",)).check()
    Environment("toy", VERSION, ("toy==1",)).check()


def test_provenance_is_read_from_the_pins():
    pins = ("numpy==1.0", "toy==2.1")
    assert Environment("toy", VERSION, pins).provenance() == {"library": "toy", "version": "2.1"}
