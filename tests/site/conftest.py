"""The site, built once; the browser stands beside the tests of the service's page."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "serve"))

# Where .ci/run puts axe-core, which is too large for the repository.
AXE = ROOT / "build" / "axe" / "package" / "axe.min.js"


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core, which finds what keeps people from reading a page."""
    if not AXE.is_file():
        pytest.skip("axe-core is not there: npm pack axe-core, unpacked into build/axe")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html"]
    places = ["-c", "docs/site", "-d", folder / "trees", "docs", folder / "html"]
    done = subprocess.run([*command, *places], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"
