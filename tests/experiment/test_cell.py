"""The unit of work: its id, and whose fault a failure is."""

import pickle
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fmpair.bridges.adapter import foreign_code
from fmpair.config.experiment import Candidate
from fmpair.errors import DataError, MachineError, OptionError, TrainingError
from fmpair.evaluation import Protocol
from fmpair.experiment.cell import VALIDATION, Cell, by_model
from fmpair.files import write_atomically
from fmpair.training.search import Range

MODEL = Candidate("FM", "fm-pair", {"factors": 4, "epochs": 2}, stop=3)
CELL = Cell("data", "split", 0, 0, MODEL, (Protocol(),), ("ndcg@10",))

OTHERS = [
    {"data": "other"}, {"split": "other"}, {"fold": 1}, {"seed": 1}, {"part": VALIDATION},
    {"protocols": (Protocol(seen="none"),)}, {"metrics": ("recall@10",)}, {"views": ("warmth",)},
    {"curve": 5}, {"stop_by": "mrr@10"}, {"model": replace(MODEL, kind="popularity")},
    {"model": replace(MODEL, options={"factors": 8, "epochs": 2})},
    {"model": replace(MODEL, context=())}, {"model": replace(MODEL, user_fields=("age",))},
    {"model": replace(MODEL, item_fields=())}, {"model": replace(MODEL, stop=None)},
    {"model": replace(MODEL, learns="train")},
]  # fmt: skip


@pytest.mark.parametrize("change", OTHERS, ids=lambda change: " ".join(change))
def test_whatever_changes_a_result_changes_the_id(change):
    assert replace(CELL, **change).id != CELL.id


@pytest.mark.parametrize(
    "model",
    [
        replace(MODEL, name="another label"),
        replace(MODEL, options={"epochs": 2, "factors": 4}),
        replace(MODEL, search={"learning_rate": Range(low=0.1, high=1)}),
    ],
)
def test_a_label_and_the_order_of_options_do_not_change_the_id(model):
    assert replace(CELL, model=model).id == CELL.id


def test_an_id_is_the_same_in_every_process_and_on_every_machine():
    spec = replace(CELL, model=Candidate("p", "popularity")).spec()
    assert {**spec, "fmpair": "0"} == {
        "fmpair": "0", "data": "data", "split": "split", "fold": 0, "seed": 0, "part": "test",
        "kind": "popularity", "options": {}, "context": None, "user_fields": None,
        "item_fields": None, "stop": None, "protocols": ["interaction/all/seen=train"],
        "metrics": ("ndcg@10",), "views": (), "curve": 0,
    }  # fmt: skip
    assert len(CELL.id) == 16 and int(CELL.id, 16)


def test_a_cell_can_be_sent_to_another_process():
    assert pickle.loads(pickle.dumps(CELL)).id == CELL.id


def test_another_version_of_fmpair_has_other_cells(monkeypatch):
    before = replace(CELL).id
    monkeypatch.setattr("fmpair.experiment.cell.__version__", "99")
    assert replace(CELL).id != before


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
        with foreign_code("a library"):
            raise MemoryError

    assert not by_model(raised(work))


def test_a_file_that_cannot_be_written_is_a_fault(monkeypatch, tmp_path):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert not by_model(raised(lambda: write_atomically(tmp_path / "a", b"b")))
