import json
import sys
from importlib import import_module

import pytest

from fmpair.experiment import pool

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_figures")]

FILE = """\
data: {generate: {users: 20, items: 15, events: 500}}
models: [popularity, {kind: fm-pair, factors: 2, epochs: 2}]
metrics: [ndcg@10]
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(FILE)
    return path


def test_run_shows_the_table_and_ends_with_the_path_of_the_report(fmpair, file):
    done = fmpair("run", "tiny.yaml")
    assert done.code == 0
    assert "popularity" in done.out and "fm-pair" in done.out
    assert done.out.splitlines()[-1] == "runs/tiny/report.html"
    assert (file.parent / "runs" / "tiny" / "report.html").stat().st_size > 1000
    why, *lines = done.err.splitlines()
    assert why.endswith("repeat an item of their user, so seen items are ranked too (seen: none)")
    assert [line[:7] for line in lines] == ["1 of 2:", "2 of 2:", "refitti", "writing"]


def test_the_same_command_again_has_nothing_to_do_but_the_report(fmpair, file):
    first = fmpair("run", "tiny.yaml", "--quiet")
    again = fmpair("run", "tiny.yaml")
    assert first.err == "" and again.err == "writing the report ...\n"
    assert first.out == again.out


def test_values_on_the_command_line_win_over_the_files(fmpair, file, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/bin/fmpair", "run", "tiny.yaml"])
    fmpair("run", "tiny.yaml", "models.1.factors=3", "seeds=[1, 2]", "-f", "elsewhere", "-q")
    told = json.loads((file.parent / "elsewhere" / "manifest.json").read_text())
    assert told["experiment"]["models"][1]["options"]["factors"] == 3
    assert told["seeds"] == [1, 2]
    assert told["command"] == "fmpair run tiny.yaml"


def test_a_device_is_that_of_all_models_that_have_one(fmpair, file):
    pytest.importorskip("torch")
    assert fmpair("run", "tiny.yaml", "--device", "torch", "-q").code == 0
    told = json.loads((file.parent / "runs" / "tiny" / "manifest.json").read_text())
    options = [model["options"].get("device") for model in told["experiment"]["models"]]
    assert options == [None, "torch"]


def test_a_device_that_is_none_is_refused(fmpair, file):
    answer = fmpair("run", "tiny.yaml", "--device", "gpu", "-q")
    assert answer.code == 1 and "device" in answer.err and "'gpu'" in answer.err


def test_an_ablation_needs_no_change_of_the_file(fmpair, file):
    done = fmpair("run", "tiny.yaml", "models.1.ablation=without", "-q")
    assert done.code == 0
    assert "Which fields help fm-pair: NDCG@10" in done.out and "all fields" in done.out


def test_recommend_takes_the_run_folder_for_its_winner(fmpair, file):
    fmpair("run", "tiny.yaml", "-q")
    ranked = fmpair("recommend", "runs/tiny", "--user", "user-001", "-n", "3")
    assert ranked.code == 0 and len(ranked.out.splitlines()) == 4


def test_a_folder_without_a_model_says_what_to_do(fmpair, file):
    fmpair("run", "tiny.yaml", "output.refit=false", "-q")
    answer = fmpair("recommend", "runs/tiny", "--user", "user-001")
    assert answer.code == 1 and "holds no model" in answer.err


def test_a_failed_cell_gives_exit_code_1_after_all_others_are_done(fmpair, file):
    file.write_text(FILE.replace("epochs: 2", "epochs: 2, context: [wether]"))
    done = fmpair("run", "tiny.yaml", "-q")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "1 of 2 cells failed; the same command retries them"
    assert done.out.splitlines()[-1] == "runs/tiny/report.html"


def test_where_every_model_fails_one_line_says_so_and_report_says_it_again(fmpair, file):
    broken = FILE.replace("popularity, ", "").replace("epochs: 2", "epochs: 2, context: [wether]")
    file.write_text(broken)
    done = fmpair("run", "tiny.yaml", "-q")
    line = "no model finished: all 1 cells failed, first fm-pair: unknown context column 'wether'"
    assert done.code == 1 and done.err.startswith(line) and done.err.count("\n") == 1
    again = fmpair("report", "runs/tiny")
    assert (again.code, again.err) == (1, done.err)
    assert "No model finished" in (file.parent / "runs/tiny/report.html").read_text()
    both = fmpair("compare", "runs/tiny", "runs/tiny")
    assert both.code == 1 and both.err.count("\n") == 1


def test_a_winner_that_cannot_be_fitted_again_is_said_with_exit_code_1(fmpair, file, monkeypatch):
    assert fmpair("run", "tiny.yaml", "-q").code == 0

    def full(*_):
        raise MemoryError("no room")

    monkeypatch.setattr("fmpair.experiment.tuning.fit_to_epoch", full)
    done = fmpair("run", "tiny.yaml", "-q", "seeds=[0, 1]")
    assert done.code == 1
    assert done.err.endswith(" failed on all events: MemoryError: no room\n")
    asked = fmpair("recommend", "runs/tiny", "--user", "user-001")
    assert asked.code == 1 and "MemoryError: no room" in asked.err, "and no older model answers"


def test_a_mistake_in_the_file_is_said_before_anything_is_made(fmpair, file):
    file.write_text(FILE.replace("factors", "factor"))
    done = fmpair("run", "tiny.yaml")
    assert done.code == 1 and "'factors'" in done.err
    assert not (file.parent / "runs").exists()


def test_estimate_says_what_a_run_will_take_and_makes_nothing(fmpair, file):
    said = fmpair("estimate", "tiny.yaml", "seeds=[0, 1]")
    assert said.code == 0
    assert "4 cells" in said.out.splitlines()[-1] and "of memory" in said.out.splitlines()[-1]
    assert "popularity" in said.out and not (file.parent / "runs").exists()


def test_estimate_names_the_model_that_it_tries_and_hides_what_short_fits_say(fmpair, file):
    said = fmpair("estimate", "tiny.yaml", "models=[popularity, {kind: fm-pair, epochs: 1}]")
    lines = [line for line in said.err.splitlines() if "matplotlib" not in line]
    assert lines == [
        "reading the events ...",
        "trying popularity briefly, 1 of 2 ...",
        "trying fm-pair briefly, 2 of 2 ...",
    ]


def test_without_matplotlib_it_is_said_first_that_there_will_be_no_figures(
    fmpair, file, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    line = "no figures without matplotlib: pip install 'fmpair[report]'"
    assert fmpair("run", "tiny.yaml").err.splitlines()[0] == line
    assert fmpair("report", "runs/tiny").err.splitlines() == [line]
    assert (file.parent / "runs/tiny/report.html").stat().st_size > 1000


def test_an_interrupt_is_one_line_and_exit_code_130(fmpair, file, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fmpair.experiment.cell.evaluate", interrupted)
    done = fmpair("run", "tiny.yaml", "-q")
    assert done.code == 130
    assert done.err == "stopped: 0 of 2 cells are done; the same command resumes the run\n"


OWN = """\
from fmpair import Popularity

class Model:
    def __init__(self, size=1):
        self.size = size

    def fit(self, data):
        return Popularity().fit(data)
"""


def test_code_beside_the_file_runs_only_where_it_is_allowed(fmpair, file):
    (file.parent / "own_model_of_verbs.py").write_text(OWN)
    own = "models.0={kind: 'own_model_of_verbs:Model', size: 3}"
    for verb in ("run", "estimate"):
        refused = fmpair(verb, "tiny.yaml", own)
        assert refused.code == 1 and "--allow-code" in refused.err
    assert not (file.parent / "runs").exists()
    done = fmpair("run", "tiny.yaml", own, "--allow-code", "--workers", "2", "-q")
    assert done.code == 0, done.err
    assert "own_model_of_verbs:Model" in done.out


def test_a_run_goes_on_only_with_the_same_permission(fmpair, file):
    (file.parent / "own_model_again.py").write_text(OWN)
    own = "models.0={kind: 'own_model_again:Model'}"
    assert fmpair("run", "tiny.yaml", own, "--allow-code", "-q").code == 0
    kept = (file.parent / "runs" / "tiny" / "experiment.json").read_text()
    assert "own_model_again:Model" in kept and "allow_code" not in kept
    again = fmpair("run", "tiny.yaml", own, "-q")
    assert again.code == 1 and "allow_code=True" in again.err
    assert fmpair("report", "runs/tiny").code == 0, "a report runs nothing"


def test_the_report_of_an_interrupted_run_names_what_is_not_run_yet_and_how_to_go_on(
    fmpair, file, monkeypatch
):
    monkeypatch.setattr(sys, "argv", ["/bin/fmpair", "run", "tiny.yaml", "seeds=[1, 2]"])
    run_cell, done = pool.run_cell, []

    def interrupted(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(arguments)
        return run_cell(*arguments)

    with monkeypatch.context() as changed:
        changed.setattr(pool, "run_cell", interrupted)
        assert fmpair("run", "tiny.yaml", "seeds=[1, 2]", "-q").code == 130
    said = fmpair("report", "runs/tiny")
    line = "1 of 4 repeats is not run yet (fm-pair): fmpair run tiny.yaml 'seeds=[1, 2]' continues"
    assert said.code == 0 and f"{line} the run." in said.err
    page = (file.parent / "runs" / "tiny" / "report.md").read_text()
    assert "1 of 4 repeats is not run yet (fm-pair)" in page
    assert "failed" not in page and "Failures" not in page
    assert fmpair("run", "tiny.yaml", "seeds=[1, 2]", "-q").code == 0
    assert "not run yet" not in (file.parent / "runs" / "tiny" / "report.md").read_text()


def test_the_report_of_a_run_interrupted_while_tuning_says_how_to_go_on(fmpair, file, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["/bin/fmpair", "run", "tiny.yaml"])
    monkeypatch.setattr(import_module("fmpair.experiment.run"), "tune", interrupted)
    assert fmpair("run", "tiny.yaml", "-q").code == 130
    said = fmpair("report", "runs/tiny")
    assert said.code == 1
    assert "holds no results yet: fmpair run tiny.yaml continues the run" in said.err
