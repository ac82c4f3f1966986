"""Type checkers see real types: mypy and pyright on a user's script."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "typed_script.py"
PYRIGHT = ROOT / "build" / "pyright" / "package" / "index.js"
WRONG = "from fmpair import FMPair\n\nrows: int = FMPair().fit('clicks.csv').recommend('ann')\n"

pytestmark = pytest.mark.slow


def mypy(*scripts):
    return [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *scripts]


def pyright(*scripts):
    if shutil.which("node") is None or not PYRIGHT.exists():
        pytest.skip("pyright is not installed: .ci/run fetches it where npm is")
    return ["node", PYRIGHT, "--pythonpath", sys.executable, *scripts]


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_users_script_has_the_types_it_asserts_and_a_wrong_type_is_found(checker, tmp_path):
    """In one run of the checker, most of whose time goes into reading the package."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    done = subprocess.run(checker(SCRIPT, wrong), cwd=ROOT, capture_output=True, text=True)
    errors = [line for line in done.stdout.splitlines() if "error:" in line]
    assert done.returncode == 1 and len(errors) == 1, done.stdout
    assert "wrong.py:3" in errors[0] and "DataFrame" in done.stdout
