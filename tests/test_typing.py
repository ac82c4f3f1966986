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


def mypy(script):
    return [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), script]


def pyright(script):
    if shutil.which("node") is None or not PYRIGHT.exists():
        pytest.skip("pyright is not installed: .ci/run fetches it where npm is")
    return ["node", PYRIGHT, "--pythonpath", sys.executable, script]


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_users_script_has_the_types_it_asserts(checker):
    done = subprocess.run(checker(SCRIPT), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_a_wrong_type_is_found(checker, tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(checker(tmp_path / "wrong.py"), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "DataFrame" in done.stdout
