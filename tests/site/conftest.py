"""Fixtures of the documentation site, built once per session."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "serve"))

# .ci/run puts axe-core here; it is too large for the repository.
AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"


@pytest.fixture(scope="session")
def axe():
    """Return the source of axe-core, an accessibility checker."""
    if not AXE.is_file():
        pytest.skip("axe-core is missing: npm pack axe-core, unpack into build/axe")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Return the folder of the site, built like `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    places = ["-c", "docs/site", "-d", folder / "trees", "docs", folder / "html"]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"
