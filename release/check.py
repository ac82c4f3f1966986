"""Whether archives hold what a release must: python release/check.py dist.

The wheel has all sources and what stands beside them, the source archive has what builds and tests
it, and neither has anything that git does not keep.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "src/fmpair/"
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py")


def tracked() -> set[str]:
    """Every file that git keeps."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines())


def mistakes(folder: Path) -> list[str]:
    """What is wrong with the archives of a folder, one line each."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    wheel = folder / f"fmpair-{version}-py3-none-any.whl"
    source = folder / f"fmpair-{version}.tar.gz"
    missing = [f"{path} is missing" for path in (wheel, source) if not path.is_file()]
    return missing or [*_of_wheel(wheel), *_of_source(source, f"fmpair-{version}/")]


def _of_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    wanted = {name.removeprefix("src/") for name in tracked() if name.startswith(PACKAGE)}
    own = {name for name in held if name.startswith("fmpair/")}
    lost = [f"the wheel lacks {name}" for name in sorted(wanted - own)]
    more = [f"the wheel has {name}, which git does not keep" for name in sorted(own - wanted)]
    return lost + more


def _of_source(source: Path, folder: str) -> list[str]:
    with tarfile.open(source) as archive:
        held = {one.name.removeprefix(folder) for one in archive.getmembers() if one.isfile()}
    lost = [f"the source archive lacks {name}" for name in NEEDED if name not in held]
    more = held - tracked() - {"PKG-INFO", ".gitignore"}
    return lost + [f"the source archive has {name}" for name in sorted(more) if name]


if __name__ == "__main__":
    found = mistakes(Path(sys.argv[1]))
    sys.exit("\n".join(found) or 0)
