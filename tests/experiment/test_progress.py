import pytest
from tiny_run import FM, POPULARITY, TUNED, Broken, experiment, model

from fmpair.config.experiment import Output
from fmpair.experiment import plan
from fmpair.experiment.prepared import prepare
from fmpair.experiment.progress import duration, show_progress
from fmpair.experiment.run import run


def cells_of(*models, seeds=(0, 1)):
    asked = experiment("", *models, seeds=seeds)
    return plan.cells(asked, prepare(asked.data, asked.filters, asked.split), {})


def lines_of(cells, seconds, workers=1):
    """The lines of a run; seconds: of a cell, by model."""
    said = []
    with show_progress(said.append, {}) as progress:
        progress.expect(cells)
        for first in range(0, len(cells), workers):
            batch = cells[first : first + workers]
            for cell in batch:
                progress.begin(cell)
            for cell in batch:
                means = {"ndcg@10": 0.5}
                progress.end(cell, {
                    "error": None, "protocols": [{"means": means}],
                    "train_seconds": seconds[cell.model.name], "judge_seconds": 0.0,
                })  # fmt: skip
    return said


def lefts(lines):
    return [line.partition(" s, ")[2] for line in lines]


def test_the_time_left_is_that_of_the_models_that_are_left():
    said = lines_of(cells_of(POPULARITY, FM), {"popularity": 2.0, "FM": 30.0})
    assert lefts(said) == [
        "more than 6 s left", "more than 4 s left", "more than 2 s left", "",
        "about 90 s left", "about 60 s left", "about 30 s left", "",
    ]  # fmt: skip


def test_processes_side_by_side_share_the_time_left():
    said = lines_of(cells_of(FM), {"FM": 30.0}, workers=2)
    assert lefts(said)[:2] == ["about 45 s left", "about 30 s left"]


def test_a_run_says_that_it_refits_the_winner(tmp_path):
    said = []
    asked = experiment(tmp_path, POPULARITY, model(Broken), output=Output(str(tmp_path)))
    run(asked, progress=said.append)
    assert said[-1] == "refitting popularity on all events"
    said.clear()
    run(asked, progress=said.append)
    assert not any("refitting" in line for line in said), "the folder has the model"


def test_a_search_counts_its_trials_and_then_its_cells(tmp_path):
    said = []
    run(experiment(tmp_path, TUNED), progress=said.append)
    assert [line.partition(":")[0] for line in said] == [f"{n} of 6" for n in range(1, 7)]


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (720, "12 min"), (12_600, "3.5 h")])
def test_a_duration_has_one_unit(seconds, text):
    assert duration(seconds) == text
