import numpy as np
import polars as pl
import pytest

from fmpair.bridges.adapter import foreign
from fmpair.errors import DataError, MachineError, OptionError, TrainingError
from fmpair.experiment.cell import by_model
from fmpair.files import write_atomically


def raised(work):
    """What it raises."""
    with pytest.raises(Exception) as caught:
        work()
    return caught.value


def behind(error, cause):
    """An error of ours with another behind it."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [
    TrainingError("diverged"), OptionError("factors must be above 0"), DataError("no ratings"),
    ZeroDivisionError("division"), np.linalg.LinAlgError("singular matrix"),
    behind(TrainingError("a library says"), ValueError("no")),
])  # fmt: skip
def test_a_models_word_about_its_options_is_its_own(error):
    assert by_model(error)


@pytest.mark.parametrize("error", [
    MemoryError(), OSError(28, "No space left on device"), MachineError("killed"),
    RuntimeError("can't start new thread"), pl.exceptions.ComputeError("os error 28"),
    behind(TrainingError("a library failed"), MemoryError()),
    behind(DataError("cannot write"), pl.exceptions.ComputeError("os error 28")),
])  # fmt: skip
def test_what_the_machine_did_is_never_a_models_word(error):
    assert not by_model(error)


def test_a_fault_inside_foreign_code_stays_a_fault():
    def work():
        with foreign("a library"):
            raise MemoryError

    assert not by_model(raised(work))


def test_a_file_that_cannot_be_written_is_a_fault(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert not by_model(raised(lambda: write_atomically(tmp_path / "a", b"b")))
