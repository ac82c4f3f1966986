"""What a public project has beside its sources: it agrees with them, and archives are checked."""

import io
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "release"))

import check  # noqa: E402
import sbom  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def loaded(path):
    return YAML(typ="safe").load((ROOT / path).read_text("utf-8"))


def test_the_citation_is_of_this_version():
    cited = loaded("CITATION.cff")
    assert cited["version"] == PROJECT["version"] and cited["license"] == PROJECT["license"]


def test_every_system_runs_the_quick_tests_on_every_python():
    matrix = loaded(".github/workflows/ci.yml")["jobs"]["quick"]["strategy"]["matrix"]
    systems = {re.sub(r"-(latest|[\d.]+)", "", name) for name in matrix["os"]}
    assert systems == {"ubuntu", "ubuntu-arm", "macos", "windows"}
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_what_ci_makes_can_be_made():
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z]+):.*##", text, re.MULTILINE))
    jobs = loaded(".github/workflows/ci.yml")["jobs"].values()
    made = [step["run"].split()[1:] for job in jobs for step in job["steps"]
            if step.get("run", "").startswith("make ")]  # fmt: skip
    assert made and {name for names in made for name in names if "=" not in name} <= targets


@pytest.mark.parametrize("form", sorted(ROOT.glob(".github/ISSUE_TEMPLATE/[!c]*.yml")))
def test_a_form_for_issues_asks_something(form):
    asked = loaded(form)
    assert asked["name"] and asked["description"]
    assert len({part["id"] for part in asked["body"]}) == len(asked["body"])


def archives(folder, wheel, source):
    """A wheel and a source archive that hold empty files of these names."""
    name = f"fmpair-{PROJECT['version']}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as file:
        for path in wheel:
            file.writestr(path, "")
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as file:
        for path in source:
            file.addfile(tarfile.TarInfo(f"{name}/{path}"), io.BytesIO())


def test_an_archive_that_lacks_a_file_or_has_one_too_many_is_refused(tmp_path, monkeypatch):
    kept = {"src/fmpair/a.py", "src/fmpair/page/b.css", *check.NEEDED}
    monkeypatch.setattr(check, "tracked", lambda: kept)
    assert len(check.mistakes(tmp_path)) == 2
    archives(tmp_path, ["fmpair/a.py", "fmpair/page/b.css"], kept)
    assert check.mistakes(tmp_path) == []
    archives(tmp_path, ["fmpair/a.py", "fmpair/secret.txt"], [*check.NEEDED[1:], "notes.txt"])
    assert check.mistakes(tmp_path) == [
        "the wheel lacks fmpair/page/b.css",
        "the wheel has fmpair/secret.txt, which git does not keep",
        f"the source archive lacks {check.NEEDED[0]}",
        "the source archive has notes.txt",
    ]


def test_the_list_of_parts_names_what_is_installed_with_version_and_licence():
    found = sbom.installed(sys.executable)
    assert "pip" not in {one[0] for one in found}
    own = [one for one in found if one[0] != "fmpair"]
    document = sbom.bill([["fmpair", PROJECT["version"], "MIT", []], *own])
    assert document["metadata"]["component"]["name"] == "fmpair"
    [numpy] = [part for part in document["components"] if part["name"] == "numpy"]
    assert numpy["purl"] == f"pkg:pypi/numpy@{numpy['version']}" and numpy["licenses"]
