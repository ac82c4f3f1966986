import tomllib
from pathlib import Path

from fmpair.cli import setup_commands

ROOT = Path(__file__).parents[2]


def test_a_healthy_machine_has_no_finding_called_broken(fmpair, monkeypatch):
    monkeypatch.delenv("FMPAIR_DATA", raising=False)
    result = fmpair("doctor")
    assert result.code == 0, result.out
    assert "broken" not in result.out
    assert [name for name in setup_commands.CHECKS if name not in result.out] == []


def test_what_is_broken_is_named_and_the_exit_code_is_1(fmpair, monkeypatch, tmp_path):
    monkeypatch.setenv("FMPAIR_DATA", str(tmp_path / "none"))
    result = fmpair("doctor")
    assert result.code == 1
    assert "broken" in result.out and "which is not a folder" in " ".join(result.out.split())


def test_a_machine_without_a_gpu_is_not_said_to_have_one(fmpair, monkeypatch):
    built = "PyTorch 9.9+cpu is built without CUDA"
    monkeypatch.setattr("fmpair.device.gpu_problem", lambda: built)
    monkeypatch.setattr(setup_commands, "CHECKS", {"GPU": setup_commands.CHECKS["GPU"]})
    result = fmpair("doctor")
    assert result.code == 0
    said = " ".join(result.out.split())
    assert f"GPU none no GPU is used: {built}" in said


def test_extras_are_listed_with_what_each_is_for(fmpair, monkeypatch):
    monkeypatch.delenv("FMPAIR_DATA", raising=False)
    monkeypatch.setattr(setup_commands, "CHECKS", {})
    monkeypatch.setitem(setup_commands.EXTRAS, "cornac", ("no_such_module", "models of Cornac"))
    said = " ".join(fmpair("doctor").out.split())
    assert "report installed figures in reports" in said
    assert "cornac models of Cornac: pip install 'fmpair[cornac]'" in said


def test_no_extra_is_forgotten():
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    assert set(setup_commands.EXTRAS) == set(extras) - {"test", "docs"}  # for those who work on it
