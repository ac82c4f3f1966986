"""The packages that docs/api/index.md declares public: pages import from them and nowhere else."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TABLE = (ROOT / "docs" / "api" / "index.md").read_text("utf-8")
PACKAGES = re.findall(
    r"`(fmpair(?:\.[a-z_]+)*)`", "".join(re.findall(r"^\|([^|]*)\|", TABLE, re.M))
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
IMPORT = re.compile(r"^\s*from (fmpair[\w.]*) import \(?([\w, \n]+)", re.MULTILINE)
FOR_AUTHORS = {"fmpair.fitted.file_checks"}  # for who writes a model: docs/models.md


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_of_a_package_can_be_imported(package):
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", []):
        assert getattr(module, name) is not None


def test_pages_import_from_public_packages_only():
    found = {module for page in PAGES for module, _ in IMPORT.findall(page.read_text("utf-8"))}
    assert found - set(PACKAGES) - FOR_AUTHORS == set()
