from fmpair.cli import doctor


def test_a_healthy_machine_has_no_finding_called_broken(fmpair, monkeypatch):
    monkeypatch.delenv("FMPAIR_DATA", raising=False)
    result = fmpair("doctor")
    assert result.code == 0, result.out
    assert "broken" not in result.out
    assert [name for name in doctor.CHECKS if name not in result.out] == []


def test_what_is_broken_is_named_and_the_exit_code_is_1(fmpair, monkeypatch, tmp_path):
    monkeypatch.setenv("FMPAIR_DATA", str(tmp_path / "none"))
    result = fmpair("doctor")
    assert result.code == 1
    assert "broken" in result.out and "which is no folder" in " ".join(result.out.split())
